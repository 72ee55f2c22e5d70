"""The best tuning of every work on every device, and the best of one device against that of another.

Knows nothing about how candidates were tried. The fastest of several flatters itself, so a chosen case is
named by the attempts that chose it and timed by fresh `confirm` attempts only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from breakeven.analysis.cases import Measured
from breakeven.analysis.findings import BestFinding, Contrast, RatioFinding
from breakeven.analysis.pairs import Pair, refusal
from breakeven.records.case import Device
from breakeven.records.ladder import numerics
from breakeven.records.selection import Choice

Place = tuple[str, Device]
NOT_AGAIN = "chosen, and not measured again yet"
NOTHING = "no candidate gave a number"


@dataclass(frozen=True, kw_only=True, slots=True)
class Best:
    """What was chosen, before the verdict on what it wins. `here`: its confirmed numbers, None without."""

    numerics: Literal["same", "any"]
    choice: Choice | None
    here: Measured | None
    reference: Measured | None

    @property
    def case_id(self) -> str | None:
        if self.choice is None:
            return None
        return self.choice.same if self.numerics == "same" else self.choice.any

    @property
    def pair(self) -> Pair | None:
        """As written against the best, both confirmed."""
        if self.here is None or self.reference is None or self.here is self.reference:
            return None
        return Pair(base=self.reference, candidate=self.here, refused=refusal(self.reference, self.here))

    def finding(self, win: RatioFinding | None) -> BestFinding:
        found = self.here.finding if self.here else None
        reasons = {}
        if found is None:
            reasons["step_s"] = NOTHING if self.case_id is None else NOT_AGAIN
        elif found.step_s is None:
            reasons["step_s"] = found.failure or found.reasons.get("step_s", "no number")
        if win is None and found is not None:
            same = self.here is self.reference
            reasons["win"] = "it is the loop as written" if same else "as written was not measured again"
        elif win is None:
            reasons["win"] = reasons["step_s"]
        return BestFinding(
            numerics=self.numerics,
            case_id=self.case_id,
            tuning_name=self.choice.names.get(self.case_id or "") if self.choice else None,
            precision=self.here.case.tuning.precision if self.here else None,
            candidates=len(self.choice.candidates) if self.choice else 0,
            step_s=found.step_s if found else None,
            point_s=found.step_point_s if found else None,
            win=win,
            flags=win.flags if win else found.flags if found else (),
            chosen=self.choice.evidence if self.choice else (),
            evidence=found.evidence if found else (),
            reasons=reasons,
        )


def best_of(choice: Choice | None, confirmed: Mapping[str, Measured]) -> list[Best]:
    """The best with the numerics of the loop as written, and the best with any."""
    reference = confirmed.get(choice.reference or "") if choice else None
    return [
        Best(
            numerics=kind,
            choice=choice,
            here=confirmed.get((choice.same if kind == "same" else choice.any) or "") if choice else None,
            reference=reference,
        )
        for kind in ("same", "any")  # type: tuple[Literal["same", "any"], ...]
    ]


def best_pairs(chosen: Mapping[Place, Choice], confirmed: Mapping[str, Measured], base: Device) -> list[Pair]:
    """Best against best for every device and the base, and the mixed pair, wherever both were confirmed."""
    found = []
    for (work_id, device), there in chosen.items():
        here = chosen.get((work_id, base))
        if device == base or here is None:
            continue
        sides: Sequence[tuple[Contrast, str | None, str | None]] = (
            ("best", here.same, there.same),
            ("best-any", here.any, there.any),
            ("mixed", here.reference, there.any),
        )
        for contrast, one, other in sides:
            a, b = confirmed.get(one or ""), confirmed.get(other or "")
            if a is not None and b is not None:
                found.append(Pair(base=a, candidate=b, refused=_refusal(a, b, contrast), contrast=contrast))
    return found


def _refusal(base: Measured, candidate: Measured, contrast: Contrast) -> str | None:
    a, b = base.case.tuning, candidate.case.tuning
    if contrast == "best" and numerics(a) != numerics(b):
        return f"unequal numerics: {a.precision} against {b.precision}"
    return refusal(base, candidate)
