"""Where quantised graphs are kept between processes: calibration takes longer than what is measured after it.

Knows nothing about how one is made.
"""

import os
from collections.abc import Callable
from pathlib import Path

from breakeven.records.canonical import digest
from breakeven.runtimes import BUILD_CACHE
from breakeven.runtimes.onnx.inputs import CALIBRATION, Inputs
from breakeven.workloads.weights import weights_hash


def kept(inputs: Inputs, recipe: dict[str, str], suffix: str, make: Callable[[Path], None]) -> Path | None:
    """The file with the case's quantised graph, for any batch, made by `make(path)` if it is not there.

    Its name is a hash of all that it depends on: weights, data, `recipe` with the versions of what made it.
    None where no cache is named.
    """
    folder = os.environ.get(BUILD_CACHE)
    if not folder:
        return None
    work = inputs.case.work
    depends = recipe | {
        "weights": weights_hash(inputs.weights),
        "data": inputs.known.identity,
        "model": work.model,
        "classes": str(work.num_classes),
        "calibration": inputs.case.tuning.calibration or CALIBRATION,
    }
    path = Path(folder) / "int8" / f"{digest('int8', depends)}{suffix}"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Made aside and moved: a process that dies here leaves no half of a graph behind.
        aside = path.with_name(f"{os.getpid()}-{path.name}")
        make(aside)
        aside.replace(path)
    return path
