"""From the findings of a study to its report, once for every format.

Knows nothing about file formats. A section that the lines don't support is not there.
"""

import dataclasses
from collections.abc import Callable

from breakeven import units
from breakeven.analysis.advise_findings import Prices
from breakeven.analysis.findings import Understanding
from breakeven.analysis.published import PublishedFindings
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
    measurements,
    memory,
    profile,
    published,
    shares,
)
from breakeven.report.names import Names, names_of, tuning_of
from breakeven.report.view import Report, Section, clean

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
    beside: PublishedFindings | None = None,
    prices: Prices | None = None,
) -> Report:
    """The report of one study: everything that any format shows.

    With published values or prices where they are given.
    """
    names = names_of(understanding)
    sections = [make(understanding, names) for make in SECTIONS]
    if prices is not None:
        place = SECTIONS.index(measurements.work) + 1
        sections.insert(place, costs.costs(understanding, names, prices))
    sections += published.sections(beside, names) if beside else ()
    # The banner says it above everything: the first sentence is for the answer.
    banner, badge = _simulated(understanding)
    return Report(
        title=clean(understanding.title or understanding.name),
        banner=banner,
        badge=badge,
        facts=_facts(understanding, names),
        common=", ".join(names.common),
        sentences=(
            *_hidden(understanding),
            *(clean(s) for s in understanding.sentences if not (banner and s.startswith("SIMULATED"))),
        ),
        sections=tuple(_labelled(section, badge) for section in sections if section is not None),
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
    if not understanding.hidden_cases:
        return ()
    return (f"{_plural(understanding.hidden_cases, 'case')} of an earlier study hidden: add --all.",)


def _warnings(understanding: Understanding) -> tuple[str, ...]:
    """What limits the trust in the verdict, one line a kind; the banner speaks for what was simulated."""
    total = len(understanding.cases)
    return tuple(
        clean(f"{q.text} ({q.cases} of {total} cases)" if q.flag not in ("not_run", "torn") else q.text)
        for q in understanding.quality
        if q.flag != "simulated"
    )


def _labelled(section: Section, badge: str) -> Section:
    """A chart travels alone: its title says that it was simulated."""
    if not badge or section.chart is None:
        return section
    chart = dataclasses.replace(section.chart, title=f"{section.chart.title} ({badge})")
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
    return (*facts, *(clean(source) for source in understanding.sources))


def _plural(count: int, word: str) -> str:
    return f"{units.format_count(count)} {word}{'' if count == 1 else 's'}"
