"""The tests of one piece of advice: every two cases that are set against each other, once, in one family.

The runner-up, the rules and the prices may ask the same of the same two: the answer is one. Knows nothing
about what is asked or said.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from breakeven import stats
from breakeven.analysis.advise_options import Candidate
from breakeven.analysis.ratios import FEWEST, MARGIN, MOVING, apart, busy, drift, one_unit, outrun
from breakeven.stats import Ratio, Verdict

SHARED = "something else used the machine in most processes that the two have in common"
NOT_IN_TURN = "the two were not measured in turn"
TOO_FEW = "too few processes in common for a verdict"


@dataclass(frozen=True, kw_only=True, slots=True)
class Versus:
    """`chosen` against `base`: how many times as good it is, or why that has no verdict. `factor`: what a
    price multiplies the ratio of times by; it moves the ratio, and leaves its spread."""

    base: Candidate
    chosen: Candidate
    ratio: Ratio | None
    why: str = ""
    factor: float = 1.0

    @property
    def asked(self) -> tuple[frozenset[str], float]:
        """What is asked: the two cases whichever way round, and the price."""
        return frozenset(c.option.case_id for c in (self.base, self.chosen)), round(
            max(self.factor, 1 / self.factor), 9
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """A comparison's verdict after the correction, and how many processes would decide it."""

    verdict: Verdict | None
    needed: int | None = None


def versus(base: Candidate, chosen: Candidate, factor: float = 1.0) -> Versus:
    """base / chosen of the run's or image's seconds times `factor`, paired by replicate."""
    ratio = ratio_of(base, chosen)
    why = NOT_IN_TURN if not in_turn(base, chosen) else SHARED if _busy(base, chosen) else ""
    why = why or (TOO_FEW if ratio is None or ratio.interval.n < FEWEST else "")
    if ratio is not None and factor != 1.0:
        ratio = stats.scaled(ratio, factor)
    if ratio is not None and not base.full and outrun(ratio, _moved(base, chosen)):
        why = why or MOVING
    return Versus(base=base, chosen=chosen, ratio=None if why else ratio, why=why, factor=factor)


def judged(found: Iterable[Versus]) -> list[Judged]:
    """The verdict of each, at 3 % and by Holm's correction over all that is asked, each once."""
    found = list(found)
    family = {v.asked: v.ratio.p_value for v in found if v.ratio is not None}
    adjusted = dict(zip(family, stats.holm(list(family.values())), strict=True))
    return [
        _judged(v.ratio, adjusted[v.asked], len(family)) if v.ratio is not None else Judged(verdict=None)
        for v in found
    ]


def _judged(ratio: Ratio, p_adjusted: float, tests: int) -> Judged:
    verdict = stats.verdict(ratio, margin=MARGIN, p_adjusted=p_adjusted)
    if verdict is not Verdict.UNCERTAIN:
        return Judged(verdict=verdict)
    return Judged(verdict=verdict, needed=stats.processes_to_decide(ratio, margin=MARGIN, tests=tests))


def ratio_of(base: Candidate, chosen: Candidate) -> Ratio | None:
    """base seconds / chosen seconds, paired by replicate on the unit that both share."""
    a, b = one_unit(base.seconds, chosen.seconds)
    looks = sorted({*base.measured.looks, *chosen.measured.looks})
    return stats.paired_ratio(a, b, looks=looks) if a and b else None


def _moved(base: Candidate, chosen: Candidate) -> float:
    """How far the steps of the two moved in the processes that both have."""
    keys = [key for key in base.seconds if key in chosen.seconds]
    return drift([(base.measured, keys), (chosen.measured, keys)])


def _busy(base: Candidate, chosen: Candidate) -> bool:
    """Whether others disturbed one of the two in most of the processes that both have."""
    keys = [key for key in base.seconds if key in chosen.seconds]
    return any(busy(one.measured, keys, "full" if one.full else "step") for one in (base, chosen))


def in_turn(base: Candidate, chosen: Candidate) -> bool:
    """Whether the two were measured in turn (R13): most of their processes by one parent, step by step."""
    shared = [key for key in base.seconds if key in chosen.seconds]
    return base.full or not apart(base.measured, chosen.measured, shared)
