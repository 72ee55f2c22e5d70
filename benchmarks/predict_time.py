"""How long `breakeven predict` takes from the shell, its validation included: seconds, median of several.

    python benchmarks/predict_time.py [RESULTS] [--names NAMES] [--runs N] [--plots DIR]

The processor time is told beside the wall's: on a machine that others use the second says something about
them. Nothing is cached between calls. `--plots` also draws what docs/predict.md shows.
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from quiet import save, wait

BOUND_S = 2.0
HERE = Path(__file__).parent
CPU = HERE.parent / "results/cpu/ladder"
GPU = HERE.parent / "results/h200/ladder"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("results", nargs="?", default=str(CPU))
    options.add_argument("--names", default="L4,RTX 4090,A100")
    options.add_argument("--runs", type=int, default=7)
    options.add_argument("--load", type=float, default=0.7, help="1-minute load to wait for")
    options.add_argument("--minutes", type=float, default=10.0, help="longest wait")
    options.add_argument("--plots", type=Path)
    asked = options.parse_args()
    if asked.plots is not None:
        draw(asked.plots)
        return 0
    load = wait(asked.load, asked.minutes)
    walls, processors = [], []
    for _ in range(asked.runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        command = [sys.executable, "-m", "breakeven", "predict", asked.results, "--for", asked.names]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        walls.append(time.perf_counter() - start)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        processors.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    median = statistics.median(walls)
    found = {
        "wall_s": walls,
        "wall_median_s": median,
        "processor_median_s": statistics.median(processors),
        "bound_s": BOUND_S,
    }
    save(found, HERE / "results" / "predict_time.json", load)
    return 0 if median < BOUND_S else 1


def draw(folder: Path) -> None:
    """The pictures of docs/predict.md."""
    from breakeven import api
    from breakeven.records.file import read
    from breakeven.report import charts, predict

    made = predict.report(api.predict([read(CPU)], "L4, RTX 4090, A100"))
    held = predict.report(api.predict([read(GPU)], "H200", show_all=True))
    by_name = {chart.name: chart for chart in made.charts}
    (folder / "predict-cpu.svg").write_text(charts.svg(by_name["forecast"]))
    (folder / "predict-errors.svg").write_text(charts.svg(by_name["errors"]))
    (folder / "predict-h200.svg").write_text(charts.svg(held.charts[0]))


if __name__ == "__main__":
    sys.exit(main())
