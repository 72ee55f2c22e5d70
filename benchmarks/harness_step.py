"""The harness's step against a bare loop that calls the very same prepared step, in one process.

What is left of the difference is what the harness itself does while it measures: probes, progress, blocks.
Data are on the device, so that no loader adds noise. Both sides alternate (A B B A ...) and time as many
steps a block. The ratio harness / bare should be 1; the bound is 1 %.

    python benchmarks/harness_step.py --model resnet18 -o benchmarks/results/harness_step-resnet18-cpu.json
"""

import argparse
import statistics
import time
from pathlib import Path

import quiet

from breakeven import api, runtimes
from breakeven.records.case import Case
from breakeven.runtimes import Prepared
from breakeven.timing import Plan, sample_training
from breakeven.timing.probes import probes_for


def harness(prepared: Prepared, case: Case, seconds: float) -> tuple[float, int]:
    """(nanoseconds a step, steps a block) as an attempt finds them, its probes running."""
    prepared.next_epoch()
    watch = {probe.name: probe for probe in probes_for(case.device)}
    plan = Plan(budget_s=seconds, warmup_s=0.2 * seconds, eval_s=0.0, tight=1e-9, boundary=False)
    samples = sample_training(prepared, plan, watch=watch, on_progress=lambda progress: None)
    steady = [block for block in samples.blocks if not (block.warmup or block.boundary)]
    return statistics.median(b.ns / b.n_steps for b in steady), steady[-1].n_steps


def bare(prepared: Prepared, n_steps: int, seconds: float) -> float:
    """Nanoseconds a step of a loop that does nothing else."""
    prepared.next_epoch()
    begin, last, times = time.perf_counter(), False, []
    while not last:
        last = time.perf_counter() - begin > seconds
        start = time.perf_counter_ns()
        for _ in range(n_steps):
            prepared.step()
        prepared.sync()
        times.append((time.perf_counter_ns() - start) / n_steps)
    prepared.losses()
    return statistics.median(times[max(1, len(times) // 5) :])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--data", default="fashion-mnist")
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--minutes", type=float, default=10.0, help="stop after this long at the latest")
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--wait", type=float, default=0.0, help="minutes to wait for a quiet machine")
    parser.add_argument("-o", type=Path)
    args = parser.parse_args()
    flags = {"device": [args.device], "data": [args.data], "tuning": ["on-device"]}
    study = api.load_study((args.model,), flags)
    (planned,) = api.plan(study, api.look(study)).cases
    load = quiet.wait(args.load, args.wait)
    prepared = runtimes.load(planned.case.tuning.runtime).prepare(planned.case)
    _, n_steps = harness(prepared, planned.case, args.seconds)  # warms up, and finds the size of a block
    result = {
        "what": "step time: harness / bare loop of the same prepared step, pairs interleaved in one process",
        "bound": "0.99 <= ratio <= 1.01",
        "model": args.model, "device": args.device, "data": args.data, "steps_a_block": n_steps,
        **quiet.pairs(
            lambda: harness(prepared, planned.case, args.seconds)[0],
            lambda: bare(prepared, n_steps, args.seconds),
            args.pairs, args.minutes,
        ),
    }  # fmt: skip
    quiet.save(result, args.o, load)


if __name__ == "__main__":
    main()
