"""Sentences about curves: from which batch a device wins, and what more cores give.

Knows nothing about how a curve was fitted, or which sentences are said.
"""

import math
from collections.abc import Sequence

from breakeven.analysis import phrases
from breakeven.analysis.curves import BreakEvenFinding, CoresFinding
from breakeven.analysis.naming import short

FEWEST_SAID = 3
"""Batches that make a sentence worth its line: two ratios speak for themselves."""


def break_even_sentences(findings: Sequence[BreakEvenFinding]) -> list[str]:
    """Of the first model's batches the least and the most tuned curve: both ends of the ladder."""
    batches = [f for f in findings if f.axis == "batch" and len(f.points) >= FEWEST_SAID]
    first = [f for f in batches if f.model == batches[0].model and f.data == batches[0].data]
    ends = first[:1] + [f for f in first[-1:] if f is not first[0]]
    return [break_even(f) for f in ends]


def break_even(finding: BreakEvenFinding) -> str:
    """From which batch the candidate wins, in a sentence."""
    at = phrases.tuning(finding.tuning_name)
    where = f"({finding.model}, {at})"
    low, high = (f"{p.x:g}" for p in (finding.points[0], finding.points[-1]))
    who = f"{short(finding.candidate_label)} wins over {short(finding.base_label)}"
    match finding.answer:
        case "always":
            return phrases.cut(f"{who} at every batch measured, {low} to {high} {where}")
        case "never":
            return phrases.cut(f"{who} at no batch measured, {low} to {high} {where}")
        case "between":
            verb = "from" if finding.wins_above else "up to"
            return phrases.cut(f"{who} {verb} batch {batches(finding)} {where}")
        case "several":
            turns = ", ".join(f"{a:g} to {b:g}" for a, b in finding.changes)
            return phrases.cut(f"Which of {who.replace(' wins over ', ' and ')} wins turns more than once "
                               f"with the batch, in {turns} {where}")  # fmt: skip
    return phrases.cut(f"From which batch {who} cannot be told {where}: {known_ends(finding)}")


def batches(finding: BreakEvenFinding) -> str:
    """The break-even as whole batches, "4 [2, 8]": above it wins the first whole batch at or beyond the
    crossing, below it the last one before."""
    whole = math.ceil if finding.wins_above else math.floor
    shown = [
        None if x is None else f"{whole(round(x, 6)):d}" for x in (finding.at, finding.low, finding.high)
    ]
    at, low, high = shown
    if at is None:
        return known_ends(finding)
    if finding.processes < 2:
        return f"about {at}"
    first, last = (f"{p.x:g}" for p in (finding.points[0], finding.points[-1]))
    return f"{at} [{low or f'below {first}'}, {high or f'above {last}'}]"


def known_ends(finding: BreakEvenFinding) -> str:
    """What is known of a break-even that cannot be located: "above 512", "below 4", or why nothing is."""
    if finding.after is not None and finding.before is not None:
        return f"between {finding.after:g} and {finding.before:g}"
    if finding.after is not None and finding.before is None:
        return f"if at all, above {finding.after:g}"
    if finding.before is not None and finding.after is None:
        return f"if at all, below {finding.before:g}"
    return finding.reason or "no ratio"


def cores_sentences(findings: Sequence[CoresFinding]) -> list[str]:
    """What more cores give, for the first model: at the first and the last tuning."""
    fitted = [f for f in findings if f.parallel is not None]
    first = [f for f in fitted if f.model == fitted[0].model]
    ends = first[:1] + [f for f in first[-1:] if f is not first[0]]
    return [cores(f) for f in ends]


def cores(finding: CoresFinding) -> str:
    """The parallel share and what it allows; a growing serial share is said instead of a limit, and no limit
    where the law was not tested.
    """
    assert finding.parallel is not None
    span = f"{finding.points[0].cores} to {finding.points[-1].cores} cores"
    where = f"{finding.model} on {span}, {phrases.tuning(finding.tuning_name)}"
    unknown = f"{where}: the parallel share cannot be told"
    if finding.disturbed:
        return phrases.cut(f"{unknown}: {phrases.DISTURBED}")
    if finding.apart:
        return phrases.cut(f"{unknown}: {phrases.APART}")
    if finding.parallel.low <= 0:
        slower = f"{where}: more cores make a step slower"
        return phrases.cut(slower if finding.parallel.high < 0 else unknown)
    text = f"{where}: {phrases.signed(finding.parallel, scale=100)} % of a step is parallel"
    if "limit" in finding.reasons:
        return phrases.cut(f"{text}, should Amdahl's law hold: a third number of cores would test it")
    if finding.trend == "grows":
        return phrases.cut(f"{text}, but the serial share grows with the cores: overhead, no fixed part")
    if finding.trend == "falls":
        return phrases.cut(f"{text}, but the serial share falls with the cores: the law gives no limit here")
    if finding.limit_low is None:
        return phrases.cut(f"{text}; no limit can be told")
    if finding.limit_high is None:
        return phrases.cut(f"{text}; {finding.limit_low:,.3g}x or more is what cores alone can give")
    most = f"{finding.limit_low:.3g}x to {finding.limit_high:.3g}x"
    return phrases.cut(f"{text}, so no number of cores gives more than {most}")
