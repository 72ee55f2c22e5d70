"""What INT8 in ONNX Runtime and OpenVINO wins over torch's eager FP32 in inference, agreement beside it.

One run of the product a runtime: its INT8 and FP32 and torch's, processes of all cases in turn. The ratio is
the report's own (`inference.gains`): rate of the fastest over that of eager FP32, taken apart into what the
runtime and what the precision wins. Agreement is the check's share of the images whose first class stays that
of FP32; it means something with trained weights only, so name them (`--weights`).

    python benchmarks/int8_gain.py -o benchmarks/results/int8_gain-resnet18-cpu.json
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import quiet

from breakeven import api
from breakeven.analysis.inference_findings import FactorFinding
from breakeven.stats import Interval

RUNTIMES = ("onnxruntime", "openvino")


def interval(found: Interval | None) -> dict[str, float] | None:
    if found is None:
        return None
    return {name: round(getattr(found, name), 3) for name in ("estimate", "low", "high")}


def part(found: FactorFinding | None) -> dict[str, Any] | None:
    if found is None:
        return None
    return {"rate": interval(found.ratio), "calls": interval(found.calls), "verdict": found.verdict}


def gain(runtime: str, args: argparse.Namespace) -> dict[str, Any]:
    flags = {
        "task": "infer", "device": ["cpu"], "data": [args.data], "batch": [args.batch],
        "tuning": ["eager", runtime], "precision": ["fp32", "int8"],
        "set": [f"replicates={args.replicates}", f"max_replicates={args.replicates}",
                f"attempt_time={args.seconds}"],
    }  # fmt: skip
    if args.weights:
        flags["weights"] = args.weights
    study = api.load_study((args.model,), flags)
    with tempfile.TemporaryDirectory() as folder:
        api.measure(study, Path(folder))
        found = api.understand([api.read(folder)]).inference
    (won,) = found.gains
    best = next(case for case in found.cases if case.case_id == won.best_id)
    return {
        "best": f"{won.whole.candidate_name} {won.whole.candidate_precision}",
        "against": f"{won.whole.base_name} {won.whole.base_precision}",
        "whole": part(won.whole),
        "of_the_runtime": part(won.runtime), "of_the_precision": part(won.precision),
        "agreement": best.outputs.agreement, "images": best.outputs.images,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--data", default="photos")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--weights", help="trained weights, as `breakeven run --weights`")
    parser.add_argument("--replicates", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--wait", type=float, default=0.0, help="minutes to wait for a quiet machine")
    parser.add_argument("-o", type=Path)
    args = parser.parse_args()
    load = quiet.wait(args.load, args.wait)
    result = {
        "what": "rate of inference: the fastest of a runtime's INT8 and FP32 / torch eager FP32, by process",
        "bound": "whole.rate.estimate >= 4 with one of the runtimes",
        "model": args.model, "batch": args.batch, "device": "cpu", "data": args.data,
        "weights": "trained" if args.weights else "drawn from a seed",
        "runtimes": {runtime: gain(runtime, args) for runtime in RUNTIMES},
    }  # fmt: skip
    quiet.save(result, args.o, load)


if __name__ == "__main__":
    main()
