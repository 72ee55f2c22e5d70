"""What the benchmarks share: wait until the machine is quiet, and write down what was found.

Others' work on the cores widens every ratio: the load before and after stands in each result.
"""

import json
import os
import platform
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def wait(load: float, minutes: float) -> float:
    """Waits until the 1-minute load is below `load`, at most so many minutes; the load then."""
    deadline = time.monotonic() + 60 * minutes
    while (now := os.getloadavg()[0]) > load and time.monotonic() < deadline:
        print(f"load {now:.2f}: waiting for {load}", file=sys.stderr)
        time.sleep(15)
    return now


def save(result: Mapping[str, Any], path: Path | None, load_before: float) -> None:
    import breakeven

    whole = {
        **result,
        "load_before": round(load_before, 2),
        "load_after": round(os.getloadavg()[0], 2),
        "cores": os.cpu_count(),
        "breakeven": breakeven.__version__,
        "python": platform.python_version(),
    }
    text = json.dumps(whole, indent=1)
    print(text)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
