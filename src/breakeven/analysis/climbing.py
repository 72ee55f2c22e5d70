"""What the ladders say in words: what held a device back as written, its best, the law at each tuning.

Knows nothing about how a win was worked out. One sentence a model: the steps that win most, in their order.
"""

from collections.abc import Sequence

from breakeven.analysis.findings import LadderFinding, RatioFinding, ScaleFinding, StepFinding
from breakeven.analysis.phrases import cut, signed, two_digits
from breakeven.analysis.scale import told_law
from breakeven.stats import Verdict
from breakeven.units import format_ratio_interval

MOST_MODELS = 3
MOST_STEPS = 2
STEPS = {
    "workers": "loader workers",
    "on-device": "data on the device",
    "no-sync": "no wait for the loss",
    "cuda-graph": "a CUDA graph",
    "threads": "the right threads",
    "bf16": "BF16",
    "compile": "compilation",
}
"""A step as the subject of a sentence; the others by their name."""
LAWS = {"tuning": "as written", "best": "best to best", "mixed": "against an untuned {base}"}
VERBS = {"grows": "grows", "shrinks": "shrinks", "cannot be told": "has no clear trend"}


def ladder_sentences(
    ladders: Sequence[LadderFinding], ratios: Sequence[RatioFinding], room: int
) -> list[str]:
    """One sentence for each model on each device that is no baseline, shortest wording last resort.

    `room`: characters that a sentence may take.
    """
    bases = {ratio.base_label for ratio in ratios}
    told = [ladder for ladder in ladders if ladder.device_label not in bases] or list(ladders)
    told = [ladder for ladder in told if any(step.win is not None for step in ladder.steps)]
    said = [_ladder(ladder, ratios, room) for ladder in told[:MOST_MODELS]]
    if len(told) > MOST_MODELS:
        said[-1] = cut(f"{said[-1].rstrip('.')} (and {len(told) - MOST_MODELS} more ladders in the report)")
    return said


def span_sentences(ratios: Sequence[RatioFinding], room: int) -> list[str]:
    """For each pair of devices the ratios as written, best against best, and tuned against untuned."""
    said = []
    for pair in dict.fromkeys((r.base_label, r.candidate_label) for r in ratios if r.contrast == "best"):
        every = [r for r in ratios if (r.base_label, r.candidate_label) == pair and r.ratio is not None]
        mine = [r for r in every if r.verdict is not None]
        spans = {
            "as written": [r for r in mine if r.contrast == "tuning" and r.tuning_name == "as-written"],
            "best to best (same numerics)": [r for r in mine if r.contrast == "best"],
            "tuned against untuned (no comparison of hardware)": [r for r in mine if r.contrast == "mixed"],
        }
        parts = [f"{_span(found)} {where}" for where, found in spans.items() if found]
        if parts:
            whole = f"{pair[1]} against {pair[0]}: {', '.join(parts)}."
            left = sum(r.verdict is None for r in every)
            whole = f"{whole[:-1]} (without {left} of no verdict)." if left else whole
            said.append(whole if len(whole) <= room else cut(whole.replace(" (same numerics)", "")))
    return said


def _span(ratios: Sequence[RatioFinding]) -> str:
    """The least and the largest of the ratios: "2.3x to 5.2x", or the one with its interval."""
    known = [r.ratio for r in ratios if r.ratio is not None]
    if len(known) == 1:
        return format_ratio_interval(known[0])
    low, high = (f"{two_digits(f(i.estimate for i in known))}x" for f in (min, max))
    return low if low == high else f"{low} to {high}"


def law_sentences(scale: Sequence[ScaleFinding], room: int) -> list[str]:
    """How the ratio moves with model size as written, best to best, and against the untuned base."""
    said = []
    for pair in dict.fromkeys((s.base_label, s.candidate_label, s.batch) for s in scale):
        mine = [s for s in scale if (s.base_label, s.candidate_label, s.batch) == pair]
        laws = [told_law(law, mine) for law in mine if law.against == "parameters"]
        told = [law for law in laws if law.contrast in LAWS and law.exponent is not None and _is_told(law)]
        if len(told) < 2:
            continue
        wholes = [_laws(told, intervals=intervals) for intervals in (True, False)]
        said.append(next((whole for whole in wholes if len(whole) <= room), cut(wholes[-1])))
    return said


def _is_told(law: ScaleFinding) -> bool:
    return law.contrast != "tuning" or law.tuning_name == "as-written"


def _laws(laws: Sequence[ScaleFinding], *, intervals: bool) -> str:
    """Laws of one verdict together: "grows as written (exponent 0.2), shrinks ... (-0.1 of FLOPs)"; of
    parameters where nothing else is said."""
    groups: dict[str, list[str]] = {}
    for law in laws:
        assert law.exponent is not None
        number = signed(law.exponent) if intervals else signed(law.exponent).partition(" ")[0]
        number += " of FLOPs" if law.against == "flops" else ""
        where = LAWS[law.contrast].format(base=law.base_label)
        groups.setdefault(VERBS[law.verdict], []).append(f"{where} ({number})")
    parts = [f"{verb} {' and '.join(where)}" for verb, where in groups.items()]
    return f"With model size the ratio {', '.join(parts)}.".replace("(", "(exponent ", 1)


def _ladder(ladder: LadderFinding, ratios: Sequence[RatioFinding], room: int) -> str:
    """The longest wording that has room."""
    head = f"{ladder.model} on {ladder.device_label}: "
    best = _best(ladder, ratios)
    wordings = [
        f"{head}{'; '.join(filter(None, parts))}."
        for parts in (
            [_wins(ladder, intervals=MOST_STEPS), _losses(ladder), *best[:1]],
            [_wins(ladder, intervals=1), _losses(ladder), *best[:1]],
            [_wins(ladder, intervals=1), *best[:1]],
            [_wins(ladder, intervals=1), *best[1:2]],
            [_wins(ladder, intervals=0), *best[-1:]],
        )
    ]
    return next((text for text in wordings if len(text) <= room), cut(wordings[-1]))


def _wins(ladder: LadderFinding, *, intervals: int) -> str:
    """The steps that win most, in the order of the ladder; only so many of them with an interval. One that
    does not surely beat the fastest before it, only the step before, wins nothing but what that had lost.
    """
    sure = [s for s in ladder.steps if (won := _won(s)) is not None and won.verdict is Verdict.FASTER]
    largest = sorted(sure, key=_size)[-MOST_STEPS:]
    shown = [step for step in ladder.steps if step in largest]
    if not shown:
        undone = next((s for s in ladder.steps if s.win and s.win.verdict is Verdict.FASTER), None)
        if undone is not None and undone.over_best is not None and undone.over_best.ratio is not None:
            over = f"{format_ratio_interval(undone.over_best.ratio)} as fast as {undone.best_before}"
            return f"no step surely beats the best before it; {_subject(undone)}: {over}"
        return "no step of the ladder wins for sure"
    texts = []
    for index, step in enumerate(shown):
        subject = _subject(step)
        verb = ("win " if step.along or subject.endswith("s") else "wins ") if index == 0 else ""
        over = f" over {step.best_before}" if step.over_best else ""
        texts.append(f"{subject} {verb}{_times(step, interval=index < intervals)}{over}")
    return ", ".join(texts)


def _losses(ladder: LadderFinding) -> str:
    losing = [_subject(step) for step in ladder.steps if step.loses]
    if not losing:
        return ""
    return f"{' and '.join(losing)} {'lose' if len(losing) > 1 or losing[0].endswith('s') else 'loses'}"


def _best(ladder: LadderFinding, ratios: Sequence[RatioFinding]) -> list[str]:
    """The best with the same numerics and what it is against the base's; the longest wording first."""
    found = next((b for b in ladder.best if b.numerics == "same"), None)
    if found is None or found.tuning_name is None:
        return []
    if found.case_id is not None and found.point_s is None and found.evidence:
        return [f"the best, {found.tuning_name}, gave no number when measured again"]
    if found.case_id is not None and found.point_s is None:
        return [f"the best, {found.tuning_name}, is not measured again yet"]
    against = next((r for r in ratios if r.contrast == "best" and r.candidate_id == found.case_id), None)
    name = f"best is {found.tuning_name} (same numerics)"
    if found.win is not None and found.win.verdict is Verdict.SLOWER:
        return [f"{found.tuning_name}, chosen as best, loses to as written"] * 3
    if against is None or against.ratio is None:
        return [name]
    if against.verdict in (None, Verdict.UNCERTAIN):
        return [f"{name}; against {against.base_label}'s best it cannot be told", name, name]
    base = f"{against.base_label}'s best"
    return [
        f"{name}, {format_ratio_interval(against.ratio)} as fast as {base}",
        f"{name}, {format_ratio_interval(against.ratio)} {base}",
        f"best is {found.tuning_name}, {two_digits(against.ratio.estimate)}x {base}",
    ]


def _subject(step: StepFinding) -> str:
    """The step in words; with those that were not measured by themselves, all of them share what is won."""
    if step.along:
        return f"{step.along[0]} to {step.name} ({len(step.along) + 1} steps at once)"
    return STEPS.get(step.name, step.name)


def _won(step: StepFinding) -> RatioFinding | None:
    """What a step wins over the fastest before it; None where it does not surely beat the step before."""
    if step.win is None or step.win.verdict is not Verdict.FASTER:
        return None
    return step.over_best or step.win


def _size(step: StepFinding) -> float:
    won = _won(step)
    return won.ratio.estimate if won and won.ratio else 0.0


def _times(step: StepFinding, *, interval: bool) -> str:
    won = _won(step)
    assert won is not None and won.ratio is not None
    return format_ratio_interval(won.ratio) if interval else f"{two_digits(_size(step))}x"
