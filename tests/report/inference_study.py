"""A study of inference with a planted truth: two devices, three tunings, a wrong INT8, a batch too large."""

from __future__ import annotations

import math
import random

from analysis.conftest import a_machine, a_study, file_of
from analysis.inference_lines import checked, infer_case, law_ms, served
from breakeven.analysis import understand
from breakeven.analysis.findings import Understanding
from breakeven.records.case import Case
from breakeven.records.lines import Attempt, Check

BATCHES = (1, 4, 16, 64, 256)
# Milliseconds a call: floor, cost besides the images; and images a second, by device, tuning and precision.
LAWS = {
    ("cpu", "eager", "fp32"): (0.0, 2.0, 120.0),
    ("cpu", "eager", "int8"): (0.0, 1.0, 500.0),
    ("cpu", "openvino", "fp32"): (0.0, 0.5, 200.0),
    ("cpu", "openvino", "int8"): (0.0, 0.4, 600.0),
    ("cuda:0", "eager", "fp32"): (2.5, 0.4, 8_000.0),
    ("cuda:0", "eager", "fp16"): (2.6, 0.4, 13_000.0),
    ("cuda:0", "compiled-graph", "fp32"): (0.5, 0.2, 11_000.0),
    ("cuda:0", "compiled-graph", "fp16"): (0.4, 0.2, 28_000.0),
}
WRONG = ("cpu", "eager", "int8")
TOO_LARGE = ("cuda:0", "eager", "fp32", 256)
WATTS = 350.0


def build_inference() -> Understanding:
    """What the analysis says of the planted lines."""
    rng = random.Random(6)
    lines: list[Attempt | Check] = []
    cases = []
    for batch in BATCHES:
        for (device, tuning, precision), law in LAWS.items():
            case = infer_case(device=device, tuning=tuning, precision=precision, batch=batch)
            cases.append(case)
            lines.append(_check(case, (device, tuning, precision) == WRONG))
            if (device, tuning, precision, batch) == TOO_LARGE:
                lines.append(_too_large(case, tuning))
                continue
            lines += [_process(case, i, tuning, law_ms(*law, batch), rng) for i in range(3)]
    study = {"title": "What a precision wins", "model": ["resnet18"], "batch": list(BATCHES), "replicates": 3}
    return understand([file_of(a_study(cases, study), a_machine(), *lines)])


def _process(case: Case, replicate: int, name: str, ms: float, rng: random.Random) -> Attempt:
    ms *= math.exp(rng.gauss(0, 0.01))
    calls = [1.1 * ms * math.exp(abs(rng.gauss(0, 0.03))) for _ in range(320)]
    energy = {"scope": "gpu_board", "gross_j": 2 * WATTS, "window_ns": 2_000_000_000}
    changes: dict[str, object] = {"energy": energy} if case.device.kind == "cuda" else {}
    if case.tuning.compile_mode or case.tuning.runtime != "torch":
        state = "cold" if case.tuning.compile_mode else None
        changes["compile"] = {"ns": 9_000_000_000, "captured": False, "cache_state": state}
    return served(case, replicate, ms, calls, name=name, memory={"host_rss_peak_mib": 900.0}, **changes)


def _check(case: Case, wrong: bool) -> Check:
    if wrong:
        told = {"agreement": {"asked": 0.9, "found": 0.58, "ok": False, "note": "1024 images"}}
        return checked(case, told, outcome="output_mismatch", reason="same top-1 for 58 % of the images")
    share = {"fp32": 1.0, "fp16": 0.999, "int8": 0.991}[case.tuning.precision]
    return checked(case, {"agreement": {"asked": 0.9, "found": share, "ok": True, "note": "1024 images"}})


def _too_large(case: Case, name: str) -> Attempt:
    return served(
        case, 0, 1.0, [], name=name, outcome="oom", reason="needs 18.2 GiB, 15.4 GiB are free", blocks=()
    )
