"""The numbers of one case, added to its finding part by part: steps, full runs, FLOPs, memory, energy.

Knows nothing about other cases or about which attempts enter.
"""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

from breakeven import stats
from breakeven.analysis.ceilings import SLACK, Light, flops_of, net_of
from breakeven.analysis.findings import CaseFinding
from breakeven.analysis.forecast import evaluation_s, forecast
from breakeven.analysis.processes import NS, Process
from breakeven.analysis.runs import SYNTHETIC, Run, accuracies_of, accuracy_interval
from breakeven.records.case import Work
from breakeven.records.lines import Attempt
from breakeven.workloads import costs

ONE = "one process"


def with_steps(
    finding: CaseFinding, used: Sequence[Process], why: str | None, looks: Sequence[int] = ()
) -> CaseFinding:
    """Adds step time and rate with their intervals, and the parts of a forecast.

    `looks`: the numbers of processes at which the study might have added more (`records.replicates`).
    """
    if not used:
        reason = why or "no process"
        return _because(finding, step_s=reason, samples_per_s=reason, epoch_s=reason, total_s=reason)
    steps, rates = [p.step_s for p in used], [p.samples_per_s for p in used]
    evaluations = [evaluation_s(p.attempt) for p in used]
    ahead = forecast(used, evaluations, looks)
    evaluation = _middle([value for value in evaluations if not isinstance(value, str)])
    reasons = dict(finding.reasons)
    unknown = next((value for value in evaluations if isinstance(value, str)), None)
    if evaluation is None and unknown:
        reasons["evaluation_s"] = unknown
    single = {"step_s": ONE, "samples_per_s": ONE} if len(used) == 1 else {}
    return dataclasses.replace(
        finding,
        processes=len(used),
        step_s=stats.case_interval(steps, looks=looks),
        step_point_s=stats.geometric_mean(steps),
        samples_per_s=stats.case_interval(rates, looks=looks),
        samples_per_s_point=stats.geometric_mean(rates),
        epoch_s=ahead.epoch_s,
        epoch_point_s=ahead.epoch_point_s,
        total_s=ahead.total_s,
        total_point_s=ahead.total_point_s,
        evaluation_s=evaluation,
        startup_s=_middle([ns * NS for p in used if (ns := p.attempt.startup_ns) is not None]),
        cold_s=_middle([ns * NS for p in used if (ns := p.attempt.cold_ns) is not None]),
        samples_s=tuple(steps),
        reasons=reasons | ahead.reasons | single,
    )


def with_runs(
    finding: CaseFinding, runs: Sequence[Run], judging: Sequence[float], looks: Sequence[int] = ()
) -> CaseFinding:
    """Adds what full runs took and learned. `judging`: totals of runs made in one process."""
    if not runs:
        return _because(finding, full_s="sampled; add --full", accuracy="sampled; add --full")
    accuracies = accuracies_of(runs)
    finding = dataclasses.replace(
        finding,
        processes=finding.processes or len(runs),
        full_s=stats.case_interval(judging, looks=looks),
        full_points_s=tuple(run.total_s for run in runs if run.total_s is not None),
        resumed_runs=sum(run.resumed for run in runs),
        accuracies=accuracies,
        accuracy=accuracy_interval(runs),
    )
    if len(judging) < 2:
        why = next((run.reason for run in runs if run.reason), None)
        finding = _because(finding, full_s=ONE if judging else why or "resumed: its total judges nothing")
    if finding.accuracy is None:
        finding = _because(finding, accuracy=_no_accuracy(finding.case.work, accuracies))
    if not judging or finding.total_point_s is None:
        return _because(finding, forecast_error="needs a forecast and a full run made in one process")
    measured = stats.geometric_mean(judging)
    # The interval is that of one further run: their mean lies inside of it more often than each of them does.
    ahead = finding.total_s
    return dataclasses.replace(
        finding,
        forecast_error=finding.total_point_s / measured - 1,
        forecast_hits=sum(map(ahead.contains, judging)) if ahead else None,
        forecast_judged=len(judging),
    )


def with_costs(finding: CaseFinding, parameters: int | None) -> CaseFinding:
    """Adds parameters, FLOPs of a step, counted from the layers (2 a multiply-accumulate), and their rate."""
    work = finding.case.work
    flops, net = flops_of(work), net_of(work)
    if flops is None or net is None:
        finding = _because(finding, flops_per_step="the layers of this model are not known")
        return dataclasses.replace(finding, parameters=parameters)
    return dataclasses.replace(
        finding,
        parameters=parameters or costs.parameter_count(net),
        flops_per_step=float(flops),
        tflop_per_s=flops / finding.step_point_s / 1e12 if finding.step_point_s else None,
    )


def with_light(finding: CaseFinding, light: Light) -> CaseFinding:
    """Adds what the device does at best at the precision that ran, and which share of it was reached."""
    rate = finding.tflop_per_s
    return dataclasses.replace(
        finding,
        ceiling_precision=light.precision,
        ceiling_tflop_per_s=light.ceiling,
        ceiling_evidence=light.evidence,
        peak_tflop_per_s=light.peak,
        share_of_ceiling=rate / light.ceiling if light.ceiling and rate is not None else None,
        reasons={**finding.reasons, **light.reasons},
    )


def with_energy(
    finding: CaseFinding, attempts: Sequence[Attempt], limit_w: float | None = None
) -> CaseFinding:
    """Adds gross energy of the steady state. More than the board's power limit allows is no reading (R9)."""
    watts = [
        x / NS for a in attempts if a.energy and (x := _per(a.energy, "gross_j", "window_ns")) is not None
    ]
    boards = [a for a in attempts if a.energy and a.energy.get("scope") == "gpu_board"]
    if boards and limit_w is not None and max(watts, default=0.0) > SLACK * limit_w:
        why = f"{max(watts):.0f} W, where the board's limit is {limit_w:.0f} W"
        return _because(finding, energy_j_per_step=why, power_w=why)
    power, step = _middle(watts), finding.step_point_s
    if power is not None:
        # The window may hold changes of epoch too, so the step gets the mean power for its own time.
        joules = power * step if step else None
        finding = dataclasses.replace(finding, power_w=power, energy_j_per_step=joules)
        return _net(finding, attempts)
    return _because(finding, energy_j_per_step=_unread(attempts))


def memory_of(attempts: Sequence[Attempt]) -> dict[str, float]:
    """The most that any process used, by kind: what has to fit."""
    memory: dict[str, float] = {}
    for attempt in attempts:
        for name, mib in attempt.memory.items():
            if name not in memory or mib > memory[name]:
                memory[name] = mib
    return memory


def _unread(attempts: Sequence[Attempt]) -> str:
    """Why there is no energy: what the counter that was asked first says, a board's before the packages'."""
    nulls = {name: why for a in reversed(attempts) for name, why in a.nulls.items()}
    told = [why for name, why in nulls.items() if name.split(".")[0] == "energy"]
    return nulls.get("energy.gross_j", told[0] if told else "energy was not read")


def _net(finding: CaseFinding, attempts: Sequence[Attempt]) -> CaseFinding:
    """Adds idle power and the energy of a step beyond it: what the work itself costs (R35)."""
    idles = [w for a in attempts if a.energy and isinstance(w := a.energy.get("idle_w"), int | float)]
    idle, power, step = _middle(idles), finding.power_w, finding.step_point_s
    if idle is None or power is None:
        nulls = (why for a in attempts for name, why in a.nulls.items() if name == "energy.idle_w")
        return _because(finding, net_energy_j_per_step=next(nulls, "no idle power was measured"))
    finding = dataclasses.replace(finding, idle_w=idle)
    if idle >= power:
        why = f"idle power ({idle:.0f} W) is not below the power of the window ({power:.0f} W)"
        return _because(finding, net_energy_j_per_step=why)
    return dataclasses.replace(finding, net_energy_j_per_step=(power - idle) * step if step else None)


def _per(reading: Mapping[str, object], amount: str, of: str) -> float | None:
    over, under = reading.get(amount), reading.get(of)
    if not isinstance(over, int | float) or not isinstance(under, int | float):
        return None
    return over / under if under > 0 else None


def _no_accuracy(work: Work, accuracies: Sequence[float]) -> str:
    if work.data == SYNTHETIC:
        return "synthetic data: there is nothing to learn"
    return "its test images were not counted" if accuracies else "the last epoch was not scored"


def _middle(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _because(finding: CaseFinding, **reasons: str) -> CaseFinding:
    if not reasons:
        return finding
    return dataclasses.replace(finding, reasons={**finding.reasons, **reasons})
