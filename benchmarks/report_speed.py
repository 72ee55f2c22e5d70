"""What a report of a large study costs: 10,000 attempt lines of 200 blocks each, to one HTML file.

The lines are a committed study's own, spread over 1,000 cases: their settings and facts stay, only the work's
identity and the times of the blocks are drawn anew. Bounds: 3 s and 500 MB to write the page, which opens in
Chromium in 1 s; 3 MB for the page of a study as people run it.

Seconds are CPU time of the one process that reads, understands and writes (user and system, every thread):
the wall clock of a machine that others use too says little, and stands beside it. Neighbours lengthen CPU
time too, for cores share caches: the load stands in the result, and the least of a few runs counts.

    python benchmarks/report_speed.py -o benchmarks/results/report_speed.json
"""

import argparse
import dataclasses
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import quiet

from breakeven.records.case import Case, applicable, parse_device
from breakeven.records.file import encode, read
from breakeven.records.lines import Attempt, Block
from breakeven.records.tuning import preset
from breakeven.workloads.models import MODELS

RESULTS = Path(__file__).parent.parent / "results"
TEMPLATE = RESULTS / "h200" / "break-even"
TUNINGS = ("as-written", "on-device", "no-sync", "channels-last", "bf16")
BATCHES = tuple(2**power for power in range(10))
DEVICES = {"cpu": "cpu", "cuda": "cuda:0"}
PROCESSES = 10
SAMPLES = 200
MOST_S, MOST_MB, MOST_PAGE_MB, MOST_OPEN_S = 3.0, 500.0, 3.0, 1.0


def cases(template: Case) -> Iterator[tuple[str, Case]]:
    """1,000 cases: models by batches by tunings on both devices."""
    names = [name for name in MODELS if name != "cyclegan"][:10]
    for kind, label in DEVICES.items():
        for tuning in TUNINGS:
            for model in names:
                for batch in BATCHES:
                    work = dataclasses.replace(template.work, model=model, batch=batch)
                    device = parse_device(label)
                    yield tuning, applicable(Case(work=work, tuning=preset(tuning, kind), device=device))


def lines(seed: int) -> Iterator[bytes]:
    """The bytes of the file, line by line; about 160 MB."""
    rng = random.Random(seed)
    source = read(TEMPLATE)
    every = list(cases(source.attempts[0].case))
    study = source.studies[-1]
    yield from (encode(line) for line in source.fingerprints)
    yield encode(dataclasses.replace(study, case_ids=tuple(case.case_id for _, case in every)))
    templates = {kind: next(a for a in source.attempts if a.device.kind == kind) for kind in DEVICES}
    for order, (tuning, case) in enumerate(every):
        level = math.log(5e5 if case.device.kind == "cuda" else 5e6) + 0.6 * math.log(case.work.batch)
        for replicate in range(PROCESSES):
            yield encode(_attempt(templates[case.device.kind], case, tuning, order, replicate, level, rng))


def _attempt(
    template: Attempt, case: Case, tuning: str, order: int, replicate: int, level: float, rng: random.Random
) -> Attempt:
    of_process = level + rng.gauss(0, 0.02)
    blocks = tuple(
        Block(
            n_steps=8,
            samples=8 * case.work.batch,
            ns=round(8 * math.exp(of_process + rng.gauss(0, 0.01))),
            warmup=index < SAMPLES // 10,
        )
        for index in range(SAMPLES)
    )
    return dataclasses.replace(
        template, case_id=case.case_id, work_id=case.work_id, tuning_id=case.tuning_id, work=case.work,
        tuning=case.tuning, device=case.device, tuning_name=tuning, replicate=replicate, order_index=order,
        parent_id=f"parent-{replicate}", outcome="ok", reason=None, flags=(), blocks=blocks, parameters=1000,
    )  # fmt: skip


def written(results: Path, page: Path) -> dict[str, float]:
    """CPU and wall seconds, and the most memory, of the process that writes the page."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    peak = subprocess.run(
        [sys.executable, "-c", _TOLD, "report", str(results), "-o", str(page), "--quiet"],
        check=True, capture_output=True, text=True, env=_compiled(page.parent),
    ).stderr  # fmt: skip
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "cpu_s": round(cpu, 2),
        "wall_s": round(wall, 2),
        "peak_mb": round(int(peak.split()[-1]) / 1000, 1),
        "page_mb": round(page.stat().st_size / 1e6, 2),
    }


def _compiled(folder: Path) -> dict[str, str]:
    """An environment in which modules are compiled once, as an installer compiles them: not in every run."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


# The process says its own peak: that of all children together would be the largest of any.
_TOLD = """
import atexit, resource, sys
atexit.register(lambda: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr))
from breakeven.cli import main
main()
"""


def opened(pages: dict[str, Path]) -> dict[str, dict[str, float]] | None:
    """Milliseconds until a page was loaded, and until its first chart was drawn; None without a browser."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    found = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"]
        )
        for name, path in pages.items():
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            page.goto(path.as_uri(), wait_until="load")
            load = page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd")
            page.wait_for_function("document.querySelector('.chart svg')", timeout=20_000)
            drawn = page.evaluate("performance.now()")
            found[name] = {"load_ms": round(load), "first_chart_ms": round(drawn)}
            page.close()
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="write the lines and pages here and leave them")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("-o", type=Path)
    parser.add_argument("--wait", type=float, default=0.0, help="minutes to wait for a quiet machine")
    args = parser.parse_args()
    load = quiet.wait(0.7, args.wait)
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        large = folder / "results.jsonl"
        if not large.exists():
            with large.open("wb") as file:
                file.writelines(lines(args.seed))
        pages = {"large": folder / "large.html"}
        runs = [written(large, pages["large"]) for _ in range(args.repeats)]
        normal = {}
        for study in sorted(RESULTS.glob("*/*/results.jsonl")):
            name = f"{study.parent.parent.name}/{study.parent.name}"
            pages[name] = folder / f"{name.replace('/', '-')}.html"
            normal[name] = written(study, pages[name])
        result = {
            "what": "a report of 10,000 attempt lines of 200 blocks, and of the committed studies",
            "bounds": {
                "large.cpu_s": MOST_S, "large.peak_mb": MOST_MB, "studies.page_mb": MOST_PAGE_MB,
                "opened.load_ms": 1000 * MOST_OPEN_S,
            },
            "large": {
                "attempts": 2 * 5 * 10 * 10 * PROCESSES,
                "file_mb": round(large.stat().st_size / 1e6, 1),
            }
            | min(runs, key=lambda run: run["cpu_s"]),
            "large_every_run": runs,
            "studies": normal,
            "opened": opened(pages),
        }  # fmt: skip
    quiet.save(result, args.o, load)


if __name__ == "__main__":
    main()
