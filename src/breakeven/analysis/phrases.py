"""The pieces that sentences are made of: who against whom, a ratio, a trend, an accuracy.

Knows nothing about which sentences are said.
"""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from breakeven.analysis.findings import CaseFinding, ParityFinding, RatioFinding, ScaleFinding, ShareFinding
from breakeven.analysis.naming import EXECUTIONS
from breakeven.analysis.scale import told_law
from breakeven.records.case import Device
from breakeven.records.tuning import INFERENCE, PRESETS
from breakeven.stats import Interval, Verdict
from breakeven.units import format_ratio_interval

DISTURBED = "no verdict (machine shared)"
APART = "no verdict (not measured in turn)"

LONGEST = 157
"""Two lines of 80 columns, less what a break between words may lose."""


LINE = 80


def two_lines(text: str) -> bool:
    """Whether a sentence fits on two lines of a terminal."""
    return len(textwrap.wrap(text, LINE)) <= 2


@dataclass(frozen=True, kw_only=True, slots=True)
class Sides:
    """Both devices in words: "Both cores", "train", "one core"; or by their labels."""

    candidate: str
    base: str
    verb: str

    @staticmethod
    def of(ratio: RatioFinding, cases: Sequence[CaseFinding], cores: int | None) -> "Sides":
        """`cores`: what an unlimited CPU of this machine has."""
        found = {case.case_id: case.case for case in cases}
        candidate, base = found[ratio.candidate_id], found[ratio.base_id]
        verb = "train" if candidate.work.task == "train" else "run"
        if candidate.device.kind == base.device.kind == "cpu":
            subject, many = _cores(candidate.device, cores)
            subject = subject[0].upper() + subject[1:]
            return Sides(
                candidate=subject, base=_cores(base.device, cores)[0], verb=verb if many else f"{verb}s"
            )
        return Sides(candidate=ratio.candidate_label, base=ratio.base_label, verb=f"{verb}s")


def one_ratio(ratio: RatioFinding, who: Sides) -> str:
    """The sentence of a single ratio, by its verdict."""
    assert ratio.ratio is not None
    does = f"{who.candidate} {who.verb} {ratio.model}"
    if ratio.verdict is Verdict.UNCERTAIN:
        return f"{who.candidate} against {who.base} on {ratio.model}, {at(ratio)}: {cannot_tell(ratio)}."
    shown = format_ratio_interval(ratio.ratio)
    if (doubt := _doubt([ratio])) is not None:
        return f"{does} {shown} as fast as {who.base}, {at(ratio)}: {doubt}."
    if ratio.verdict is Verdict.SLOWER:
        longer = format_ratio_interval(inverse(ratio.ratio))
        takes = "take" if who.verb == who.verb.rstrip("s") else "takes"
        task = who.verb.rstrip("s")
        return f"{who.candidate} {takes} {longer} as long as {who.base} to {task} {ratio.model}, {at(ratio)}."
    if ratio.verdict is Verdict.SAME:
        return f"{does} as fast as {who.base}, {at(ratio)}: {shown}, the same within 3 %."
    return f"{does} {shown} as fast as {who.base}, {at(ratio)}."


def inverse(ratio: Interval) -> Interval:
    """How many times as long instead of how many times as fast."""
    return Interval(
        low=1 / ratio.high,
        high=1 / ratio.low,
        estimate=1 / ratio.estimate,
        confidence=ratio.confidence,
        n=ratio.n,
    )


def many_ratios(ratios: Sequence[RatioFinding], who: Sides) -> str:
    """The range of the ratios of several models or batches, without a full stop."""
    ordered = sorted(ratios, key=lambda r: r.ratio.estimate if r.ratio else 0.0)
    low, high = ordered[0], ordered[-1]
    assert low.ratio is not None and high.ratio is not None
    models, batches = len({r.model for r in ratios}), len({r.batch for r in ratios})
    if len({r.data for r in ratios}) > 1:
        models = max(models, 2)  # the same model on other data is another row: each gets its name
    if models == len(ratios) == 2 and len({r.data for r in ratios}) == 1:
        each = [f"{r.model} {format_ratio_interval(r.ratio)}" for r in ratios if r.ratio is not None]
        whole = f"{who.candidate} {who.verb} {each[0]} and {each[1]} as fast as {who.base}, {at(low)}"
        return f"{whole}: {doubt}" if (doubt := _doubt(ratios)) else whole
    what = f"{models} models" if models > 1 else low.model
    ends = f"{format_ratio_interval(low.ratio)}{_which(low, models, batches)}"
    if high is not low:
        ends += f" to {format_ratio_interval(high.ratio)}{_which(high, models, batches)}"
    whole = f"{who.candidate} {who.verb} {what} {ends} as fast as {who.base}, {at(low)}"
    return f"{whole}: {doubt}" if (doubt := _doubt(ratios)) else whole


def single(ratios: Sequence[RatioFinding], who: Sides) -> str:
    """What one process a side can say: about how much, and that it is no verdict."""
    points = sorted(r.point for r in ratios if r.point is not None)
    about = f"{two_digits(points[0])}x"
    if two_digits(points[-1]) != two_digits(points[0]):
        about += f" to {two_digits(points[-1])}x"
    models = list(dict.fromkeys(r.model for r in ratios))
    what = models[0] if len(models) == 1 else f"{len(models)} models"
    why = ratios[0].reasons.get("ratio", "no interval").partition(":")[0]
    does = f"{who.candidate} {who.verb} {what} about {about} as fast as {who.base}"
    return cut(f"{does}, {at(ratios[0])}; {why}, so no verdict")


def trends(ratios: Sequence[RatioFinding], laws: Sequence[ScaleFinding]) -> list[str]:
    """How the ratio moves with the size of the model, the longest wording first; empty where it is unknown.

    A law takes three models; two are compared.
    """
    first = next((s for s in laws if s.against == "parameters"), None)
    law = first and told_law(first, laws)
    if first is not None and law is not None and law.exponent is not None:
        power = f" (exponent {signed(law.exponent)})"
        if law is not first:
            grows = f"the ratio {law.verdict} with FLOPs"
            rest = "with parameters that cannot be told"
            return [f"{grows}{power}; {rest}", f"{grows}; {rest}"]
        if law.verdict == "cannot be told":
            return [f"a trend with model size cannot be told{power}", "no trend with model size can be told"]
        return [f"the ratio {law.verdict} with model size{power}", f"the ratio {law.verdict} with model size"]
    models = {r.model: r for r in ratios}
    if len(models) != 2 or len(ratios) != 2 or any(r.verdict in (None, Verdict.UNCERTAIN) for r in ratios):
        return []
    small, large = sorted(models.values(), key=lambda r: r.parameters or 0)
    if small.ratio is None or large.ratio is None or not (small.parameters or 0) < (large.parameters or 0):
        return []
    # Disjoint intervals: stricter than a test of the difference, and needs no pairing of the two.
    if large.ratio.low > small.ratio.high:
        return ["the larger model gains more"]
    if large.ratio.high < small.ratio.low:
        return ["the larger model gains less"]
    return ["which of the two gains more cannot be told"]


def cannot_tell(ratio: RatioFinding) -> str:
    """The words of UNCERTAIN: the range, and how many processes would decide."""
    assert ratio.ratio is not None
    span = f"{three_digits(ratio.ratio.low)}x to {three_digits(ratio.ratio.high)}x"
    if ratio.processes_needed is None:
        return f"cannot tell yet: {span}; not even 1000 processes would decide"
    many = ratio.processes_needed
    return f"cannot tell yet: {span}; about {many} processes would decide (--set max_replicates={many})"


def at(ratio: RatioFinding) -> str:
    """The tuning; both where they differ, and both precisions where the numerics differ."""
    text = tuning(ratio.tuning_name)
    if ratio.tuning_name != ratio.tuning_base:
        text = f"tuned ({ratio.tuning_name} against {ratio.tuning_base})"
    if ratio.precision_base != ratio.precision_candidate:
        text += f" ({ratio.precision_candidate} against {ratio.precision_base})"
    return text if ratio.of == "step" else f"{text}, whole runs"


def tuning(name: str) -> str:
    """A preset as words: `as-written` is said, the others are named; those of inference add to nothing."""
    first, _, rest = name.partition(" ")
    if first in INFERENCE and first not in PRESETS:
        return f"with {name}"
    if first == "as-written" and rest.partition(" ")[0] in EXECUTIONS:
        return f"as written in {rest}"
    return "as written" if name == "as-written" else f"tuned ({name})"


def bound(where: tuple[str, str], shares: Sequence[ShareFinding], of: int) -> str:
    """What binds a device at a tuning, in so many of its cases, and how large that is."""
    device, name = where
    label = shares[0].label
    cases = "" if of == 1 else f" in {len(shares)} of {of} cases"
    sizes = sorted(filter(None, map(_size, shares)))
    if not sizes:
        return cut(f"{_upper(tuning(name))}, {device} is bound by {label}{cases}")
    low, high = f"{sizes[0]:.0%}", f"{sizes[-1]:.0%}"
    span = low if low == high else f"{low} to {high}"
    return cut(f"{_upper(tuning(name))}, {device} is bound by {label}{cases} ({span} of a step)")


def _size(finding: ShareFinding) -> float | None:
    """The share of a step behind the label, where it is one."""
    if finding.label == "input":
        return finding.shares.get("data_wait", 0.0) + finding.shares.get("cut", 0.0)
    return finding.shares.get("copy") if finding.label == "copy" else finding.launch_share_point


def _upper(text: str) -> str:
    return text[0].upper() + text[1:]


def accuracy(finding: ParityFinding, count: int, of: int) -> str:
    """The verdict on accuracy in points (percent of right answers)."""
    margin = f"{finding.margin * 100:.3g} point{'' if finding.margin == 0.01 else 's'}"
    where = f" on {finding.model}" + (f" (and {count - 1} more)" if count > 1 else "")
    if finding.verdict == "cannot tell":
        return f"Accuracy: cannot tell ({finding.reason})."
    assert finding.difference is not None
    points = signed(finding.difference, scale=100)
    sides = f"{finding.candidate_label} less {finding.base_label}: {points} points"
    if finding.verdict == "equivalent":
        return cut(f"Accuracy: equal within {margin}{where} ({sides})")
    return cut(f"Accuracy differs by more than {margin}{where} ({sides})")


def inside(cases: Sequence[CaseFinding]) -> str:
    """How many measured runs fell into the interval of their forecast, each run judged by itself."""
    told = [case for case in cases if case.forecast_hits is not None]
    if not told:
        return "of one process, so without an interval"
    hits, runs = sum(case.forecast_hits or 0 for case in told), sum(case.forecast_judged for case in told)
    if runs == 1:
        return "inside its interval" if hits else "outside its interval"
    return f"{hits} of {runs} runs inside {'its interval' if len(told) == 1 else 'their intervals'}"


def signed(interval: Interval, scale: float = 1) -> str:
    """A number that may be negative with its interval, "0.2 [0.1, 0.3]", no digit finer than the interval."""
    estimate, low, high = (scale * x for x in (interval.estimate, interval.low, interval.high))
    width = (high - low) / 2
    decimals = max(0, -math.floor(math.log10(width / 0.95))) if width > 0 else 2
    # One digit more where rounding would bring a bound to the 0 that the interval excludes.
    for bound in (low, high):
        if low * high > 0 and round(bound, decimals) == 0:
            decimals += 1
    shown = [f"{value + 0.0:.{decimals}f}" for value in (estimate, low, high)]
    zero = f"-{0:.{decimals}f}"
    shown = [text.removeprefix("-") if text == zero else text for text in shown]
    return f"{shown[0]} [{shown[1]}, {shown[2]}]"


def two_digits(value: float) -> str:
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"


def three_digits(value: float) -> str:
    """Two decimals near 1, where verdicts are decided."""
    return f"{value:.2f}" if value < 10 else f"{value:.3g}"


def cut(text: str) -> str:
    """A sentence of foreign words (a reason, a name) on two lines: no control characters, a full stop."""
    plain = " ".join("".join(c if c.isprintable() else " " for c in text).split()).rstrip(".")
    return textwrap.shorten(plain, LONGEST, placeholder=" ...") + ("" if len(plain) > LONGEST else ".")


def _doubt(ratios: Sequence[RatioFinding]) -> str | None:
    """Why ratios with an interval have no verdict all the same; None if they have."""
    if any(r.disturbed for r in ratios):
        return DISTURBED
    if any(r.apart for r in ratios):
        return APART
    why = next((r.reasons["verdict"] for r in ratios if "verdict" in r.reasons), None)
    return f"no verdict, {why}" if why else None


def _which(ratio: RatioFinding, models: int, batches: int) -> str:
    """What tells a ratio of a range from the others; nothing where they differ in the seed only."""
    words = [ratio.model] if models > 1 else []
    words += [f"batch {ratio.batch}"] if batches > 1 else []
    return f" ({', '.join(words)})" if words else ""


def _cores(device: Device, cores: int | None) -> tuple[str, bool]:
    """ "one core", "4 cores", "both cores", "all 16 cores"; and whether it is more than one."""
    if device.threads is not None:
        return ("one core", False) if device.threads == 1 else (f"{device.threads} cores", True)
    if cores == 2:
        return "both cores", True
    return (f"all {cores} cores", True) if cores and cores > 1 else ("all cores", True)
