"""Our inference with ONNX Runtime against the loop people write, interleaved in one process, as ratios.

The bare loop makes a session of the same graph with the same threads and calls `run` on one batch in host
memory, over and over, timed call by call by perf_counter. The harness measures the case with `residency:
host` as an attempt does, its probes running: a stream of calls on a few batches that take turns. The ratio
harness / bare of the time of a call should be 1; the bound is 2 %.

    python benchmarks/bare_onnxruntime.py -o benchmarks/results/bare_onnxruntime-resnet18-cpu.json
"""

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import quiet

from breakeven import api, runtimes
from breakeven.records.case import Case
from breakeven.runtimes import Prepared
from breakeven.timing import Plan, sample_inference
from breakeven.timing.probes import probes_for


def harness(prepared: Prepared, case: Case, seconds: float) -> float:
    """Nanoseconds a call of the stream as an attempt finds them, its probes running."""
    watch = {probe.name: probe for probe in probes_for(case.device)}
    plan = Plan(budget_s=seconds, warmup_s=0.2 * seconds, eval_s=0.0, calls_s=0.0, tight=1e-9)
    samples = sample_inference(prepared, plan, watch=watch, on_progress=lambda progress: None)
    return statistics.median(block.ns / block.n_steps for block in samples.blocks if not block.warmup)


def bare_loop(case: Case) -> Callable[[float], float]:
    """A loop as people write it: infer(seconds) returns its median nanoseconds a call."""
    import onnxruntime as ort

    from breakeven.runtimes import host
    from breakeven.runtimes.inference.inputs import inputs_of
    from breakeven.runtimes.onnx import graph

    inputs = inputs_of(case)
    proto = graph.graph(inputs.model, inputs.weights, batch=inputs.batch)
    options = ort.SessionOptions()
    options.intra_op_num_threads = host.threads_of(case)
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    images = inputs.images(0, inputs.batch)

    def infer(seconds: float) -> float:
        times = []
        begin = time.perf_counter()
        while time.perf_counter() - begin < seconds:
            start = time.perf_counter_ns()
            session.run(None, {graph.INPUT: images})
            times.append(time.perf_counter_ns() - start)
        return statistics.median(times[len(times) // 5 :])

    return infer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--data", default="photos")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--minutes", type=float, default=10.0, help="stop after this long at the latest")
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--wait", type=float, default=0.0, help="minutes to wait for a quiet machine")
    parser.add_argument("-o", type=Path)
    args = parser.parse_args()
    flags = {
        "task": "infer", "device": ["cpu"], "data": [args.data], "batch": [args.batch],
        "tuning": ["onnxruntime"], "precision": ["fp32"],
    }  # fmt: skip
    study = api.load_study((args.model,), flags)
    (planned,) = api.plan(study, api.look(study)).cases
    # What `run` does: it takes host memory and returns it.
    tuning = dataclasses.replace(planned.case.tuning, residency="host")
    case = dataclasses.replace(planned.case, tuning=tuning)
    load = quiet.wait(args.load, args.wait)
    prepared = runtimes.load("onnxruntime").prepare(case)
    assert prepared.build is not None
    prepared.build()
    infer = bare_loop(case)
    harness(prepared, case, args.seconds)  # warms both up
    infer(args.seconds)
    result = {
        "what": "time of a call: harness / bare ONNX Runtime loop, pairs interleaved in one process",
        "bound": "0.98 <= ratio <= 1.02",
        "model": args.model, "batch": args.batch, "device": "cpu", "data": args.data,
        **quiet.pairs(
            lambda: harness(prepared, case, args.seconds),
            lambda: infer(args.seconds),
            args.pairs, args.minutes,
        ),
    }  # fmt: skip
    quiet.save(result, args.o, load)


if __name__ == "__main__":
    main()
