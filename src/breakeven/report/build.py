"""From the findings of a study to its report, once for every format.

Knows nothing about file formats. A section that the lines don't support is not there.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

from breakeven import units
from breakeven.analysis.advise_findings import Prices
from breakeven.analysis.findings import QualityFinding, Understanding
from breakeven.report import (
    bandwidth,
    claims,
    comparisons,
    context,
    costs,
    curves,
    frameworks,
    inference,
    inference_batches,
    inference_wins,
    ladder,
    load,
    machines,
    measurements,
    memory,
    profile,
    shares,
)
from breakeven.report.names import Names, names_of, tuning_of
from breakeven.report.view import Report, Section, clean

if TYPE_CHECKING:
    from breakeven.analysis.published import PublishedFindings

APART = {"ladder": "model", "ratios": "model", "samples": "model", "shares": "group"}
"""Kinds of chart with a drawing for each value of a field, whose heading it is -> that field."""
# In the order in which questions come up: how much, may I believe it, what does it cost, what is behind it.
SECTIONS: tuple[Callable[[Understanding, Names], Section | None], ...] = (
    comparisons.summary,
    frameworks.training,
    frameworks.inference,
    frameworks.equality,
    frameworks.fusion,
    inference_wins.gains,
    inference_wins.precisions,
    inference_wins.runtimes,
    inference.outputs,
    inference.rates,
    load.load,
    load.trials,
    inference_batches.saturation,
    inference_batches.later,
    inference.frontier,
    inference_wins.factors,
    inference.builds,
    ladder.ladder,
    ladder.best,
    ladder.without,
    ladder.builds,
    comparisons.scale,
    curves.break_even,
    comparisons.ratios,
    curves.what_if,
    curves.cores,
    curves.cores_detail,
    context.quality,
    measurements.times,
    shares.where_time_goes,
    shares.bounds,
    shares.parts,
    profile.operators,
    profile.shapes,
    profile.kernels,
    profile.gaps,
    profile.cost,
    measurements.runs,
    measurements.full,
    measurements.unfinished,
    measurements.accuracy,
    comparisons.parity,
    measurements.work,
    measurements.ceilings,
    bandwidth.bandwidth,
    memory.memory,
    memory.meanings,
    measurements.once,
    claims.claims,
    context.failures,
    context.skips,
    measurements.samples,
    context.machine,
    context.study,
    context.reading,
)


def build(
    understanding: Understanding,
    beside: "PublishedFindings | None" = None,
    prices: Prices | None = None,
) -> Report:
    """The report of one study: everything that any format shows.

    With published values or prices where they are given.
    """
    understanding = machines.told_apart(understanding)
    names = names_of(understanding)
    sections = [make(understanding, names) for make in SECTIONS]
    if prices is not None:
        place = SECTIONS.index(measurements.work) + 1
        sections.insert(place, costs.costs(understanding, names, prices))
    if beside:
        # Imported here: most reports have none beside them, and they take a tenth of the imports.
        from breakeven.report import published

        sections += published.sections(beside, names)
    # The banner says it above everything: the first sentence is for the answer.
    banner, badge = _simulated(understanding)
    return Report(
        title=clean(_title(understanding)),
        banner=banner,
        badge=badge,
        facts=_facts(understanding, names),
        common=", ".join(names.common),
        before=_hidden(understanding),
        sentences=tuple(
            clean(s) for s in _sentences(understanding) if not (banner and s.startswith("SIMULATED"))
        ),
        sections=tuple(
            _labelled(section, badge, understanding) for section in sections if section is not None
        ),
        footnotes=names.footnotes(),
        warnings=_warnings(understanding),
    )


def only_claims(understanding: Understanding) -> Report:
    """The verdict and the published claims, decided or not."""
    section = claims.all_claims(understanding)
    shown = (dataclasses.replace(section, detail=False),) if section else ()
    whole = build(understanding)
    return dataclasses.replace(whole, sections=shown, footnotes=())


def _hidden(understanding: Understanding) -> tuple[str, ...]:
    """What the file holds and the verdict knows nothing of, before it: it may be the larger part."""
    said = list(_lost(understanding))
    if understanding.hidden_cases:
        said.append(f"{_plural(understanding.hidden_cases, 'case')} of an earlier study hidden: add --all.")
    return tuple(map(clean, said))


def _lost(understanding: Understanding) -> Iterator[str]:
    """A sentence for each damaged file: what is not there cannot be told from what never was."""
    marks = machines.marks_of(understanding)
    for source, lines in zip(understanding.sources, understanding.lost_lines, strict=False):
        if not lines:
            continue
        name = marks.get(source) or PurePath(source).name
        those = sum(c.unproven is not None and c.source == source for c in understanding.cases)
        barred = f"; {_plural(those, 'case')} without a check {'is' if those == 1 else 'are'} not ranked"
        yield (
            f"{_plural(lines, 'line')} of {name} could not be read: what stood there, a failed check maybe, "
            f"is missing here{barred if those else ''}."
        )


def _title(understanding: Understanding) -> str:
    """The study's title; of several files each title once."""
    titles = dict.fromkeys(str(s.get("title") or s.get("name") or "") for s in understanding.studies)
    joined = "; ".join(filter(None, titles))
    several = len(understanding.studies) > 1
    return (joined if several else "") or understanding.title or understanding.name


def _warnings(understanding: Understanding) -> tuple[str, ...]:
    """What limits the trust in the verdict, one line a kind; the banner speaks for what was simulated."""
    marks = machines.marks_of(understanding)
    totals = Counter(c.source for c in understanding.cases if marks)
    whole = len(understanding.cases)

    def line(q: QualityFinding) -> str:
        counted = f" ({q.cases} of {totals.get(q.source, whole)} cases)"
        text = q.text if q.flag in ("not_run", "torn", "unread") else q.text + counted
        return f"{marks[q.source]}: {text}" if q.source in marks else text

    return tuple(clean(line(q)) for q in understanding.quality if q.flag != "simulated")


def _sentences(understanding: Understanding) -> Iterator[str]:
    """The sentences; of several files a first one says how they stand together, and each file has a name."""
    marks = machines.marks_of(understanding)
    if not marks:
        yield from understanding.sentences
        return
    told = machines.described(understanding)
    paths = {f"{source}:": f"{mark} is {told[source]}:" for source, mark in marks.items()}
    yield f"{len(marks)} results files side by side: ratios are within a file, none between two."
    yield from (paths.get(sentence, sentence) for sentence in understanding.sentences)


def _labelled(section: Section, badge: str, understanding: Understanding) -> Section:
    """A chart travels alone: its title says that it was simulated, its subtitle what each mark is of."""
    if section.chart is None:
        return section
    chart = section.chart
    groups = {str(value[APART[chart.kind]]) for value in chart.values} if chart.kind in APART else set()
    if len(groups) == 1 and len({c.case.work.model for c in understanding.cases}) > 1:
        # A drawing alone has no heading: whose it is stands below the title.
        chart = dataclasses.replace(chart, subtitle=f"{groups.pop()}. {chart.subtitle}".strip())
    if badge:
        chart = dataclasses.replace(chart, title=f"{chart.title} ({badge})")
    told = machines.described(understanding)
    shown = {mark: told[source] for source, mark in machines.marks_of(understanding).items()}
    said = "; ".join(f"{mark}: {what}" for mark, what in shown.items())
    if said:
        subtitle = f"{chart.subtitle.rstrip('.')}. {said}" if chart.subtitle else said
        chart = dataclasses.replace(chart, subtitle=clean(subtitle))
    return dataclasses.replace(section, chart=chart)


def _simulated(understanding: Understanding) -> tuple[str | None, str]:
    """The banner, and the badge that every section carries."""
    flags = [c.simulated for c in understanding.cases]
    if not (understanding.simulated or any(flags)):
        return None, ""
    if all(flags):
        return "SIMULATED: no hardware was measured. These numbers come from a planted model.", "simulated"
    some = f"{sum(flags)} of {len(flags)} cases"
    return f"PARTLY SIMULATED: {some} come from a planted model, not from hardware.", "partly simulated"


def _facts(understanding: Understanding, names: Names) -> tuple[str, ...]:
    cases = understanding.cases
    models = len({c.case.work.model for c in cases})
    devices = len({c.device_label for c in cases})
    tunings = len({tuning_of(c) for c in cases})
    facts = [
        f"{_plural(models, 'model')} x {_plural(devices, 'device')} x {_plural(tunings, 'tuning')}",
        *([", ".join(names.common)] if names.common else []),
        _plural(understanding.attempts, "attempt"),
        f"breakeven {clean(understanding.tool_version)}",
    ]
    marks, told = machines.marks_of(understanding), machines.described(understanding)
    return (
        *facts,
        *(clean(f"{mark} is {told[source]}: {source}") for source, mark in marks.items()),
        *(clean(source) for source in understanding.sources if not marks),
    )


def _plural(count: int, word: str) -> str:
    return f"{units.format_count(count)} {word}{'' if count == 1 else 's'}"
