"""The greatest rate that LoadGen's Server scenario finds VALID: what to try next, from what was tried.

Knows nothing about clocks or processes. Everything follows from the trials alone, so that a stopped search
goes on where it was, and whoever reads the file comes to the answer that the search came to.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from breakeven.records.lines import Load, Purpose

STEP = 1.05
"""The search ends where the least rate that failed is within this factor of the greatest that held."""
STEPS_DOWN = 10
"""Rates, each lower by STEP, that are tried where fresh processes do not confirm what one had found."""

CONTRADICTED = "its VALID is contradicted by"
"""How a reason begins that takes LoadGen's verdict from a line."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One process at one target rate (queries a second): did LoadGen find it VALID?"""

    per_s: float
    held: bool
    purpose: Purpose = "select"


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """Rates at which a search starts and ends, and how many fresh processes have to confirm its answer."""

    start: float
    least: float
    most: float
    processes: int

    def __post_init__(self) -> None:
        if not 0 < self.least <= self.start <= self.most or self.processes < 1:
            raise ValueError(f"no bounds of a search: {self}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """The next trial."""

    per_s: float
    purpose: Purpose


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """`found`: `per_s` was confirmed, `failed` is the least rate above it that was not VALID. `beyond`: it
    was confirmed and nothing above was tried. `none`: not even `failed`, the least rate tried, held.
    """

    kind: Literal["found", "beyond", "none"]
    per_s: float | None = None
    failed: float | None = None


def next_trial(trials: Sequence[Trial], bounds: Bounds) -> Wanted | Answer:
    """What is missing: doubling or halving from `start`, bisection on logs, fresh processes to confirm."""
    tried = [trial for trial in trials if trial.purpose == "select"]
    held = max((trial.per_s for trial in tried if trial.held), default=None)
    failed = min((trial.per_s for trial in tried if not trial.held), default=None)
    if held is not None and failed is not None and held >= failed:
        # Close to the limit one process holds where another fails: what failed decides, fresh ones confirm.
        held = max((trial.per_s for trial in tried if trial.held and trial.per_s < failed), default=None)
    if held is None and failed is None:
        return Wanted(per_s=bounds.start, purpose="select")
    if held is None:
        assert failed is not None
        if failed <= bounds.least:
            return Answer(kind="none", failed=failed)
        return Wanted(per_s=max(failed / 2, bounds.least), purpose="select")
    if failed is None and held < bounds.most:
        return Wanted(per_s=min(2 * held, bounds.most), purpose="select")
    if failed is not None and failed / held > STEP:
        return Wanted(per_s=rounded((held * failed) ** 0.5), purpose="select")
    return _confirmed(trials, bounds, held, failed)


def _confirmed(trials: Sequence[Trial], bounds: Bounds, held: float, failed: float | None) -> Wanted | Answer:
    """Fresh processes at the rate found; where one of them fails, at the next lower one."""
    per_s = held
    for _ in range(STEPS_DOWN):
        mine = [trial for trial in trials if trial.purpose == "confirm" and trial.per_s == per_s]
        if all(trial.held for trial in mine):
            if len(mine) < bounds.processes:
                return Wanted(per_s=per_s, purpose="confirm")
            return Answer(kind="beyond" if failed is None else "found", per_s=per_s, failed=failed)
        failed = per_s
        if per_s <= bounds.least:
            break
        per_s = max(rounded(per_s / STEP), bounds.least)
    return Answer(kind="none", failed=failed)


def rounded(per_s: float) -> float:
    """To four digits: a rate that a line can name and that is met again when the file is read."""
    return float(f"{per_s:.4g}")


def trials_of(lines: Iterable[Load]) -> list[Trial]:
    """The trials among the load lines of one case that came to an end, in their order."""
    return [
        Trial(
            per_s=float(line.settings["server_target_qps"]),
            held=line.validity == "VALID" and contradiction(line) is None,
            purpose=line.purpose,
        )
        for line in lines
        if line.scenario == "server" and line.outcome == "ok" and line.validity is not None
    ]


def contradiction(line: Load) -> str | None:
    """Why the rest of a line contradicts its VALID; None where it does not, or there is none."""
    if line.validity != "VALID":
        return None
    if line.invalid_reasons:
        return f"{CONTRADICTED} its own reasons: {line.invalid_reasons[0]}"
    limit, p99 = line.settings.get("server_target_latency_ns"), line.latency_ns.get("p99")
    # LoadGen's early stopping asks more than that the percentile keeps the limit, never less.
    if line.scenario == "server" and isinstance(limit, int) and p99 is not None and p99 > limit:
        return f"{CONTRADICTED} its own p99, which is over the latency limit"
    return None


def bounds_of(lines: Iterable[Load]) -> Bounds | None:
    """The bounds of a search that has begun, as its first trial noted them."""
    for line in lines:
        if line.scenario == "server" and line.search:
            start, least, most, processes = (line.search[name] for name in NOTED)
            return Bounds(start=start, least=least, most=most, processes=int(processes))
    return None


NOTED = ("start_per_s", "least_per_s", "most_per_s", "processes")
"""How a line notes the bounds of its search."""


def noted(bounds: Bounds) -> dict[str, float]:
    """The bounds as a line holds them."""
    return dict(zip(NOTED, (bounds.start, bounds.least, bounds.most, bounds.processes), strict=True))
