"""What stands beside an option of inference: what its outputs are worth, and the accuracy that it may lose.

Knows nothing about which option is chosen. Accuracy of drawn weights is chance, so there agreement with FP32
is all that can be said, and it says nothing of what a trained net would lose.
"""

from breakeven import stats
from breakeven.analysis.advise_findings import Fit, Kept
from breakeven.analysis.cases import Measured
from breakeven.analysis.inference import Served
from breakeven.analysis.inference_findings import Outputs
from breakeven.stats import Interval

DROP = "accuracy drop"
PLAIN = ("fp32", "default")
SAME = 0.99
"""Agreement from which a case in FP32 computes what FP32 does: the few others are near ties."""
RANDOM = "cannot be told with random weights"
NO_LABELS = "no accuracy was measured: answers that differ may be as right"
UNCOUNTED = "its check did not say of how many images: no interval"
OPEN = "its interval holds the limit"


def worth_of(m: Measured, served: Served | None) -> str:
    """Agreement, and accuracy where known, of outputs that are not FP32's; "" where none need be said."""
    if served is None:
        return ""
    o = served.finding.outputs
    differs = o.agreement is not None and o.agreement < SAME
    if m.case.tuning.precision in PLAIN and not differs:
        return ""
    if o.agreement is None:
        said = f"agreement with FP32 not known ({o.reasons.get('agreement', 'no check')})"
    else:
        said = agreement(o)
    return f"{said}, {_accuracies(o)}" if _labelled(o) else said


def agreement(o: Outputs) -> str:
    """How often the outputs name the class that the runtime's own FP32 does, of which weights and images."""
    of = f" of {o.images:,} images" if o.images else ""
    random = " (random weights)" if o.random else ""
    return f"{100 * (o.agreement or 0.0):.4g} % same top-1 as FP32{of}{random}"


def served_drop(m: Measured, served: Served, limit: float) -> Kept:
    """How accuracy against the runtime's own FP32 keeps to a limit of its drop, a share.

    By accuracy where trained weights were scored on labelled images, else by the share of other top-1, which
    bounds the drop: an answer that is the same is as right as it was.
    """
    o = served.finding.outputs
    if o.random:
        said = "-" if o.agreement is None else f"by agreement: {agreement(o)}"
        return Kept(limit=DROP, fit="open", said=said, why=RANDOM)
    if _labelled(o):
        return _by_accuracy(m, o, limit)
    if o.agreement is None:
        why = o.reasons.get("agreement", NO_LABELS)
        return Kept(limit=DROP, fit="open", said="-", why=why)
    said = f"by agreement: {agreement(o)}"
    if not o.images:
        return Kept(limit=DROP, fit="open", said=said, why=UNCOUNTED)
    differ = stats.share_interval(round((1 - o.agreement) * o.images), o.images)
    said = f"at most {100 * differ.high:.2f} points, {said}"
    if differ.high <= limit or _is_plain(m, o):
        return Kept(limit=DROP, fit="meets", said=said)
    return Kept(limit=DROP, fit="open", said=said, why=NO_LABELS)


def _by_accuracy(m: Measured, o: Outputs, limit: float) -> Kept:
    """The change with its binomial interval; a limit inside of it is open."""
    change = _change(o)
    if change is None:
        return Kept(limit=DROP, fit="open", said=_accuracies(o), why=UNCOUNTED)
    said = f"{drop_words(change)} ({_accuracies(o)}, {change.n:,} images)"
    fit: Fit = "meets" if change.low >= -limit else "fails" if change.high < -limit else "open"
    if fit == "open" and change.high >= 0 and _is_plain(m, o):
        fit = "meets"
    return Kept(limit=DROP, fit=fit, said=said, why=OPEN if fit == "open" else "")


def drop_words(change: Interval) -> str:
    """A change of accuracy (a share, with its interval) as the drop that it is, or that none was seen."""
    low, drop, high = (100 * x for x in (-change.high, -change.estimate, -change.low))
    if drop > 0:
        return f"{drop:.2f} points [{low:.2f}, {high:.2f}]"
    return "none" if high <= 0 else f"none seen, at most {high:.2f} points"


def _change(o: Outputs) -> Interval | None:
    """Accuracy less FP32's. Paired where both answered the same images: only answers that differ can turn a
    right one wrong or back, so their number bounds those that did, and the interval is the widest of that."""
    if not o.labelled or o.accuracy is None or o.fp32_accuracy is None:
        return None
    n = o.labelled
    right, plain = (min(n, max(0, round(n * share))) for share in (o.accuracy, o.fp32_accuracy))
    if o.agreement is None or o.images != n:
        return stats.change_of_shares(plain, right, n)
    turned = max(abs(right - plain), round((1 - o.agreement) * n))
    return stats.paired_change((turned + plain - right) / 2, (turned + right - plain) / 2, n)


def _is_plain(m: Measured, o: Outputs) -> bool:
    """Whether the case is the FP32 that a drop is counted from, by what it answered as well as by name."""
    return m.case.tuning.precision == "fp32" and o.agreement is not None and o.agreement >= SAME


def _labelled(o: Outputs) -> bool:
    """Whether both accuracies are known, and of weights that were trained."""
    return not o.random and o.accuracy is not None and o.fp32_accuracy is not None


def _accuracies(o: Outputs) -> str:
    return f"accuracy {100 * (o.accuracy or 0.0):.4g} %, FP32 {100 * (o.fp32_accuracy or 0.0):.4g} %"
