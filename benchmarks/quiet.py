"""What the benchmarks share: wait for a quiet machine, tell what others took of it, compare in pairs.

Others' work on the cores ruins a ratio. Pairs are judged by what others took, never by their own value: one
during which others had more than 5 % of the cores is kept in the result and left out of the interval.
"""

import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from breakeven import __version__
from breakeven.stats import paired_ratio

OTHERS = 0.05
"""Most of the machine's core seconds that other processes may have had during a pair that counts."""


def wait(load: float, minutes: float) -> float:
    """Waits until the 1-minute load is below `load`, at most so many minutes; the load then."""
    deadline = time.monotonic() + 60 * minutes
    while (now := os.getloadavg()[0]) > load and time.monotonic() < deadline:
        print(f"load {now:.2f}: waiting for {load}", file=sys.stderr)
        time.sleep(15)
    return now


@contextmanager
def others() -> Iterator[list[float]]:
    """Appends, at its end, the share of all core seconds that went to processes that are not ours."""
    found: list[float] = []
    busy, own, start = _busy_s(), sum(os.times()[:4]), time.perf_counter()
    yield found
    cores = (os.cpu_count() or 1) * (time.perf_counter() - start)
    # Jiffies of 10 ms: over a second the error is below 1 %.
    found.append(max(0.0, _busy_s() - busy - (sum(os.times()[:4]) - own)) / cores)


def _busy_s() -> float:
    user, nice, system, _, _, irq, softirq, steal, *_ = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def pairs(
    harness: Callable[[], float], bare: Callable[[], float], count: int, minutes: float
) -> dict[str, Any]:
    """Alternates both sides (A B B A ...) until `count` pairs were undisturbed, at most so many minutes."""
    both: dict[str, dict[int, float]] = {"harness": {}, "bare": {}}
    shares: dict[int, float] = {}
    deadline, pair = time.monotonic() + 60 * minutes, 0
    while len(_clean(shares)) < count and (time.monotonic() < deadline or pair < 2):
        with others() as share:
            for who in ("bare", "harness") if pair % 2 == 0 else ("harness", "bare"):
                both[who][pair] = {"harness": harness, "bare": bare}[who]()
        shares[pair] = share[0]
        ratio = both["harness"][pair] / both["bare"][pair]
        print(f"pair {pair}: harness / bare {ratio:.4f}, others {share[0]:.0%}", file=sys.stderr)
        pair += 1
    clean = _clean(shares)
    found = paired_ratio(*({k: both[who][k] for k in clean} for who in ("harness", "bare")))
    interval = found.interval if found else None
    return {
        "ratio": interval and round(interval.estimate, 4),
        "low": interval and round(interval.low, 4),
        "high": interval and round(interval.high, 4),
        "undisturbed_pairs": len(clean),
        "ratios": [round(both["harness"][k] / both["bare"][k], 4) for k in shares],
        "others": [round(share, 3) for share in shares.values()],
    }


def _clean(shares: Mapping[int, float]) -> list[int]:
    return [pair for pair, share in shares.items() if share <= OTHERS]


def save(result: Mapping[str, Any], path: Path | None, load_before: float) -> None:
    whole = {
        **result,
        "load_before": round(load_before, 2),
        "load_after": round(os.getloadavg()[0], 2),
        "cores": os.cpu_count(),
        "breakeven": __version__,
        "python": platform.python_version(),
    }
    text = json.dumps(whole, indent=1)
    print(text)
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
