"""The cases among which advice chooses: what each takes by process, and how it keeps to the limits.

Knows nothing about which one is chosen.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from breakeven import stats, units
from breakeven.analysis.advise_findings import Fit, Kept, Limits, Option, Prices
from breakeven.analysis.advise_outputs import DROP, OPEN, drop_words, served_drop, worth_of
from breakeven.analysis.cases import Measured
from breakeven.analysis.forecast import built_s, first_builds_s, total_s
from breakeven.analysis.inference import Served
from breakeven.analysis.processes import NS, Key, Process, process
from breakeven.analysis.ratios import disturbed
from breakeven.analysis.runs import images_of
from breakeven.analysis.seeds import by_seed, pool_of
from breakeven.records.ladder import numerics
from breakeven.records.lines import Attempt
from breakeven.stats import Interval

DEVICE_MEMORY = ("device_used_delta_mib", "torch_allocated_peak_mib")
"""Who tells what a GPU needs, the most telling first: the driver's growth holds the context as well."""
HOST_MEMORY = ("host_rss_peak_mib",)
MEMORY_WORDS = {
    "device_used_delta_mib": "what the driver's use grew by",
    "torch_allocated_peak_mib": "the framework's peak",
    "host_rss_peak_mib": "the host's peak",
}
FEW_CALLS = 3
"""Single calls from which all of them above a limit refute it: were 1 % the truth, the chance is 1e-6."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A case with seconds by process: of an image, or of the run that is asked for; `full`: of full runs."""

    measured: Measured
    served: Served | None
    option: Option
    seconds: Mapping[Key, float]
    full: bool = False


def candidate(
    m: Measured,
    served: Served | None,
    attempts: Mapping[str, Attempt],
    limits: Limits,
    prices: Prices | None,
    reference: Sequence[Measured],
    name: str,
) -> Candidate | str:
    """The case as a candidate, or why it is none. `reference`: cases of the same work at any seed, for its
    accuracy."""
    why = _unfit(m, served)
    seconds = why if why else _seconds(m, served, attempts, limits)
    if isinstance(seconds, str):
        return seconds
    values = [s for (unit, _), s in seconds.items() if unit == m.finding.unit] or list(seconds.values())
    point = stats.geometric_mean(values)
    price = prices.of(m.finding.device_label) if prices else None
    option = Option(
        case_id=m.finding.case_id,
        case=m.case,
        label=name,
        device_label=m.finding.device_label,
        seconds=stats.case_interval(values, looks=m.looks),
        seconds_point=point,
        cost=point / 3600 * price.an_hour if price else None,
        joules=_joules(m, served, point),
        limits=tuple(_kept(m, served, limits, reference)),
        worth=worth_of(m, served),
        flags=_flags(m, len(values)),
        of_processes=len(values),
        evidence=m.finding.evidence,
    )
    full = served is None and limits.accuracy is not None
    return Candidate(measured=m, served=served, option=option, seconds=seconds, full=full)


def _flags(m: Measured, processes: int) -> dict[str, int]:
    """Flag -> processes that carry it, one process alone among them: its advice has no interval."""
    added = {"simulated": processes} if m.finding.simulated else {}
    added |= {"one_process": 1} if processes == 1 else {}
    return added | dict(m.finding.flag_counts)


def _unfit(m: Measured, served: Served | None) -> str | None:
    if m.finding.failure:
        return m.finding.failure
    if served is not None and not served.ranked:
        return served.finding.reasons.get("ranked", "its check failed")
    if m.finding.unproven:
        return m.finding.unproven
    if disturbed(m.finding):
        return "something else used the machine in most of its processes"
    return None


def _seconds(
    m: Measured, served: Served | None, attempts: Mapping[str, Attempt], limits: Limits
) -> dict[Key, float] | str:
    """Seconds an image or a run by process; or why they are not known."""
    if served is not None:
        found = {key: 1 / rate for key, rate in served.rates.items()}
        return found or m.finding.reasons.get("samples_per_s", "no number")
    if limits.accuracy is not None:
        return _to_accuracy(m, limits.accuracy)
    mine = [attempts[line] for line in m.finding.evidence if line in attempts]
    made = [p for a in mine if a.region == "train_step" and isinstance(p := process(a), Process)]
    builds = first_builds_s(made)
    totals = {p.key: total_s(p, builds[p.key], limits.epochs) for p in made}
    known = {key: value for key, value in totals.items() if not isinstance(value, str) and value > 0}
    why = next(
        (v for v in totals.values() if isinstance(v, str)), m.finding.reasons.get("step_s", "no number")
    )
    return known or why


def _to_accuracy(m: Measured, wanted: float) -> dict[Key, float] | str:
    """Seconds of each full run until an epoch first scored `wanted`, start-up and building included."""
    if not m.runs:
        return f"no full run: whether it reaches {100 * wanted:g} % is not known"
    found, best = {}, 0.0
    for run in m.runs:
        passed, epochs = 0.0, run.last.epochs
        best = max([best, *(e.accuracy for e in epochs if e.accuracy is not None)])
        once = (run.last.startup_ns or 0) * NS + built_s(run.last)
        for epoch in epochs if not run.resumed else ():
            passed += (epoch.train_ns + (epoch.eval_ns or 0)) * NS
            if epoch.accuracy is not None and epoch.accuracy >= wanted:
                found[run.key] = once + passed
                break
    if not found and best >= wanted:
        return "its run was resumed: its time judges nothing"
    return found or f"no run reached {100 * wanted:g} % (best {100 * best:.1f} %)"


def _joules(m: Measured, served: Served | None, seconds: float) -> float | None:
    """Gross joules of an image, or of the run at the mean power of its steps."""
    if served is not None:
        found = served.finding
        return found.j_per_image.estimate if found.j_per_image else found.j_per_image_point
    return m.finding.power_w * seconds if m.finding.power_w is not None else None


def _kept(m: Measured, served: Served | None, limits: Limits, reference: Sequence[Measured]) -> list[Kept]:
    """How the case keeps to each limit that is given."""
    found = []
    if limits.max_p99_s is not None and served is not None:
        found.append(_p99(served, limits.max_p99_s))
    if limits.min_rate is not None:
        found.append(_rate(m, limits.min_rate))
    if limits.max_memory_mib is not None:
        found.append(_memory(m, limits.max_memory_mib))
    if limits.max_joules is not None:
        found.append(_energy(m, served, limits.max_joules))
    if limits.max_accuracy_drop is not None:
        found.append(_drop(m, served, limits.max_accuracy_drop, reference))
    return found


def below(interval: Interval | None, point: float | None, limit: float) -> Fit:
    """Whether a quantity is surely at most `limit`, surely above, or neither; a point alone is neither."""
    if interval is None or point is None:
        return "open"
    return "meets" if interval.high <= limit else "fails" if interval.low > limit else "open"


def _told(name: str, fit: Fit, interval: Interval | None, form: Callable[[float], str], why: str) -> Kept:
    if interval is None:
        return Kept(limit=name, fit=fit, said="-", why=why)
    said = f"{form(interval.estimate)} [{form(interval.low)}, {form(interval.high)}]"
    return Kept(limit=name, fit=fit, said=said, why=OPEN if fit == "open" else "")


def _p99(served: Served, limit: float) -> Kept:
    q = served.finding.quantile(0.99)
    fit = below(q.interval, q.value_s, limit)
    why = served.finding.reasons.get("calls") or q.reason or "no single calls"
    calls = [call for mine in served.calls.values() for call in mine]
    if fit == "open" and len(calls) >= FEW_CALLS and min(calls) > limit:
        said = f"above: every one of {len(calls):,} calls took {units.format_duration(min(calls))} or more"
        return Kept(limit="p99", fit="fails", said=said)
    if q.interval is None and q.value_s is not None:
        why = f"{units.format_duration(q.value_s)}, {why}"
    return _told("p99", fit, q.interval, units.format_duration, why)


def _rate(m: Measured, limit: float) -> Kept:
    rate = m.finding.samples_per_s
    fit: Fit = "open"
    if rate is not None:
        fit = "meets" if rate.low >= limit else "fails" if rate.high < limit else "open"
    why = m.finding.reasons.get("samples_per_s", "no interval")
    return _told("rate", fit, rate, lambda x: f"{x:,.0f}/s", why)


def _memory(m: Measured, limit: float) -> Kept:
    names = HOST_MEMORY if m.case.device.kind == "cpu" else DEVICE_MEMORY
    known = m.finding.memory_mib
    name = next((n for n in names if n in known), None)
    if name is None and m.case.device.kind == "sim":
        name = next(iter(known), None)
    if name is None:
        return Kept(limit="memory", fit="open", said="-", why=f"{MEMORY_WORDS[names[0]]} was not read")
    fit: Fit = "meets" if known[name] <= limit else "fails"
    words = MEMORY_WORDS.get(name, "simulated")
    return Kept(limit="memory", fit=fit, said=f"{known[name]:,.0f} MiB ({words})")


def _energy(m: Measured, served: Served | None, limit: float) -> Kept:
    if served is not None:
        found = served.finding
        fit = below(found.j_per_image, found.j_per_image_point, limit)
        why = found.reasons.get("j_per_image", "one process")
        return _told("energy", fit, found.j_per_image, lambda x: f"{x:.3g} J", why)
    joules = m.finding.energy_j_per_step
    if joules is None:
        why = m.finding.reasons.get("energy_j_per_step", "energy was not read")
        return Kept(limit="energy", fit="open", said="-", why=why)
    image = joules / m.case.work.batch
    return Kept(limit="energy", fit="meets" if image <= limit else "fails", said=f"{image:.3g} J an image")


def _drop(m: Measured, served: Served | None, limit: float, reference: Sequence[Measured]) -> Kept:
    return _trained(m, limit, reference) if served is None else served_drop(m, served, limit)


def _trained(m: Measured, limit: float, reference: Sequence[Measured]) -> Kept:
    """Final accuracies of full runs against those with default numerics, over seeds where both have several.

    Repeats of one seed are one training: then the test images alone say how far its accuracy is known.
    """
    if m.case.tuning.precision == "default":
        return Kept(limit=DROP, fit="meets", said="none (default numerics are the reference)")
    mine = [r for r in reference if pool_of(r) == pool_of(m)]
    plain = [
        r for r in reference if r.case.pool_id == m.case.pool_id and numerics(r.case.tuning)[0] == "default"
    ]
    own, base = by_seed(mine), by_seed(plain)
    if not own or not base:
        return Kept(limit=DROP, fit="open", said="-", why="no full run on one of the sides")
    # Two-sided 95 %, as every limit of advice; the margin, never 0, has no part in the difference.
    found = stats.accuracy_equivalence(base, own, margin=limit or 1.0, alpha=0.025).difference
    seeds = f"{len(own)} and {len(base)} seeds"
    if found is None:
        images = images_of([run for r in (*mine, *plain) for run in r.runs])
        if images is None:
            return Kept(
                limit=DROP, fit="open", said="-", why="one seed, and its test images were not counted"
            )
        right, known = (min(images, max(0.0, statistics.fmean(x) * images)) for x in (own, base))
        found = stats.change_of_shares(known, right, images)
        seeds = f"one seed; by its {images:,} test images"
    fit: Fit = "meets" if found.low >= -limit else "fails" if found.high < -limit else "open"
    said = f"{drop_words(found)} of final accuracy ({seeds})"
    return Kept(limit=DROP, fit=fit, said=said, why=OPEN if fit == "open" else "")
