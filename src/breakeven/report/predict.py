"""Forecasts as a report: what is expected of hardware that is not here, how sure, what fits.

Knows nothing about how a forecast is made.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from breakeven.analysis.predict.types import Forecast, Prediction
from breakeven.catalog.facts import sources
from breakeven.records.canonical import to_json
from breakeven.report import words
from breakeven.report.predict_sections import OF_RATES, OURS, by_device, sections
from breakeven.report.view import Report

SCOPE = "Convolutional nets and what resembles them: no language model is forecast."


def report(found: Prediction) -> Report:
    """The report of one prediction."""
    devices = list(dict.fromkeys(f.device for f in found.forecasts))
    return Report(
        title=f"Forecast for {words.joined(devices)}",
        banner=None,
        badge="",
        facts=(*_learned_from(found), *found.sources),
        sentences=sentences(found),
        sections=sections(found),
        footnotes=(*_assumed(found), SCOPE),
    )


def _learned_from(found: Prediction) -> tuple[str, ...]:
    if not found.rows:
        return ()
    several = len(found.learned) > 1
    said = [
        (f"{words.joined(one.devices)}: " if several else "")
        + f"{one.rows} rows learned from, {one.own_rows or 'none'} of them yours"
        for one in found.learned
    ]
    if found.own_left:
        said.append(f"{sum(found.own_left.values())} of your rows not learned from")
    return (*said, f"{found.confidence:.0%} intervals")


def sentences(found: Prediction) -> tuple[str, ...]:
    """What is expected of each device, what of it was measured, and how wrong the method was."""
    faults = [f"Not believed: {fault}." for fault in found.faults]
    said_of = [_device_sentence(name, forecasts) for name, forecasts in by_device(found).items()]
    gaps = dict.fromkeys(f.reasons["precision"] for f in found.forecasts if "precision" in f.reasons)
    left = [f"{count} {why}" for why, count in found.own_left.items()]
    own = [f"Not learned from, of your own rows: {', '.join(left)}."] if left else []
    told = (*(f"{gap}." for gap in gaps), *_error_sentences(found), *own)
    return (*faults, *said_of, *told, *(f"{note}." for note in found.notes))


def document(found: Prediction) -> dict[str, Any]:
    """The prediction as JSON values."""
    return {
        "confidence": found.confidence,
        "rows": found.rows,
        "own_rows": found.own_rows,
        "forecasts": [to_json(f) for f in found.forecasts],
        "validation": [to_json(s) for s in found.scores],
        "rows_left_out": dict(found.left),
        "own_rows_left_out": dict(found.own_left),
        "learned_from": [to_json(one) for one in found.learned],
        "sentences": list(sentences(found)),
        "notes": list(found.notes),
        "scope": SCOPE,
        "credits": [f"{s.title} ({s.licence})" for s in _credits()],
        "results": list(found.sources),
        "faults": list(found.faults),
        "left_out_lines": found.left_out_lines,
    }


def sheet(found: Prediction) -> str:
    """The forecasts as CSV."""
    names = [
        "case_id", "model", "task", "batch", "tuning_name", "precision", "here", "here_s", "device", "step_s",
        "low_s", "high_s", "rate", "p99_s", "floor_s", "power_w", "measured_s",
    ]  # fmt: skip
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow([*names, "reason", "left_out_lines"])
    for f in found.forecasts:
        values = [getattr(f, name) for name in names]
        told = ["" if value is None else value for value in values]
        rows.writerow([*told, f.reasons.get("step_s", ""), found.left_out_lines])
    return out.getvalue()


def _device_sentence(name: str, forecasts: Sequence[Forecast]) -> str:
    known = [f for f in forecasts if f.step_s is not None]
    if not known:
        return f"{name}: none of {len(forecasts)} cases can be forecast; the reasons stand below."
    count = f"{len(known)} case" + ("s" if len(known) > 1 else "")
    text = f"{name}: {count} forecast"
    # A case that only this device measured has nothing else to be compared with.
    times = sorted(f.here_s / (f.step_s or 1.0) for f in known if f.here_s != f.measured_s)
    if times:
        here = words.joined(dict.fromkeys(f.here for f in known if f.here_s != f.measured_s))
        span = _from_to(times[0], times[-1])
        over = count if len(times) == len(known) else f"{len(times)} of {count}"
        # Two cases that are forecast a factor apart are no interval: each has its own.
        best = "at best" if known[0].confidence is None else "point forecasts of"
        text = f"{name}: {best} {span} times as fast as {here} here, over {over}"
        sure = [f for f in known if f.here_s != f.measured_s and f.low_s and f.high_s]
        if sure:
            widest = _from_to(
                min(f.here_s / (f.high_s or 1.0) for f in sure),
                max(f.here_s / (f.low_s or 1.0) for f in sure),
            )
            text += f"; with their {sure[0].confidence:.0%} intervals {widest} times"
    if len(known) < len(forecasts):
        text += f" ({len(forecasts) - len(known)} refused)"
    checked = [f for f in known if f.measured_s]
    if checked:
        off = sorted(abs((f.measured_s or 0) / (f.step_s or 1) - 1) for f in checked)
        held = sum((f.low_s or 0) <= (f.measured_s or 0) <= (f.high_s or 0) for f in checked)
        middle = words.percent(off[len(off) // 2])
        text += (
            f". These results hold it too, and no row of it was used: rates off by {middle} in the middle, "
            f"{held} of {len(checked)} inside the interval"
        )
    return text + "."


def _from_to(low: float, high: float) -> str:
    few, most = words.two_digits(low), words.two_digits(high)
    return few if few == most else f"{few} to {most}"


def _error_sentences(found: Prediction) -> tuple[str, ...]:
    ours, model = found.score(OURS, "device"), found.score(OURS, "model")
    naive = [s for s in found.scores if s.name != OURS]
    if ours is None or model is None or not naive:
        return ()
    best = min(naive, key=lambda s: s.error)
    which = "rows" if found.own_rows else "published rows"
    model_of = f"Of the model for {words.joined(found.learned[0].devices)}: w" if found.learned[1:] else "W"
    return (
        f"{model_of}ith whole devices left out, {OF_RATES} were off by {ours.error:.1%} in the middle "
        f"({ours.rows} {which}, {ours.groups} devices), by {best.error:.1%} with the best naive scaling "
        f"({best.name}); intervals of {found.confidence:.0%} held {ours.covered:.0%} of the rows.",
        f"With whole models left out, rates were off by {model.error:.1%} ({model.rows} rows, "
        f"{model.groups} models).",
    )


def _assumed(found: Prediction) -> Iterable[str]:
    if any(f.launch_share and f.launch_share > 0.5 for f in found.forecasts):
        yield (
            "Launches: where over half of a step goes to launching kernels, it is the host that counts. "
            "Hosts and programs like the published ones are assumed, most of them of 2020 and 2021: on newer "
            "ones such a step is probably faster than forecast; the interval allows for a factor of 3.5."
        )
    if not found.rows:
        return
    yield (
        "A board is known by its datasheet: bandwidth, peak, power, lanes. Clocks under load, coolers and "
        "drivers are not."
    )
    yield (
        "Most rows are of programs of 2020 to 2024. On later ones errors were several times as large "
        "(docs/predict.md)."
    )
    yield "Learned from: " + "; ".join(f"{s.title} ({s.licence})" for s in _credits()) + "."


def _credits() -> list[Any]:
    names = (
        "nvidia-dle-pytorch", "nvidia-dle-tensorflow", "nvidia-dle-triton", "timm", "mlperf-inference",
        "jcjohnson", "ai-infer-acc",
    )  # fmt: skip
    return [sources()[name] for name in names]
