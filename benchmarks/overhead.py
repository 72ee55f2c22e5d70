"""What a case costs beyond its measured window: fork, building the case, probes, pipes, the line on disk.

The window is what the line holds: cold step, blocks, split steps, evaluation. Everything else between asking
for an attempt and its fsynced line is overhead; the bound is 0.5 s a case for simple-cnn on digits. The first
attempt of each parent waits for its imports and is listed apart, as are the checks, once a case and machine.

    python benchmarks/overhead.py -o benchmarks/results/overhead-cpu.json
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import quiet

from breakeven import api
from breakeven.records.lines import Attempt, Check
from breakeven.timing.parts import BLOCKS

TUNINGS = ("as-written", "on-device", "no-sync", "channels-last")


def measured_s(line: Attempt) -> float:
    ns: float = (line.cold_ns or 0) + sum(block.ns for block in (*line.blocks, *line.eval_blocks))
    split = line.phases or {}
    if split:
        ms = BLOCKS * split["steps"] * split["step_ms"] + split["busy_steps"] * sum(split["busy_ms"].values())
        ns += 1e6 * ms
    return ns / 1e9


def spread(values: list[float]) -> dict[str, float]:
    ranked = sorted(values)
    return {
        "n": len(ranked),
        "min": round(ranked[0], 3),
        "median": round(statistics.median(ranked), 3),
        "p90": round(ranked[min(len(ranked) - 1, int(0.9 * len(ranked)))], 3),
        "max": round(ranked[-1], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--model", default="simple-cnn")
    parser.add_argument("--data", default="digits")
    parser.add_argument("--replicates", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--load", type=float, default=0.7)
    parser.add_argument("--wait", type=float, default=0.0, help="minutes to wait for a quiet machine")
    parser.add_argument("-o", type=Path)
    args = parser.parse_args()
    flags = {
        "device": [args.device], "data": [args.data], "tuning": list(TUNINGS),
        "set": [f"replicates={args.replicates}", f"max_replicates={args.replicates}",
                f"attempt_time={args.seconds}"],
    }  # fmt: skip
    load = quiet.wait(args.load, args.wait)
    begun: dict[str, float] = {}
    first: list[float] = []
    later: list[float] = []
    start_up: list[float] = []
    checks: list[float] = []
    seen: set[str | None] = set()
    checked = False

    def on_event(event: api.Event) -> None:
        nonlocal checked
        now = time.perf_counter()
        if event.kind == "attempt":
            if event.phase == "start":
                checked = "check" in begun  # then the check has waited for the imports
                if checked:
                    checks.append(now - begun.pop("check"))
            begun[event.phase] = now
        elif isinstance(line := event.line, Attempt | Check):
            if line.outcome != "ok":
                raise SystemExit(f"{event.label}: {line.outcome}: {line.reason}")
            if isinstance(line, Check):
                return
            beyond = now - begun.pop("start") - measured_s(line)
            (later if line.parent_id in seen or checked else first).append(beyond)
            seen.add(line.parent_id)
            start_up.append((line.startup_ns or 0) / 1e9)

    study = api.load_study((args.model,), flags)
    with tempfile.TemporaryDirectory() as folder:
        api.measure(study, Path(folder), on_event=on_event)
    result = {
        "what": "seconds an attempt costs beyond its measured window",
        "bound": "later.median <= 0.5 for simple-cnn on digits",
        "model": args.model, "device": args.device, "data": args.data, "tunings": TUNINGS,
        "later": spread(later),
        "of_which_building_the_case": spread(start_up),
        "first_of_a_parent_with_its_imports": spread(first) if first else None,
        "checks_once_a_case": spread(checks) if checks else None,
        "seconds": [round(value, 3) for value in later],
    }  # fmt: skip
    quiet.save(result, args.o, load)


if __name__ == "__main__":
    main()
