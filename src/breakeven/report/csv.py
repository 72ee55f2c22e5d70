"""The cases as a sheet: one row a case, the unit in every heading, RFC 4180.

Knows nothing about the view: a sheet holds plain numbers, with a point whatever the locale, and is empty
where nothing is known.
"""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

from breakeven.analysis.findings import CaseFinding, ShareFinding, StepFinding, Understanding
from breakeven.analysis.inference import QUANTILES
from breakeven.analysis.inference_findings import InferenceFinding
from breakeven.analysis.shares import SHARES
from breakeven.stats import Interval

# A spreadsheet takes a cell that starts so for a formula (OWASP, CSV Injection).
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

Field = str | int | float | bool | None


def sheet(understanding: Understanding) -> str:
    """The text of the CSV file, lines ending in CR LF."""
    kinds = tuple(dict.fromkeys(kind for c in understanding.cases for kind in c.memory_mib))
    several = len(set(understanding.sources)) > 1
    climbed = {
        (one.source, step.case_id): step for one in understanding.ladders for step in reversed(one.steps)
    }
    chosen: dict[tuple[str, str | None], list[str]] = {}
    for source, found in ((one.source, b) for one in understanding.ladders for b in one.best):
        chosen.setdefault((source, found.case_id), []).append(found.numerics)
    shares = {(s.source, s.case_id): s for s in understanding.shares}
    inferred = {(f.source, f.case_id): f for f in understanding.inference.cases}
    left_out = dict(zip(understanding.sources, understanding.left_out_lines, strict=False))
    rows: list[Mapping[str, Field]] = [
        ({"file": c.source} if several else {})
        | dict(_fields(c, kinds))
        | dict(_where(shares.get((c.source, c.case_id))))
        | dict(_ladder(climbed.get((c.source, c.case_id)), chosen.get((c.source, c.case_id), ())))
        | (dict(_inference(inferred.get((c.source, c.case_id)))) if inferred else {})
        | {"unproven": c.unproven, "left_out_lines": left_out.get(c.source, 0)}
        for c in understanding.cases
    ]
    return lines_of(rows)


def lines_of(rows: Sequence[Mapping[str, Field]]) -> str:
    """Rows of equal keys as the text of a CSV file, the keys in its first line."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    if rows:
        writer.writerow([_guarded(name) for name in rows[0]])
    # Half of the values are not known, and a call for each of those takes as long as for a number.
    writer.writerows(["" if value is None else _plain(value) for value in row.values()] for row in rows)
    return out.getvalue()


def _plain(value: str | int | float | bool) -> str:
    if isinstance(value, str):
        return _guarded(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return _number(value)


def _number(value: int | float) -> str:
    """The shortest digits that read back as the same number."""
    if isinstance(value, int):
        return str(value)
    return repr(float(value)) if math.isfinite(value) else ""


def _guarded(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text


def _fields(c: CaseFinding, kinds: tuple[str, ...]) -> Iterator[tuple[str, Field]]:
    work, tuning = c.case.work, c.case.tuning
    identity: dict[str, Field] = {
        "case_id": c.case_id, "model": work.model, "task": work.task, "data": work.data, "batch": work.batch,
        "seed": work.seed, "device": c.device_label, "tuning": c.tuning_name, "runtime": tuning.runtime,
        "execution": tuning.execution, "precision": tuning.precision, "layout": tuning.layout,
        "residency": tuning.residency, "workers": tuning.workers, "threads": tuning.threads,
        "simulated": c.simulated, "in_study": c.in_study, "processes": c.processes,
        "outcomes": "; ".join(f"{name}={count}" for name, count in c.outcomes.items()),
        "failure": c.failure, "flags": "; ".join(c.flags),
        "parameters": c.parameters, "flops_per_step": c.flops_per_step,
    }  # fmt: skip
    yield from identity.items()
    yield from interval("step", "s", c.step_s, c.step_point_s)
    yield from interval("rate", "samples_per_s", c.samples_per_s, c.samples_per_s_point)
    yield "rate_tflop_per_s", c.tflop_per_s
    yield "ceiling_tflop_per_s", c.ceiling_tflop_per_s
    yield "ceiling_precision", c.ceiling_precision
    yield "share_of_ceiling", c.share_of_ceiling
    yield from interval("epoch", "s", c.epoch_s, c.epoch_point_s)
    yield from interval("total_forecast", "s", c.total_s, c.total_point_s)
    full = c.full_points_s[0] if len(c.full_points_s) == 1 else None
    yield from interval("full_run", "s", c.full_s, full)
    once: dict[str, Field] = {
        "full_runs": len(c.full_points_s), "forecast_error_share": c.forecast_error,
        "forecast_runs_inside": c.forecast_hits, "forecast_runs_judged": c.forecast_judged or None,
        "evaluation_s": c.evaluation_s, "startup_s": c.startup_s, "first_step_s": c.cold_s,
    }  # fmt: skip
    yield from once.items()
    yield from interval("accuracy", "share", c.accuracy, fmean(c.accuracies) if c.accuracies else None)
    yield from interval("accuracy_over_seeds", "share", c.accuracy_over_seeds, None)
    yield from ((f"memory_{kind.removesuffix('_mib')}_mib", c.memory_mib.get(kind)) for kind in kinds)
    yield "energy_j_per_step", c.energy_j_per_step
    yield "power_w", c.power_w
    yield "net_energy_j_per_step", c.net_energy_j_per_step
    yield "idle_power_w", c.idle_w
    yield "process_steps_s", "; ".join(map(repr, c.samples_s))


def _ladder(step: StepFinding | None, best_of: Sequence[str]) -> Iterator[tuple[str, Field]]:
    """What the case wins over the step before it in its ladder, and whose best it is."""
    win = step.win if step else None
    yield "ladder_over", win.tuning_base if win else None
    yield from interval("ladder_win", "times", win.ratio if win else None, win.point if win else None)
    yield "ladder_loses", step.loses if step else None
    yield "best_of_numerics", "; ".join(best_of)


def _inference(found: InferenceFinding | None) -> Iterator[tuple[str, Field]]:
    """Latency, energy and the outputs of a case of inference; of training nothing, beside others."""
    yield "single_calls", found.calls if found else None
    for p in QUANTILES:
        q = found.quantile(p) if found else None
        name = f"call_p{100 * p:g}".replace(".", "_")
        yield f"{name}_pooled_s", q.value_s if q else None
        yield from interval(name, "s", q.interval if q else None, None)
    own = found or InferenceFinding(case_id="", source="")
    yield from interval("first_call", "s", own.cold_s, own.cold_point_s)
    yield "build_s", own.build_s
    yield from interval("energy", "j_per_image", own.j_per_image, own.j_per_image_point)
    yield "share_of_floor", own.share_of_floor
    figures: dict[str, Field] = {
        "top1_agreement_share": own.outputs.agreement, "output_error": own.outputs.output_error,
        "reference_error": own.outputs.reference_error, "test_accuracy_share": own.outputs.accuracy,
        "fp32_accuracy_share": own.outputs.fp32_accuracy,
        "random_weights": own.outputs.random if found else None, "ranked": found.ranked if found else None,
        "not_ranked_because": own.reasons.get("ranked"),
    }  # fmt: skip
    yield from figures.items()


def _where(found: ShareFinding | None) -> Iterator[tuple[str, Field]]:
    """Where the step's time goes; empty where it was not split."""
    yield "bound_by", found.label if found else None
    yield "bound_because", found.why if found else None
    for part in SHARES:
        yield f"{part}_share", found.shares.get(part) if found else None
    yield from interval(
        "launch", "share", found.launch_share if found else None, found.launch_share_point if found else None
    )
    yield "floor_s", found.floor_s if found else None
    yield "floor_memory_share", found.floor_memory_share if found else None
    yield "flops_per_byte", found.flops_per_byte if found else None


def interval(
    name: str, unit: str, interval: Interval | None, point: float | None
) -> Iterator[tuple[str, Field]]:
    of = f"_{unit}" if unit else ""
    yield f"{name}{of}", interval.estimate if interval else point
    yield f"{name}_low{of}", interval.low if interval else None
    yield f"{name}_high{of}", interval.high if interval else None
    yield f"{name}_confidence", interval.confidence if interval else None
    yield f"{name}_n", interval.n if interval else None
