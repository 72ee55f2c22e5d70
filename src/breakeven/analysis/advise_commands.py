"""The commands that would find out what advice cannot tell: each has in it every case that its answer needs.

Knows nothing about verdicts. Nothing is asked for that the file holds, or that its machine cannot do.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from breakeven.analysis import naming
from breakeven.analysis.advise_options import Candidate
from breakeven.analysis.cases import Measured
from breakeven.catalog.rules import Rule
from breakeven.records.ladder import removed_by
from breakeven.records.tuning import preset, preset_used, presets

SIM_PRESETS = "eager,channels-last,compiled"
"""What a simulated device can do of inference: it has no runtime besides its own."""
CUDA_ONLY = ("cuda-graph", "tensorrt")
"""Parts of executions that no CPU has; a preset of inference has no other in its place."""
LEAVE_ONE_OUT = "leave-one-out"
"""The tuning of a study that stands for the full stack less one step at a time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """What the file holds besides the cases that compete: all `cases`, those of earlier studies too; `gpus`:
    whether its machine has one."""

    cases: tuple[Measured, ...]
    source: str
    gpus: bool


def value_of(rule: Rule, c: Candidate) -> str:
    """What a case has on the rule's axis, in a word."""
    return value_in(rule, c.measured)


def value_in(rule: Rule, m: Measured) -> str:
    """What a case has on the rule's axis, in a word."""
    tuning, work = m.case.tuning, m.case.work
    values: Mapping[str, object] = {
        "device": m.finding.device_label,
        "precision": tuning.precision,
        "batch": work.batch,
        "runtime": naming.without_numerics(m.finding.tuning_name),
        "tuning": m.finding.tuning_name,
        "workers": tuning.workers,
        "threads": m.case.device.threads or tuning.threads,
    }
    value = values[rule.rule]
    return "none" if value is None else str(value)


def begin(*cases: Candidate, without: str = "") -> str:
    """The command that measures these cases of one group, less one of its flags."""
    ms = [c.measured for c in cases]
    work = ms[0].case.work
    told = " ".join(
        f"{flag} {shlex.quote(','.join(values))}"
        for flag, values in _flags(ms).items()
        if values and flag != without
    )
    infer = ["--infer"] if work.task == "infer" else []
    seed = ["--set", f"seed={work.seed}"] if work.seed else []
    full = ["--full"] if cases[0].full else []
    return " ".join(["breakeven run", shlex.quote(work.model), *infer, told, *seed, *full])


def _flags(ms: Sequence[Measured]) -> dict[str, list[str]]:
    """The axes of a study that has these cases; an axis without values is left to the study's own."""
    said = [m.case.tuning.precision for m in ms]
    # Precision is an axis of its own in inference; in training a preset may bring its own along.
    needed = ms[0].case.work.task == "infer" or any(_other_precision(m) for m in ms)
    ran = [m.case.tuning.runtime for m in ms]
    return {
        "--data": [ms[0].case.work.data],
        "--batch": _each(str(m.case.work.batch) for m in ms),
        "--device": _each(m.finding.device_label for m in ms),
        "--runtime": _each(ran) if any(_other_runtime(m) for m in ms) else [],
        "--tuning": _tunings(ms),
        "--precision": _each(said) if needed else [],
    }


def _each(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


def _tunings(ms: Sequence[Measured]) -> list[str]:
    """The names of their tunings: one where it stands for the others' on other kinds of device."""
    names = _each(name for m in ms if (name := _name(m)))
    for name in names:
        if name in presets(ms[0].case.work.task) and all(_stands(name, m) == m.preset for m in ms):
            return [name]
    return names


def _stands(name: str, m: Measured) -> str:
    return preset_used(name, m.case.device.kind, task=m.case.work.task)


def _name(m: Measured) -> str:
    """What `--tuning` calls the case's tuning; "" where only its own study can."""
    if m.preset in presets(m.case.work.task):
        return m.preset
    return LEAVE_ONE_OUT if len(removed_by(m.preset)) == 1 and m.case.work.task == "train" else ""


def _other_precision(m: Measured) -> bool:
    """Whether the case computes in another precision than its preset brings along."""
    task, kind = m.case.work.task, m.case.device.kind
    known = m.preset in presets(task)
    return known and preset(m.preset, kind, task=task).precision != m.case.tuning.precision


def _other_runtime(m: Measured) -> bool:
    """Whether another runtime than that of its preset carries the case out."""
    task, kind = m.case.work.task, m.case.device.kind
    if kind == "sim" or m.preset not in presets(task):
        return False
    return preset(m.preset, kind, task=task).runtime != m.case.tuning.runtime


def more(c: Candidate, processes: int) -> str:
    """The command that adds processes: of full runs where the candidate's seconds are theirs."""
    return begin(c) + _processes(c, processes)


def together(chosen: Candidate, other: Candidate, processes: int) -> str | None:
    """The command that measures the two in turn in so many processes; None where no command can name them.

    Both sides are in it: processes of one alone pair with none of the other.
    """
    sides = (other.measured, chosen.measured)
    if not all(_name(m) for m in sides):
        return None
    flags = [_flags([m]) | {"--tuning": [_name(m)]} for m in sides]
    if flags[0] == flags[1] and sides[0].case.tuning.precision == sides[1].case.tuning.precision:
        return None  # they differ in what no flag names
    return begin(other, chosen) + _processes(chosen, processes)


def _processes(c: Candidate, processes: int) -> str:
    if c.full:
        return f" --set full_replicates={processes}"
    return f" --set replicates={processes} --set max_replicates={processes}"


def beside(rule: Rule, c: Candidate, held: Sequence[Measured], known: Known) -> str | None:
    """The command that measures the choice beside what this machine can do and the file does not hold (`held`
    failed, or has no number); None where nothing is left, or no command can name the choice."""
    m = c.measured
    if not _name(m):
        return None
    values = _left(rule, m, held, known)
    if not values:
        return None
    mine = {"device": m.finding.device_label, "threads": m.finding.device_label}
    mine |= {"precision": m.case.tuning.precision, "batch": str(m.case.work.batch)}
    here = mine.get(rule.rule, _name(m))
    if rule.rule == "batch" and here in _doubled(values):
        here = ""
    if values == ["ladder"] and here in presets(m.case.work.task):
        here = ""
    values = _each(value for value in (here, *values) if value)
    said = f"{begin(c, without=rule.flag)} {rule.flag} {shlex.quote(','.join(values))}"
    # Its name may stand for other numerics on another kind of device: a comparison of devices keeps them.
    if rule.rule == "device" and m.case.work.task == "train" and " --precision " not in said:
        kinds = {value.partition(":")[0] for value in values}
        if len({preset(m.preset, kind).precision for kind in kinds if m.preset in presets("train")}) > 1:
            said += f" --precision {m.case.tuning.precision}"
    return said


def _doubled(values: Sequence[str]) -> set[str]:
    """The batches that a range such as 1..64 stands for."""
    found = set()
    for text in values:
        low, dots, high = text.partition("..")
        if dots:
            found |= {str(int(low) << n) for n in range(20) if int(low) << n <= int(high)}
    return found


def _left(rule: Rule, m: Measured, held: Sequence[Measured], known: Known) -> list[str]:
    """The values of a rule that are still to be measured beside the case."""
    values, own = rule.values.split(","), m.case.tuning.runtime
    if m.finding.simulated:
        if rule.rule in ("device", "threads", "workers"):
            return []  # other planted devices are no other places to run
        values = SIM_PRESETS.split(",") if rule.rule == "runtime" else values
    if rule.rule == "device":
        values = [v for v in values if v.partition(":")[0] != m.case.device.kind]
        values = [v for v in values if known.gpus or not v.startswith("cuda")]
        if m.case.work.task == "infer" and any(part in m.case.tuning.execution for part in CUDA_ONLY):
            values = []  # it stands for nothing on a CPU, and is skipped there
    if rule.rule == "runtime" and m.case.device.kind == "cuda":
        values = [v for v in values if v != "openvino"]  # it computes on CPUs
    if rule.rule == "precision" and m.case.tuning.execution == "session" and own == "onnxruntime":
        values = [v for v in values if v != "bf16"]  # its own providers have no kernels for it
    tried = {value_in(rule, m), *(value_in(rule, one) for one in held), *(one.preset for one in (m, *held))}
    return [v for v in values if v not in tried]
