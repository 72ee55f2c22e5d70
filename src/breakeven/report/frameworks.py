"""Sections about frameworks side by side: times and ratios, what makes the work equal, what a compiler wins.

Knows nothing about how a ratio is worked out or when two cases did equal work.
"""

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence

from breakeven.analysis.findings import Understanding
from breakeven.analysis.framework_findings import Equality, FrameworkFinding, FusionFinding
from breakeven.records.case import Task
from breakeven.report import words
from breakeven.report.names import Names, tuning_rank
from breakeven.report.view import (
    Cell,
    Column,
    Row,
    Section,
    absent,
    build_table,
    clean,
    label,
    number,
    said,
)
from breakeven.stats import Verdict

PLACE = ("model", "device", "tuning", "input", "precision", "batch", "data", "seed")
MOST = 3
"""Reasons told below a table."""
OPEN, UNRANKED = " ?", " *"
CYCLEGAN = "cyclegan"
WORDS = {
    Verdict.FASTER: "faster",
    Verdict.SLOWER: "slower",
    Verdict.SAME: "same",
    Verdict.UNCERTAIN: "uncertain",
}


def training(understanding: Understanding, names: Names) -> Section | None:
    """One row a net, device and tuning: the base framework's time, and each other's as a multiple of it."""
    title = "The same net in each framework"
    return _side_by_side(understanding, names, "train", "frameworks", title)


def inference(understanding: Understanding, names: Names) -> Section | None:
    """The same of inference, by pipelined calls."""
    title = "The same net in each framework, inferring"
    return _side_by_side(understanding, names, "infer", "frameworks_infer", title)


def _side_by_side(
    understanding: Understanding, names: Names, task: Task, key: str, title: str
) -> Section | None:
    found = [f for f in understanding.frameworks.pairs if f.task == task]
    if not found:
        return None
    heads = list(dict.fromkeys(f.candidate_runtime for f in found))
    base, step = found[0].base_runtime, "step" if task == "train" else "call"
    columns = [*map(label, PLACE), label("over"), number(f"a {step}"), number("an image")]
    rows: dict[tuple[str, str], dict[str, FrameworkFinding]] = {}
    for f in found:
        rows.setdefault((f.source, f.base_id), {})[f.candidate_runtime] = f
    cells = [_row(mine, heads, names) for mine in rows.values()]
    table = build_table([*columns, *(number(clean(head)) for head in heads)], cells)
    note = [
        f"{base}: its time a {step} and an image. The others: their time as a multiple of it, of a {step} as "
        "of an image, for the batch is the same; below 1x is faster.",
        _ways(found),
    ]
    if task == "train":
        note.append("Native: each framework reads and augments as people do in it.")
        if any(f.model == CYCLEGAN for f in found):
            note.append("Of CycleGAN an image is a pair.")
    note.append(_shown_equal(found))
    marks = {_mark(f) for f in found}
    note += ["?: which is faster cannot be told."] if OPEN in marks else []
    note += [f"*: not ranked, {_why_unranked(found)}."] if UNRANKED in marks else []
    text = " ".join(filter(None, note))
    return Section(key=key, title=title, note=text, table=table)


def _shown_equal(found: Sequence[FrameworkFinding]) -> str:
    """What shows that the pairs did equal work, in a sentence; the table of it holds each."""
    equal = [f for f in found if f.equality.verdict == "equal"]
    if not equal:
        return "No pair is shown to have done equal work."
    hashes = dict.fromkeys(name for f in equal for name in f.equality.hashes)
    errors = [e for f in equal for side in _sides(f.equality) for e in _relative(side).values()]
    held = "first step" if found[0].task == "train" else "logits"
    worst = f" ({max(errors):.0e} off at most)" if errors else ""
    own = dict.fromkeys(
        text.rpartition(" / ")[0].rpartition(" ")[0] for f in equal for text in f.equality.differs
    )
    differs = f" Each its own: {words.joined(map(clean, own))}." if own else ""
    return (
        f"Equal work in {len(equal)} of {len(found)} pairs: {words.joined(hashes)} by hash, {held} against "
        f"FP64{worst}, precision by bit probe.{differs}"
    )


def _sides(e: Equality) -> tuple[Mapping[str, float], Mapping[str, float]]:
    return e.base_errors, e.candidate_errors


def _relative(errors: Mapping[str, float]) -> dict[str, float]:
    """Without the absolute error of inference, which has another unit."""
    return {name: value for name, value in errors.items() if not name.endswith("abs")}


def _why_unranked(found: Sequence[FrameworkFinding]) -> str:
    """The reasons, the most frequent first."""
    why = Counter(_open_reason(f) or "no reason" for f in found if _mark(f) == UNRANKED)
    told = [f"{clean(reason)} ({count})" for reason, count in why.most_common(MOST)]
    return "; ".join([*told, *(["others: see Equal work"] if len(why) > MOST else [])])


def _ways(found: Sequence[FrameworkFinding]) -> str:
    """What a tuning is in each framework, where its name says more: "fused is torch compiled, ..."."""
    each: dict[str, dict[str, None]] = {}
    for f in found:
        each.setdefault(f.tuning, {}).update(dict.fromkeys((f.base_name, f.candidate_name)))
    plain = {f.base_runtime for f in found} | {f.candidate_runtime for f in found}
    told = [f"{clean(t)} is {words.joined(map(clean, ns))}" for t, ns in each.items() if set(ns) - plain]
    return f"{'; '.join(told)}.".capitalize() if told else ""


def _row(mine: dict[str, FrameworkFinding], heads: Sequence[str], names: Names) -> Row:
    first = next(iter(mine.values()))
    step, point = first.base_step_s, first.base_point_s
    why = first.reasons.get("share", "")
    an_image = (
        None
        if step is None
        else dataclasses.replace(
            step,
            low=step.low / first.batch,
            estimate=step.estimate / first.batch,
            high=step.high / first.batch,
        )
    )
    return (
        *_place(first, names),
        said(first.base_runtime),
        words.seconds(step, point, reason=why, evidence=first.evidence),
        words.seconds(an_image, None if point is None else point / first.batch, reason=why),
        *(_share(mine[head]) if head in mine else absent("no such case ran") for head in heads),
    )


def _place(f: FrameworkFinding, names: Names) -> Row:
    return (
        said(f.model),
        names.device(f.device_label),
        said(f.tuning, tuning_rank(f.tuning)),
        said(f.input) if f.input else absent(),
        said(f.precision),
        said(f.batch, f.batch),
        said(f.data),
        said(f.seed, f.seed),
    )


def _mark(f: FrameworkFinding) -> str:
    if f.point is None:
        return ""
    return UNRANKED if f.verdict is None else OPEN if f.verdict is Verdict.UNCERTAIN else ""


def _share(f: FrameworkFinding) -> Cell:
    """The multiple of the base's time, marked where it is no verdict."""
    cell = words.ratio(f.share, f.point, reason=f.reasons.get("share", ""), evidence=f.evidence)
    why = WORDS[f.verdict] if f.verdict else f.reasons.get("verdict", "")
    return cell._replace(
        text=f"{cell.text}{_mark(f)}",
        note=clean("; ".join(dict.fromkeys(filter(None, [f.candidate_name, cell.note, why])))),
    )


def equality(understanding: Understanding, names: Names) -> Section | None:
    """What shows that two frameworks did the same work; what does not, by name."""
    found = understanding.frameworks.pairs
    columns = [
        label("task"),
        *map(label, PLACE),
        label("pair"),
        Column(name="work"),
        Column(name="verdict"),
        number("n"),
        number("single call"),
        number("error, base"),
        number("error"),
        Column(name="ran as"),
        Column(name="same hash"),
        Column(name="each its own"),
        Column(name="why not"),
    ]
    rows = [
        (
            said(f.task),
            *_place(f, names),
            said(f"{f.candidate_name} / {f.base_name}"),
            said(f.equality.verdict, evidence=f.equality.evidence),
            said(WORDS[f.verdict], note=_p(f)) if f.verdict else absent(_open_reason(f)),
            words.count(f.share.n if f.share else None),
            words.ratio(f.calls, reason=f.reasons.get("calls", "") if f.task == "infer" else ""),
            _error(f.equality.base_errors),
            _error(f.equality.candidate_errors),
            _numerics(f.equality),
            said(", ".join(f.equality.hashes)) if f.equality.hashes else absent(),
            said("; ".join(f.equality.differs)) if f.equality.differs else absent(),
            said(f.equality.why) if f.equality.why else absent(),
        )
        for f in found
    ]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        "Equal: weights, order and augmentation have the same hash, each side's first step (inference: its "
        "logits) was held to FP64, and a bit probe found the same precision in both. error: the largest "
        "relative one against FP64. Each its own: what frameworks cannot or do not share; it is part of what "
        "is compared. What is unequal or was not checked is not ranked. single call: its time as a multiple."
    )
    return Section(key="equal_work", title="Equal work", note=note, table=table, detail=True)


def _open_reason(f: FrameworkFinding) -> str:
    return f.reasons.get("verdict") or f.reasons.get("share", "")


def _p(f: FrameworkFinding) -> str:
    note = "" if f.p_adjusted is None else f"p = {words.significant(f.p_adjusted)} after Holm"
    return f"{note}; {f.processes_needed} processes would decide" if f.processes_needed else note


def _error(errors: Mapping[str, float]) -> Cell:
    """The largest relative error; all of them in its note."""
    relative = _relative(errors)
    if not relative:
        return absent("its check did not tell")
    name = max(relative, key=lambda key: relative[key])
    note = ", ".join(f"{key} {value:.1e}" for key, value in errors.items())
    return Cell(text=f"{relative[name]:.0e}", sort=relative[name], note=clean(note))


def _numerics(e: Equality) -> Cell:
    if not e.numerics:
        return absent("no bit probe on both sides")
    each = set(e.numerics.values())
    text = each.pop() if len(each) == 1 else ", ".join(f"{k} {v}" for k, v in e.numerics.items())
    return said(text, note=", ".join(e.numerics))


def fusion(understanding: Understanding, names: Names) -> Section | None:
    """What a graph or a compiler wins in each framework, what building it costs, when it has paid back."""
    columns = [
        label("task"),
        label("model"),
        label("device"),
        label("precision"),
        label("batch"),
        label("framework"),
        label("tuning"),
        Column(name="over"),
        number("time"),
        Column(name="verdict"),
        Column(name="differs besides"),
        number("build"),
        Column(name="cache"),
        number("pays back after"),
    ]
    told = (f for f in understanding.frameworks.fusion if f.base_id or f.build_s is not None)
    rows = [_fusion_cells(f, names) for f in told]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        "Time as a multiple of that of the plainer execution (over) in the same framework; below 1x it is "
        "faster. Where more than the execution differs the win is theirs as well. build: tracing, compiling "
        "and capturing before the first step. Pays back after: steps, or calls in inference."
    )
    return Section(key="fusion", title="Fusion: graphs and compilers", note=note, table=table)


def _fusion_cells(f: FusionFinding, names: Names) -> Row:
    back = f.pays_back
    steps = absent(f.reasons.get("pays_back", ""))
    if back is not None:
        low, mid, high = (words.significant(v) for v in (back.low, back.estimate, back.high))
        steps = Cell(text=f"{mid} [{low}, {high}]", sort=back.estimate, evidence=f.evidence)
    why = f.reasons.get("share", "")
    return (
        said(f.task),
        said(f.model),
        names.device(f.device_label),
        said(f.precision),
        said(f.batch, f.batch),
        said(f.candidate_name),
        said(f.tuning, tuning_rank(f.tuning), note=f.execution),
        said(f.base_execution, note=f.base_tuning or "") if f.base_execution else absent(why),
        words.ratio(f.share, f.point, reason=why, evidence=f.evidence),
        said(WORDS[f.verdict]) if f.verdict else absent(f.reasons.get("verdict") or why),
        said(", ".join(f.also)) if f.also else absent(),
        words.seconds(None, f.build_s, reason=f.reasons.get("build_s", "the median of processes")),
        said(f.build_state) if f.build_state else absent(f.reasons.get("build_state", "")),
        steps,
    )
