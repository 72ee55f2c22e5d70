"""The openvino runtime: inference of declared models with OpenVINO's CPU plugin.

Knows nothing about clocks or studies. This module imports no openvino: the modules beside it do.
"""

from collections.abc import Iterator

from breakeven.records.case import Case
from breakeven.runtimes import Availability, Prepared

PRELOAD = (
    "numpy",
    "onnx",
    "openvino",
    "breakeven.runtimes.openvino.prepared",
)

INSTALL = 'pip install "breakeven[openvino]"'


def availability() -> Availability:
    """OpenVINO's version; its CPU plugin is part of it."""
    try:
        import onnx  # noqa: F401
        import openvino  # noqa: F401
    except ImportError as error:
        return Availability(reason=f"{error.name or 'openvino'} is not installed: {INSTALL}")
    from breakeven.runtimes import host
    from breakeven.runtimes.openvino import plugin

    return Availability(versions=plugin.versions(), places=(host.cpu(),))


def supports(case: Case) -> str | None:
    """The first reason why OpenVINO can't run this case anywhere, or None. Imports no openvino."""
    from breakeven.runtimes.inference.inputs import not_possible

    reasons = [*_impossible(case), *not_possible(case)]
    return f"openvino: {reasons[0]}" if reasons else None


def prepare(case: Case) -> Prepared:
    """Builds the case in this process."""
    from breakeven.errors import Unsupported
    from breakeven.runtimes.openvino import prepared

    if reason := supports(case):
        raise Unsupported(reason)
    return prepared.prepare(case)


def _impossible(case: Case) -> Iterator[str]:
    told = {
        f"no execution {case.tuning.execution}: use session": case.tuning.execution != "session",
        "its GPU plugin is for Intel's GPUs; only the CPU is built": case.device.kind == "cuda",
    }
    yield from (reason for reason, holds in told.items() if holds)
