"""Whether the parts of a work are known and fit together: data set, model, shape, classes, loss.

Knows nothing about runtimes, nor about what is on this machine.
"""

from collections.abc import Iterator

from breakeven.errors import Unsupported, UserError
from breakeven.records.case import Work
from breakeven.workloads import data, models
from breakeven.workloads.data import DataEntry


def misfits(work: Work) -> Iterator[str]:
    """Why nothing could compute this work, one reason each."""
    try:
        known = data.entry(work.data)
        models.model(work.model, num_classes=work.num_classes, input_shape=work.input_shape)
    except UserError as error:
        yield str(error)
        return
    translating = models.translates(work.model)
    if translating and not known.domains:
        yield f"{work.model} translates between two domains, which {work.data} has not"
    if work.recipe is not None and (work.recipe.loss == "cyclegan") != translating:
        yield f"loss {work.recipe.loss} is no loss of {work.model}"
    if work.num_classes < known.classes:
        yield f"{work.data} has {known.classes} classes, the model {work.num_classes}"
    if work.input_shape != known.shape:
        here, asked = ("x".join(map(str, shape)) for shape in (known.shape, work.input_shape))
        yield f"{work.data} has images of {here}, not {asked}"


def known_data(work: Work) -> DataEntry:
    """The catalog's entry of a work's data. Raises Unsupported where that is of another version."""
    known = data.entry(work.data)
    if work.data_version != known.version or work.data_hash not in (None, known.identity):
        raise Unsupported(f"data set {work.data} is here as {known.version!r}, not as {work.data_version!r}")
    return known
