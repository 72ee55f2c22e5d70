"""The processes of a case: which attempts enter its numbers, and what the blocks of each one say.

Knows nothing about intervals, comparisons or full runs: one process at a time.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from breakeven import stats
from breakeven.records.blocks import Blocks, as_columns
from breakeven.records.lines import Attempt

Key = tuple[str | None, int]
"""(fingerprint_id, replicate): what two processes share to be paired. Ratios hold within one unit only."""

NS = 1e-9
OUTLIER = 5.0
"""Times the median step beyond which a block is pointed out (contract R5). It is kept all the same."""
UNEVEN = 0.1
"""Share by which mean and median step of a process may differ: beyond it they tell two different stories."""
SPILL, SPILL_MIB = 1.05, 64.0
"""By how much the framework's peak may exceed the growth of the device's use: others may give memory back."""
UNEVEN_CORE = 1.25
"""Factor between the speeds of one core that no noise explains: another host, clock or neighbour."""
TOLERANCE = 0.02
"""Share by which steady steps may move before they count as no level: that of warm-up (`timing.loop`)."""
STEP_REGIONS = ("train_step", "infer_call", "infer_stream")


@dataclass(frozen=True, kw_only=True, slots=True)
class Process:
    """What one process says: the median step for ratios, total over total for rates and forecasts (R14)."""

    attempt: Attempt
    step_s: float
    mean_step_s: float
    samples_per_s: float

    @property
    def key(self) -> Key:
        return key_of(self.attempt)


def key_of(attempt: Attempt) -> Key:
    return attempt.fingerprint_id, attempt.replicate


def has_outlier(attempt: Attempt) -> bool:
    """Whether a steady block took over OUTLIER times the usual step: a retrace, a fallback, a neighbour."""
    steady = as_columns(attempt.blocks).steady
    return steady is not None and steady.longest_ns > OUTLIER * steady.median_ns


def is_uneven(attempt: Attempt) -> bool:
    """Whether mean and median step differ by over UNEVEN: the level shifted, or many blocks were slow."""
    steady = as_columns(attempt.blocks).steady
    if steady is None or steady.median_ns <= 0:
        return False
    return abs(steady.ns / steady.n_steps / steady.median_ns - 1) > UNEVEN


def has_spilled(attempt: Attempt) -> bool:
    """Whether the framework held more memory than the device's use grew by: part of it lay elsewhere.

    A driver may give memory of the host instead of failing; the steps then cross the bus (contract R31). The
    device's use holds the framework's context as well, so it is the larger number otherwise.
    """
    held, grown = (attempt.memory.get(key) for key in ("torch_allocated_peak_mib", "device_used_delta_mib"))
    return held is not None and grown is not None and held > SPILL * max(grown, 0.0) + SPILL_MIB


def is_core_uneven(attempts: Sequence[Attempt]) -> bool:
    """Whether one core ran at clearly different speeds in the processes of a case (contract R20)."""
    speeds = [
        ns for a in attempts if isinstance(ns := a.observed.get("core_loop_ns"), int | float) and ns > 0
    ]
    return bool(speeds) and max(speeds) > UNEVEN_CORE * min(speeds)


def trend_of(blocks: Iterable[Blocks]) -> float | None:
    """How far the steady steps of these processes moved together (R4): logarithm, 0.0 for not, None unknown.

    Warm-up ends on few blocks where steps are slow; what came after it shows whether it had ended.
    """
    return stats.common_trend([one.steady_steps for one in blocks], tolerance=TOLERANCE)


def process(attempt: Attempt) -> Process | str:
    """The estimate of one process, or why it gives none."""
    blocks = as_columns(attempt.blocks)
    steady = blocks.steady
    if steady is None:
        held = not blocks.warmup.all()
        return "every steady block crosses an epoch's end" if held else "no block after warm-up"
    if steady.median_ns <= 0 or steady.samples <= 0:
        coarse = steady.median_ns <= 0
        return "blocks of no length: the clock was too coarse" if coarse else "blocks without samples"
    return Process(
        attempt=attempt,
        step_s=steady.median_ns * NS,
        mean_step_s=steady.ns / steady.n_steps * NS,
        samples_per_s=steady.samples / (steady.ns * NS),
    )


def latest(attempts: Iterable[Attempt]) -> list[Attempt]:
    """The last ok attempt of each replicate on each unit, of the purpose that estimates rest on.

    `select` attempts chose a winner, so their numbers flatter it. `confirm` attempts stand in where a case
    has no `measure` ones.
    """
    ok = [a for a in attempts if a.outcome == "ok"]
    for purpose in ("measure", "confirm"):
        found = {key_of(a): a for a in ok if a.purpose == purpose}
        if found:
            return [found[key] for key in sorted(found, key=lambda k: (k[1], k[0] or ""))]
    return []


def region_of(attempts: Sequence[Attempt]) -> str | None:
    """The step region that the case's numbers come from: two regions are two measurements (R3, R7)."""
    seen = {a.region for a in attempts if a.outcome == "ok"}
    return next((region for region in STEP_REGIONS if region in seen), None)


SELECTED = "measured to select a winner only"
"""Why a candidate of a search has no number: those that chose it are too good to be shown."""


def processes_of(attempts: Sequence[Attempt]) -> tuple[list[Process], str | None]:
    """Every process that gives a number, and else the reason why there is none."""
    region = region_of(attempts)
    here = [a for a in attempts if a.region == region]
    made = [process(a) for a in latest(here)]
    found = [p for p in made if isinstance(p, Process)]
    if found:
        return found, None
    if made:
        return [], next(p for p in made if isinstance(p, str))
    if any(a.outcome == "ok" for a in here):
        return [], SELECTED
    if any(a.outcome == "ok" and a.region == "train_run" for a in attempts):
        return [], "full runs only: no step was timed apart"
    return [], "no process ended ok"


def shared_keys(sides: Sequence[Collection[Key]]) -> list[Key]:
    """The processes that all sides have, in order, on the unit that has most of them.

    A process whose machine is unknown is on no unit: unknown never equals.
    """
    common = set(sides[0]).intersection(*sides[1:])
    counts = Counter(unit for unit, _ in common if unit is not None)
    unit = max(sorted(counts), key=lambda name: counts[name], default=None)
    return sorted((key for key in common if unit is not None and key[0] == unit), key=lambda key: key[1])


def all_looks(sides: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """At which numbers of processes some side might have got more: what is made of all sides stops there."""
    return tuple(sorted({look for looks in sides for look in looks}))


def main_unit(processes: Sequence[Process]) -> list[Process]:
    """The processes of the unit that has most of them: an interval across units is of another quantity."""
    units: dict[str | None, list[Process]] = {}
    for p in processes:
        units.setdefault(p.attempt.fingerprint_id, []).append(p)
    return max(units.values(), key=len) if units else []
