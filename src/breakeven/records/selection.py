"""Which case is the fastest at equal work on a device, by the attempts that may decide it.

Knows nothing about intervals. The fastest of several looks faster than it is (the winner's curse), so what is
chosen here is a name: its time comes from fresh `confirm` attempts only.
"""

import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from breakeven.records.case import Device, Tuning
from breakeven.records.ladder import numerics
from breakeven.records.lines import Attempt, Check, Purpose, steady_step_ns

DECIDING: tuple[Purpose, ...] = ("measure", "select")
FIRST = "as-written"
# Outcomes of a check that refute the case's label; a check that crashed or ran out of time refutes nothing.
REFUTING = frozenset({"device_mismatch", "precision_mismatch", "output_mismatch", "invalid"})

Place = tuple[str, Device]
"""(work_id, device): where cases compete."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """Case ids of one place: `reference` as written, the fastest of its numerics and of any. None: no number.

    `candidates` gave a number; `names` are those of their tunings, `evidence` their lines.
    """

    reference: str | None
    same: str | None
    any: str | None
    candidates: tuple[str, ...]
    names: Mapping[str, str]
    evidence: tuple[str, ...]

    @property
    def wanted(self) -> tuple[str, ...]:
        """What has to be measured again, each case once; nothing where there was nothing to choose."""
        chosen = [case_id for case_id in (self.same, self.any) if case_id is not None]
        return (
            tuple(dict.fromkeys([*([self.reference] if self.reference else []), *chosen])) if chosen else ()
        )


def choices(
    attempts: Sequence[Attempt], pool: Collection[str], checks: Iterable[Check] = ()
) -> dict[Place, Choice]:
    """The choice of every work on every device. `pool`: cases of the study; a `select` attempt joins it.

    What a check refuted is no candidate, however fast it was before.
    """
    joined = set(pool) | {a.case_id for a in attempts if a.purpose == "select"}
    joined -= {check.case_id for check in checks if check.outcome in REFUTING}
    places: dict[Place, list[Attempt]] = {}
    for a in attempts:
        if a.case_id in joined and a.region == "train_step":
            places.setdefault((a.work_id, a.device), []).append(a)
    return {place: _choice(mine) for place, mine in places.items()}


def times_ns(attempts: Sequence[Attempt]) -> dict[str, float]:
    """Case_id -> nanoseconds a step, by the attempts that decide, on the unit that has most of them."""
    deciding = [a for a in attempts if a.purpose in DECIDING and a.outcome == "ok"]
    units = Counter(a.fingerprint_id for a in deciding)
    unit = max(units, key=lambda name: units[name], default=None)
    found: dict[str, list[float]] = {}
    for a in deciding:
        ns = steady_step_ns(a)
        if ns is not None and a.fingerprint_id == unit:
            found.setdefault(a.case_id, []).append(math.log(ns))
    return {case_id: math.exp(statistics.fmean(logs)) for case_id, logs in found.items()}


def _choice(attempts: Sequence[Attempt]) -> Choice:
    tunings: Mapping[str, Tuning] = {a.case_id: a.tuning for a in attempts}
    reference = next((a.case_id for a in attempts if a.tuning_name == FIRST), None)
    equal = _of_equal_work(attempts, reference)
    times = {case_id: ns for case_id, ns in times_ns(attempts).items() if case_id in equal}
    # Without the loop as written the numerics are those that nothing was set for.
    wanted = numerics(tunings[reference] if reference else Tuning())
    alike = [case_id for case_id in times if numerics(tunings[case_id]) == wanted]
    return Choice(
        reference=reference if reference in times else None,
        same=min(alike, key=lambda case_id: times[case_id], default=None),
        any=min(times, key=lambda case_id: times[case_id], default=None),
        candidates=tuple(times),
        names={a.case_id: a.tuning_name for a in attempts if a.tuning_name and a.case_id in times},
        evidence=tuple(a.attempt_id for a in attempts if a.purpose in DECIDING and a.case_id in times),
    )


def _of_equal_work(attempts: Sequence[Attempt], reference: str | None) -> set[str]:
    """The cases that did the work of the reference by their hashes; all where it has none to tell by."""
    seen: dict[str, set[tuple[tuple[str, str | None], ...]]] = {}
    for a in attempts:
        if a.purpose in DECIDING and a.outcome == "ok":
            seen.setdefault(a.case_id, set()).add(tuple(sorted(a.hashes.items())))
    wanted = seen.get(reference or "", set())
    return {case_id for case_id, mine in seen.items() if wanted in (set(), {()}) or mine == wanted}
