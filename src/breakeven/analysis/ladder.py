"""The ladder of every work on every device: what each step wins, what the full stack loses without it.

Knows nothing about other devices. A losing step stays where it is, for what a step wins depends on those
below it. A ladder is read by itself: its steps are one family of tests, its leave-one-outs another, and
its steps against the fastest so far a third.
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from breakeven.analysis.best import Best, best_of
from breakeven.analysis.building import PayBack, cost_of, pay_back
from breakeven.analysis.cases import Measured
from breakeven.analysis.findings import LadderFinding, RatioFinding, StepFinding
from breakeven.analysis.pairs import Pair, refusal
from breakeven.analysis.ratios import step_ratios
from breakeven.records import ladder
from breakeven.records.case import Case, Device, Tuning, applicable
from breakeven.records.selection import Choice
from breakeven.records.tuning import preset
from breakeven.stats import Verdict

Place = tuple[str, Device]
FEWEST = 3
"""Steps that make a ladder; two tunings are a ladder where the best is asked for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rung:
    """A step before its verdict. `over` is what it is set against: None for the first step. `along`: the
    steps between the two that were not measured."""

    name: str
    case_id: str
    here: Measured | None
    over: "_Rung | None" = None
    along: tuple[str, ...] = ()

    @property
    def pair(self) -> Pair | None:
        """Time over there against time here."""
        if self.here is None or self.over is None or self.over.here is None:
            return None
        base = self.over.here
        return Pair(base=base, candidate=self.here, refused=refusal(base, self.here))


def ladders_of(
    cases: Sequence[Measured],
    confirmed: Mapping[str, Measured],
    chosen: Mapping[Place, Choice],
    planned: Collection[str],
    *,
    wants_best: bool,
) -> list[LadderFinding]:
    """One ladder for each work, device and runtime with two steps or more. `planned`: case ids of the study.

    `confirmed` and `chosen` are what the best is made of (`selection.choices`).
    """
    places: dict[tuple[Place, str], list[Measured]] = {}
    for m in cases:
        places.setdefault(((m.work_id, m.case.device), m.case.tuning.runtime), []).append(m)
    climbed = {key: _climbed(mine, planned) for key, mine in places.items()}
    # A device has one best, whichever runtime it is of: it stands with the first runtime's ladder.
    first = {place: key for key in reversed(climbed) for place in (key[0],)}
    return [
        _ladder(
            places[key],
            rungs,
            best_of(chosen.get(key[0]), confirmed) if wants_best and first[key[0]] == key else [],
        )
        for key, rungs in climbed.items()
        if len(rungs) >= FEWEST or wants_best
    ]


def _ladder(mine: Sequence[Measured], rungs: Sequence[_Rung], best: Sequence[Best]) -> LadderFinding:
    """One ladder: steps and best are a family of tests, leave-one-outs and wins over the best others."""
    work, last, without = mine[-1].case.work, mine[-1].finding, _without(mine, rungs)
    climbing = _wins([*(rung.pair for rung in rungs), *(found.pair for found in best)])
    losing = _wins([_turned(rung.pair) for rung in without])
    beyond = [_over_best(rungs[:index], rung) for index, rung in enumerate(rungs)]
    over = [
        (None if rung is None or rung.over is None else rung.over.name, win)
        for rung, win in zip(beyond, _wins([rung.pair if rung else None for rung in beyond]), strict=True)
    ]
    steps, top = climbing[: len(rungs)], climbing[len(rungs) :]
    return LadderFinding(
        model=work.model,
        batch=work.batch,
        data=work.data,
        seed=work.seed,
        device_label=last.device_label,
        runtime=last.case.tuning.runtime,
        steps=tuple(
            dataclasses.replace(_step(rung, win), best_before=name, over_best=best)
            for rung, win, (name, best) in zip(rungs, steps, over, strict=True)
        ),
        without=tuple(_step(rung, win) for rung, win in zip(without, losing, strict=True)),
        best=tuple(found.finding(win) for found, win in zip(best, top, strict=True)),
        source=last.source,
    )


def _over_best(before: Sequence[_Rung], rung: _Rung) -> _Rung | None:
    """The step set against the fastest before it; None where that is the step before, or none has a time."""
    timed = [(r.here.finding.step_point_s, r) for r in before if r.here is not None]
    known = [(point, r) for point, r in timed if point is not None]
    if not known:
        return None
    fastest = min(known, key=lambda one: one[0])[1]
    return None if fastest is rung.over else dataclasses.replace(rung, over=fastest)


def _wins(pairs: Sequence[Pair | None]) -> list[RatioFinding | None]:
    """The ratio of each pair, None where there is none."""
    ratios = iter(step_ratios([pair for pair in pairs if pair is not None]))
    return [None if pair is None else next(ratios) for pair in pairs]


def _climbed(mine: Sequence[Measured], planned: Collection[str]) -> list[_Rung]:
    """The steps that were measured or are planned, in their order; two names of one case are one step."""
    case = mine[0].case
    rungs: list[_Rung] = []
    passed: dict[str, str] = {}  # case id -> name of what nobody measured since the last rung
    for name in ladder.steps(case.device.kind):
        named = [m for m in mine if m.preset == name]
        plain = _tuned(case, preset(name, case.device.kind, Tuning(runtime=case.tuning.runtime)))
        here = next((m for m in mine if m.case == plain), named[0] if named else None)
        case_id = here.finding.case_id if here else plain.case_id
        if case_id in {rung.case_id for rung in rungs}:
            continue
        if here is None and case_id not in planned:
            passed.setdefault(case_id, name)
            continue
        over = rungs[-1] if rungs else None
        along = tuple(passed.values()) if over else ()
        rungs.append(_Rung(name=name, case_id=case_id, here=here, over=over, along=along))
        passed = {}
    return rungs


def _without(mine: Sequence[Measured], rungs: Sequence[_Rung]) -> list[_Rung]:
    """The full stack less one step, where that was measured."""
    case, kind = mine[0].case, mine[0].case.device.kind
    climbed = ladder.steps(kind)
    if rungs[-1].name != climbed[-1]:
        return []
    by_id = {m.finding.case_id: m for m in mine}
    if not any(ladder.removed_by(m.preset) for m in mine):
        return []
    found = []
    for name in climbed[1:]:
        case_id = _tuned(case, ladder.less([name], kind, Tuning(runtime=case.tuning.runtime))).case_id
        if case_id in by_id and case_id != rungs[-1].case_id:
            found.append(_Rung(name=name, case_id=case_id, here=by_id[case_id], over=rungs[-1]))
    return found


def _turned(pair: Pair | None) -> Pair | None:
    """Without the step against with it: above 1 the step is worth having."""
    return None if pair is None else dataclasses.replace(pair, base=pair.candidate, candidate=pair.base)


def _tuned(case: Case, tuning: Tuning) -> Case:
    return applicable(dataclasses.replace(case, tuning=tuning))


def _step(rung: _Rung, win: RatioFinding | None) -> StepFinding:
    found = rung.here.finding if rung.here else None
    reasons = {}
    if found is None:
        reasons["step_s"] = "not measured yet"
    elif found.step_s is None:
        reasons["step_s"] = found.failure or found.reasons.get("step_s", "no number")
    if win is None and rung.over is not None:
        reasons["win"] = f"not measured yet: {rung.name if found is None else rung.over.name}"
    elif win is not None and win.ratio is None:
        reasons["win"] = win.reasons.get("ratio", "not comparable")
    cost = cost_of(rung.here) if rung.here else None
    back = PayBack()
    if cost is not None and rung.here is not None and rung.over is not None:
        over = rung.over.here
        back = PayBack(reason=reasons.get("win")) if over is None else pay_back(rung.here, over, win)
        if back.reason:
            reasons["pays_back"] = back.reason
    return StepFinding(
        name=rung.name,
        case_id=rung.case_id,
        step_s=found.step_s if found else None,
        point_s=found.step_point_s if found else None,
        win=win,
        loses=win is not None and win.verdict is Verdict.SLOWER,
        along=rung.along,
        build_s=cost.seconds if cost else None,
        build_state=cost.state if cost else None,
        pays_back=back.steps,
        evidence=found.evidence if found else (),
        reasons=reasons,
    )
