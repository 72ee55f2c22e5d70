"""Where quantised graphs are kept between processes: calibration takes longer than what is measured after it.

Knows nothing about how one is made.
"""

import os
from collections.abc import Callable
from pathlib import Path

from breakeven.records.canonical import digest
from breakeven.runtimes import BUILD_CACHE
from breakeven.runtimes.inference.inputs import CALIBRATION, Inputs
from breakeven.workloads.weights import weights_hash


def kept(inputs: Inputs, recipe: dict[str, str], make: Callable[[Path], None]) -> Path | None:
    """The folder with the case's quantised graph, for any batch, filled by `make(folder)` if it is not there.

    Its name is a hash of all that it depends on: weights, data, `recipe` with the versions of what made it.
    None where no cache is named.
    """
    cache = os.environ.get(BUILD_CACHE)
    if not cache:
        return None
    work = inputs.case.work
    depends = recipe | {
        "weights": weights_hash(inputs.weights),
        "data": inputs.known.identity,
        "model": work.model,
        "classes": str(work.num_classes),
        "calibration": inputs.case.tuning.calibration or CALIBRATION,
    }
    folder = Path(cache) / "int8" / digest("int8", depends)
    if not folder.exists():
        # Made aside and moved: a process that dies here leaves no half of a graph behind.
        aside = folder.with_name(f"{folder.name}-{os.getpid()}")
        aside.mkdir(parents=True)
        make(aside)
        aside.rename(folder)
    return folder
