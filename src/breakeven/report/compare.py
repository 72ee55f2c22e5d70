"""A comparison as a report, and as a document: what `compare` prints and writes.

Knows nothing about how a comparison is made.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from breakeven.analysis.comparable import Difference
from breakeven.analysis.compare_findings import AxisComparison, CaseComparison, Comparison
from breakeven.analysis.compare_phrases import hidden_cases, percent_of, worth
from breakeven.analysis.compare_words import name_of
from breakeven.analysis.findings import RatioFinding
from breakeven.analysis.naming import short_labels
from breakeven.errors import UserError
from breakeven.report import csv, words
from breakeven.report.doubts import doubt, explained
from breakeven.report.json import plain
from breakeven.report.view import (
    Cell,
    Chart,
    Report,
    Section,
    Table,
    Value,
    absent,
    build_table,
    clean,
    label,
    number,
    said,
)

SCHEMA = "breakeven.compare/1"
KEYS = ("model", "device", "tuning", "precision", "batch", "data", "seed", "time of")
SUFFIXES = (".html", ".md", ".txt", ".csv", ".json")
MOST_MARKS = 100
BANNER = "SIMULATED: no hardware was measured. These numbers come from a planted model."


def comparison_report(found: Comparison | AxisComparison) -> Report:
    """The report of a comparison: sentences, the cases, what differs besides, what could not be compared."""
    banner = BANNER if found.simulated else None
    facts: tuple[str, ...]
    if isinstance(found, AxisComparison):
        title, facts = f"Compared by {found.by}", (found.source,)
        sections: Iterable[Section | None] = (_axis(found),)
    else:
        title, facts = (
            "Comparison",
            tuple(
                f"{word} {path}, measured {when}" if when else f"{word} {path}"
                for word, path, when in zip(
                    ("base", "new"), (found.base, found.new), found.measured, strict=True
                )
            ),
        )
        again = found.confirmed
        sections = (
            _cases(found.cases, "cases", "Cases"),
            _cases(again.cases, "confirmed", "Measured again by fresh processes") if again else None,
            _shown(found.shown),
        )
    return Report(
        title=clean(title),
        banner=banner,
        badge="simulated" if banner else "",
        facts=tuple(map(clean, (*facts, *filter(None, [hidden_cases(found.hidden).removeprefix("; ")])))),
        sentences=tuple(clean(s) for s in found.sentences if not (banner and s == banner)),
        sections=tuple(section for section in sections if section is not None),
    )


def comparison_document(found: Comparison | AxisComparison) -> dict[str, Any]:
    """Everything of a comparison as JSON values; `passed` is what the gate says, true without one."""
    passed = found.passed if isinstance(found, Comparison) else True
    return {"schema": SCHEMA, "passed": passed, **plain(found)}


def written(found: Comparison | AxisComparison, path: Path) -> str:
    """The content of a file by its suffix. UserError for another suffix, or without what charts need."""
    # Imported here: a gate that prints a text needs neither a template nor a chart.
    import json

    from breakeven.report.markdown import markdown
    from breakeven.report.text import text

    match path.suffix.lower():
        case ".html":
            from breakeven.report import html

            findings = json.dumps(comparison_document(found), allow_nan=False, separators=(",", ":"))
            return html.page_of(comparison_report(found), findings, sheet(found))
        case ".csv":
            return sheet(found)
        case ".md":
            return markdown(comparison_report(found))
        case ".txt":
            return text(comparison_report(found))
        case ".json":
            return json.dumps(comparison_document(found), indent=2, allow_nan=False) + "\n"
    raise UserError(f"a comparison is written as {', '.join(SUFFIXES)}, not {path.suffix or path.name!r}")


def sheet(found: Comparison | AxisComparison) -> str:
    """A row a case, or a pair of one axis, with its ratio and interval; those of fresh processes marked."""
    if isinstance(found, AxisComparison):
        names = dict(found.names)
        rows = [_axis_line(r, names) for r in found.ratios]
    else:
        again = found.confirmed.cases if found.confirmed else ()
        rows = [_line(row, False) for row in found.cases] + [_line(row, True) for row in again]
    # In every row: a comment would be no CSV, and whoever reads one row alone has to see it.
    return csv.lines_of([row | {"left_out_lines": found.left_out_lines} for row in rows])


def _line(row: CaseComparison, confirmed: bool) -> dict[str, csv.Field]:
    work, tuning = row.case.work, row.case.tuning
    return {
        "case_id": row.case_id, "model": work.model, "device": row.device_label, "tuning": row.tuning_name,
        "precision": tuning.precision, "batch": work.batch, "data": work.data, "seed": work.seed,
        "time_of": row.of, "confirmed": confirmed, "base_s": row.base_s, "new_s": row.new_s,
        **dict(csv.interval("ratio", "", row.ratio, row.point)),
        "verdict": row.verdict.value if row.verdict else None, "fails": row.fails,
        "processes_base": row.processes[0], "processes_new": row.processes[1], "flags": "; ".join(row.flags),
        "why": row.reasons.get("ratio"),
    }  # fmt: skip


def _axis_line(r: RatioFinding, names: Mapping[str, str]) -> dict[str, csv.Field]:
    return {
        "base": names[r.base_id], "candidate": names[r.candidate_id],
        **dict(csv.interval("ratio", "", r.ratio, r.point)),
        "verdict": r.verdict.value if r.verdict else None, "flags": "; ".join(r.flags),
        "why": r.reasons.get("ratio"),
    }  # fmt: skip


def _chart(key: str, title: str, alt: str, marks: Iterable[Mapping[str, Value]]) -> Chart | None:
    """Every ratio with its interval on one axis; None without any, or with more than a page shows."""
    values = tuple(marks)
    if not 0 < len(values) <= MOST_MARKS:
        return None
    tunings = tuple(dict.fromkeys(str(value["tuning"]) for value in values))
    return Chart(
        kind="ratios", name=key, title=title, subtitle=explained(values), alt_text=alt, values=values,
        tunings=tunings,
    )  # fmt: skip


def _figures(of: CaseComparison | RatioFinding) -> Mapping[str, Value]:
    cell = words.ratio(of.ratio, of.point)
    return {
        "ratio": of.ratio.estimate if of.ratio else of.point,
        "low": of.ratio.low if of.ratio else None,
        "high": of.ratio.high if of.ratio else None,
        "shown": cell.text,
        "conditions": cell.note,
    }


def _mark(row: CaseComparison, device: str) -> Mapping[str, Value]:
    work = row.case.work
    verdict = row.verdict.value if row.verdict else "no verdict"
    what = f"{clean(work.model)} on {clean(device)}, batch {work.batch}"
    return {
        "model": what if row.of == "step" else f"{what}, a single call",
        "tuning": clean(f"{row.tuning_name} {row.case.tuning.precision}".removesuffix(" default")),
        **_figures(row),
        "pair": "new over base",
        "verdict": f"{verdict} (fails)" if row.fails else verdict,
        **doubt(row.flags, known=row.verdict is not None),
    }


def _beside(name: str, base: str) -> str:
    """What of a candidate's name its base has not: the value of the axis."""
    known = base.split()
    return clean(" ".join(word for word in name.split() if word not in known) or name)


def _axis_mark(r: RatioFinding, names: Mapping[str, str]) -> Mapping[str, Value]:
    return {
        "model": f"over {clean(names[r.base_id])}",
        "tuning": _beside(names[r.candidate_id], names[r.base_id]),
        **_figures(r),
        "pair": "",
        "verdict": r.verdict.value if r.verdict else "no verdict",
        **doubt(r.flags, known=r.verdict is not None),
    }


def _cases(rows: Sequence[CaseComparison], key: str, title: str) -> Section | None:
    columns = [
        *map(label, KEYS),
        number("base"),
        number("new"),
        number("ratio"),
        number("time"),
        label("verdict"),
        label("answers"),
        number("n"),
        label("flags"),
    ]
    columns = [dataclasses.replace(c, key=c.name in KEYS) for c in columns]
    short = short_labels([row.device_label for row in rows])
    table = build_table(columns, [_row(row, short[row.device_label]) for row in rows])
    if table is None:
        return None
    note = (
        "ratio: base time / new time with its 95 % interval over processes; above 1 the new is faster. "
        "Verdicts are corrected for the number of comparisons (Holm). answers: of inference, the share of "
        "images with FP32's top-1, and accuracy. n: processes of base and new."
    )
    marks = (_mark(row, short[row.device_label]) for row in rows if row.point is not None)
    told = (
        "Dot plot of base time over new time with its interval, case by case; right of the dashed line the "
        "new is faster. The table below holds every number."
    )
    return Section(key=key, title=title, note=note, table=table, chart=_chart(key, title, told, marks))


def _row(row: CaseComparison, device: str) -> tuple[Cell, ...]:
    work, tuning = row.case.work, row.case.tuning
    why = row.reasons.get("ratio", "")
    step = {"train": "a step", "infer": "a pipelined call"}[work.task]
    verdict = row.verdict.value if row.verdict else ""
    if row.processes_needed:
        verdict += f"; {row.processes_needed} processes would decide"
    return (
        said(work.model),
        said(device),
        said(row.tuning_name),
        said(tuning.precision),
        said(work.batch, work.batch),
        said(work.data),
        said(work.seed, work.seed),
        said(step if row.of == "step" else "a single call"),
        words.seconds(None, row.base_s, reason=why),
        words.seconds(None, row.new_s, reason=why),
        words.ratio(row.ratio, row.point, reason=why, evidence=row.evidence),
        said(percent_of(row), row.slower_by) if row.ratio else absent(why),
        said(verdict + (" (fails)" if row.fails else ""))
        if verdict
        else absent(row.reasons.get("verdict", why)),
        _worth(worth(*row.outputs)),
        said("{} and {}".format(*row.processes)),
        said(", ".join(row.flags)) if row.flags else absent(),
    )


def _worth(text: str) -> Cell:
    return said(text) if text else absent()


def _shown(differences: Sequence[Difference]) -> Section | None:
    columns = [label("what differs"), label("base"), label("new"), label("why unknown")]
    unknown = [d.field for d in differences if d.unknown and d.base is None and d.candidate is None]
    rows = [
        (
            said(name_of(d.field)),
            absent(d.unknown or "") if d.base is None else said(_short(d.base)),
            absent(d.unknown or "") if d.candidate is None else said(_short(d.candidate)),
            said(d.unknown) if d.unknown else absent(),
        )
        for d in differences
        if d.field not in unknown
    ]
    columns = [dataclasses.replace(c, key=index == 0) for index, c in enumerate(columns)]
    table = build_table(columns, rows)
    note = "May differ, and stands beside every ratio: the change under test may be one of these."
    if unknown:
        note += f" Unknown on both sides: {', '.join(clean(name_of(field)) for field in unknown)}."
    if table is None:
        if not unknown:
            return None
        table = Table(columns=(label(""),), rows=((said("nothing that both sides know"),),))
    table = dataclasses.replace(table, missing=())
    return Section(key="differs", title="What else differs", note=note, table=table)


def _short(value: object) -> str:
    text = clean(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _axis(found: AxisComparison) -> Section | None:
    names = dict(found.names)
    columns = [
        label("base"),
        label("candidate"),
        number("ratio"),
        label("verdict"),
        label("answers"),
        number("n"),
        label("flags"),
    ]
    columns = [dataclasses.replace(c, key=c.name in ("base", "candidate")) for c in columns]
    table = build_table(columns, [_axis_row(r, found, names) for r in found.ratios])
    note = (
        "ratio: base time / candidate time, paired by replicate, with its 95 % interval over processes; "
        "above 1 the candidate is faster. Verdicts are corrected for the number of comparisons (Holm)."
    )
    marks = (_axis_mark(r, names) for r in found.ratios if r.point is not None)
    told = (
        f"Dot plot of base time over candidate time with its interval, by {found.by}; right of the dashed "
        "line the candidate is faster. The table below holds every number."
    )
    title = f"By {found.by}"
    chart = _chart("axis", title, told, marks)
    return Section(key="axis", title=title, note=note, table=table, chart=chart) if table else None


def _axis_row(r: RatioFinding, found: AxisComparison, names: dict[str, str]) -> tuple[Cell, ...]:
    why = r.reasons.get("ratio", "")
    return (
        said(names[r.base_id]),
        said(names[r.candidate_id]),
        words.ratio(r.ratio, r.point, reason=why, evidence=r.evidence),
        said(r.verdict.value) if r.verdict else absent(r.reasons.get("verdict", why)),
        _worth(worth(found.outputs.get(r.base_id), found.outputs.get(r.candidate_id))),
        words.count(r.ratio.n if r.ratio else None),
        said(", ".join(r.flags)) if r.flags else absent(),
    )
