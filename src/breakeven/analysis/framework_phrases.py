"""Sentences about frameworks: whose step takes how much of another's time, and what a compiler wins in each.

Knows nothing about which other sentences are said. Native input and data on the device are never one range.
"""

from collections.abc import Iterator, Sequence

from breakeven.analysis import phrases
from breakeven.analysis.framework_findings import FrameworkFinding, Frameworks, FusionFinding
from breakeven.analysis.naming import short
from breakeven.stats import Verdict
from breakeven.units import format_ratio_interval

MOST = 4
INPUT = {"native": "native input", "on the device": "data on the device", None: ""}


def framework_sentences(found: Frameworks) -> list[str]:
    """The sentences, most important first; none where one framework alone ran."""
    said = [line for group in _groups(found.pairs) for line in _group(group)][:MOST]
    return said + list(_fusion(found.fusion))[:1] + list(_unranked(found.pairs))


def _groups(pairs: Sequence[FrameworkFinding]) -> Iterator[list[FrameworkFinding]]:
    """On each device the first tuning of each input: all nets of one candidate."""
    first: dict[tuple[object, ...], tuple[str, str]] = {}
    groups: dict[tuple[object, ...], list[FrameworkFinding]] = {}
    for one in pairs:
        place = (one.source, one.task, one.device_label, one.input)
        if first.setdefault(place, (one.tuning, one.precision)) == (one.tuning, one.precision):
            groups.setdefault((*place, one.candidate_runtime), []).append(one)
    yield from groups.values()


def _group(group: Sequence[FrameworkFinding]) -> Iterator[str]:
    """What the ranked pairs say; where none is, about how much, and what keeps it open."""
    equal = [one for one in group if one.point is not None and one.equality.verdict == "equal"]
    ranked = [one for one in equal if _told(one)]
    shown = sorted(ranked or equal, key=lambda one: one.point or 0.0)
    if not shown:
        return
    ends = [shown[0], shown[-1]] if len(shown) > 1 else shown
    how = [f"{_share(one)}{_which(one, shown)}" for one in ends]
    place = _where(shown[0], *([] if len({one.model for one in shown}) > 1 else [shown[0].model]))
    names = " or ".join(dict.fromkeys(one.candidate_name for one in shown))
    base = " or ".join(dict.fromkeys(one.base_name for one in shown))
    end = ""
    if not ranked:
        end = f": {_why_open(shown[0])}"
    elif len(ranked) < len(equal):
        end = f"; {len(equal) - len(ranked)} of {len(equal)} cannot be told apart"
    elif {one.verdict for one in shown} == {Verdict.SAME}:
        end = ", the same within 3 %"
    text = f"On {place}: {names} takes {' to '.join(how)} of {base}'s time"
    said = [f"{text} {unit}{end}." for unit in _units(shown)]
    yield next(filter(phrases.two_lines, said), phrases.cut(said[-1]))


def _told(one: FrameworkFinding) -> bool:
    return one.share is not None and one.verdict not in (None, Verdict.UNCERTAIN)


def _share(one: FrameworkFinding) -> str:
    if _told(one) and one.share is not None:
        return format_ratio_interval(one.share)
    return f"about {phrases.two_digits(one.point or 0.0)}x"


def _which(one: FrameworkFinding, shown: Sequence[FrameworkFinding]) -> str:
    """What tells a pair of a range from the others."""
    words = [one.model] if len({other.model for other in shown}) > 1 else []
    words += [f"batch {one.batch}"] if len({other.batch for other in shown}) > 1 else []
    return f" ({', '.join(words)})" if words else ""


def _why_open(one: FrameworkFinding) -> str:
    """Why the first pair has no verdict."""
    if one.verdict is Verdict.UNCERTAIN and one.share is not None:
        span = f"{phrases.three_digits(one.share.low)}x to {phrases.three_digits(one.share.high)}x"
        more = f"; about {one.processes_needed} processes would decide" if one.processes_needed else ""
        return f"cannot tell yet, {span}{more}"
    reason = one.reasons.get("verdict") or one.reasons.get("share") or "no interval"
    shared = reason.startswith("something else")
    return phrases.DISTURBED if shared else f"no verdict, {reason.partition(':')[0]}"


def _where(one: FrameworkFinding, *models: str) -> str:
    """The device, the net, and how it is fed; in inference by which tuning."""
    how = INPUT[one.input] or one.tuning
    precision = () if one.precision == "default" else (one.precision,)
    return ", ".join([short(one.device_label), *models, how, *precision])


def _units(shown: Sequence[FrameworkFinding]) -> list[str]:
    """The units of work, the longest wording first; the share of a step is that of an image."""
    step = "step" if shown[0].task == "train" else "call"
    batches = {one.batch for one in shown}
    if len(batches) > 1:
        return [f"per {step} and per image", f"per {step}"]
    if batches == {1}:
        return [f"per {step} of 1 image", f"per {step}"]
    many = f"per {step} of {shown[0].batch} images"
    return [f"{many} and per image", many, f"per {step}"]


def _fusion(found: Sequence[FusionFinding]) -> Iterator[str]:
    """For each device the net where a compiler wins or loses most, of pairs that differ in nothing else."""
    told = [
        one
        for one in found
        if one.share is not None and one.verdict not in (None, Verdict.UNCERTAIN) and not one.also
    ]
    for device in dict.fromkeys(one.device_label for one in told):
        mine = [one for one in told if one.device_label == device]
        each = []
        for runtime in dict.fromkeys(one.runtime for one in mine):
            best = min((one for one in mine if one.runtime == runtime), key=lambda one: one.point or 0.0)
            assert best.share is not None
            shown = format_ratio_interval(best.share)
            each.append(f"{runtime} {best.execution} {shown} of {best.base_execution}'s time ({best.model})")
        yield phrases.cut(f"Fusion on {short(device)}, at most: {', '.join(each)}")


def _unranked(pairs: Sequence[FrameworkFinding]) -> Iterator[str]:
    """Pairs whose work is not equal, or not shown to be; the first one named."""
    left = [one for one in pairs if one.equality.verdict != "equal"]
    if left:
        first = left[0]
        where = f"{first.candidate_name} on {first.model}, {short(first.device_label)}"
        yield phrases.cut(
            f"{len(left)} of {len(pairs)} pairs of frameworks are not ranked; {where}: {first.equality.why}"
        )
