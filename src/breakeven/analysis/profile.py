"""What the profiles of a file say: where a step's time goes by operator, kernels, idle stretches, the cost.

Knows nothing about how a profile is made or shown. Times are those of steps that a profiler slowed down: they
say where time goes, never how long a step takes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from breakeven.records.file import Results
from breakeven.records.lines import ProfileLine
from breakeven.records.profile import Gaps, Operator

MUCH = 1.2
"""A profiler that makes steps longer by this factor or more is warned of."""
ROUNDED, ROUNDED_NS = 1.01, 10_000
"""A profiler's microseconds, rounded, may exceed their whole by so much."""
SAID, TOLD, LONGEST = 3, 0.01, 60
"""Operators that a sentence names, the share of one worth naming, and characters of a name."""


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorFinding:
    """One operator, of all shapes (`shapes` None) or of one set of them; per profiled step, in seconds.

    `share`: its own time as a share of the time that all kernels took, where some ran on a device, else of
    the whole step. `flops` counts those that the profiler knows. MiB are allocated less freed.
    """

    name: str
    kind: str
    shapes: str | None = None
    calls: float
    self_host_s: float | None = None
    total_host_s: float | None = None
    self_device_s: float | None = None
    total_device_s: float | None = None
    share: float | None = None
    flops: float | None = None
    self_host_mib: float | None = None
    self_device_mib: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelFinding:
    """One kernel, or kind of copy, per profiled step; `share` of the time that all those listed took."""

    name: str
    calls: float
    device_s: float
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileFinding:
    """One case under the profiler. Seconds are per step; `operators` and `by_shape` go by their own time.

    `overhead`: a profiled step over `plain_step_s`, one without the profiler right before and after.
    `outside_s`: of the profiled step what no operator accounts for: the interpreter, and on an accelerator
    the wait for it.
    `idle_share`: of the time from the first kernel to the last that in which none ran; `gaps` are its
    stretches by length. `trace`: the file beside the results that Perfetto opens.
    """

    case_id: str
    n_steps: int | None = None
    plain_step_s: float | None = None
    step_s: float | None = None
    overhead: float | None = None
    outside_s: float | None = None
    on_device: bool = False
    operators: tuple[OperatorFinding, ...] = ()
    by_shape: tuple[OperatorFinding, ...] = ()
    left_out: int = 0
    kernels: tuple[KernelFinding, ...] = ()
    idle_share: float | None = None
    gaps: tuple[Gaps, ...] = ()
    trace: str | None = None
    trace_sha256: str | None = None
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    source: str = ""


def profiles_of(results: Results, shown: Iterable[str]) -> list[ProfileFinding]:
    """The last profile of each of these cases, in their order; one that failed says why."""
    last: dict[str, ProfileLine] = {}
    for line in results.profiles:
        if line.case_id not in last or line.outcome == "ok" or last[line.case_id].outcome != "ok":
            last[line.case_id] = line
    return [_finding(last[case_id], results.path) for case_id in shown if case_id in last]


def sentences_of_profiles(found: Sequence[ProfileFinding], names: Mapping[str, str]) -> list[str]:
    """One sentence a profile: the operators that take most, what the device waited, what profiling cost."""
    return [_sentence(one, names[one.case_id]) for one in found if one.operators and one.case_id in names]


def _sentence(one: ProfileFinding, name: str) -> str:
    rows: Sequence[OperatorFinding | KernelFinding] = one.operators[:SAID]
    if one.on_device and not any((row.share or 0.0) >= TOLD for row in rows):
        rows = one.kernels[:SAID]  # a captured step: no operator launches anything
    most = [f"{row.name[:LONGEST]} {100 * row.share:.0f} %" for row in rows if row.share]
    of = "of its kernels' time" if one.on_device else "of the step"
    parts = [f"Profile of {name}: {', '.join(most)} {of}"]
    if one.idle_share is not None:
        parts.append(f"the device idle {100 * one.idle_share:.0f} % between kernels")
    if one.overhead is not None and one.overhead < 1.0:
        parts.append("what the profiler cost is less than the steps differ by")
    elif one.overhead is not None:
        much = " (much: trust the shares less)" if one.overhead >= MUCH else ""
        parts.append(f"the profiler made a step {one.overhead:.2f}x as long{much}")
    return "; ".join(parts) + "."


def _finding(line: ProfileLine, source: str) -> ProfileFinding:
    if line.outcome != "ok" or not line.n_steps or not line.profiled_ns:
        why = f"{line.outcome}: {line.reason or 'no steps were profiled'}"
        return ProfileFinding(
            case_id=line.case_id, evidence=(line.profile_id,), reasons={"operators": why}, source=source
        )
    if (impossible := _impossible(line)) is not None:
        why = f"invalid: {impossible}"
        return ProfileFinding(
            case_id=line.case_id, evidence=(line.profile_id,), reasons={"operators": why}, source=source
        )
    n, step_s = line.n_steps, line.profiled_ns / line.n_steps / 1e9
    on_device = bool(line.kernels)
    whole_ns = _device_ns(line) if on_device else line.profiled_ns
    plain_s = _plain_s(line)
    host_ns = _host_ns(line)
    kernels_ns = _sum(kernel.device_ns for kernel in line.kernels)
    span, busy = line.device_span_ns, line.device_busy_ns
    rows = [_row(op, [op], n, whole_ns, on_device) for op in line.operators]
    return ProfileFinding(
        case_id=line.case_id,
        n_steps=n,
        plain_step_s=plain_s,
        step_s=step_s,
        overhead=None if plain_s is None else step_s / plain_s,
        outside_s=max(0.0, step_s - host_ns / n / 1e9),
        on_device=on_device,
        operators=_by_own_time(_joined(line.operators, n, whole_ns, on_device), on_device),
        by_shape=_by_own_time(rows, on_device),
        left_out=line.left_out.get("rows", 0),
        kernels=tuple(
            KernelFinding(
                name=kernel.name,
                calls=kernel.calls / n,
                device_s=kernel.device_ns / n / 1e9,
                share=kernel.device_ns / kernels_ns if kernels_ns else 0.0,
            )
            for kernel in line.kernels
        ),
        idle_share=None if not span or busy is None else 1 - busy / span,
        gaps=tuple(line.gaps),
        trace=str(line.trace["file"]) if line.trace and "file" in line.trace else None,
        trace_sha256=str(line.trace["sha256"]) if line.trace and "sha256" in line.trace else None,
        evidence=(line.profile_id,),
        reasons=dict(line.nulls)
        | ({} if plain_s else {"overhead": "no step was timed without the profiler"}),
        source=source,
    )


def _impossible(line: ProfileLine) -> str | None:
    """Which of a profile's figures cannot be, None where all can.

    One operator is held to the whole, as often as it may be under way at once; their sum is not, for those of
    several threads overlap.
    """
    assert line.profiled_ns is not None
    told = line.observed.get("at_once")
    at_once = told if isinstance(told, int) and told > 0 else 1
    for op in line.operators:
        for where, own, total in (
            ("host", op.self_host_ns, op.total_host_ns),
            ("device", op.self_device_ns, op.total_device_ns),
        ):
            if min(own or 0, total or 0) < 0:
                return f"{op.name} took less than no time on the {where}"
            if own is not None and total is not None and own > ROUNDED * total + ROUNDED_NS:
                return f"{op.name} alone took longer on the {where} than with what it called"
        share = (op.self_host_ns or 0) / line.profiled_ns
        if share > ROUNDED * at_once:
            return f"{op.name} took {share:.0%} of the profiled steps"
    if (line.host_busy_ns or 0) > ROUNDED * line.profiled_ns + ROUNDED_NS:
        return "operators were under way for longer than the profiled steps took"
    span, busy = line.device_span_ns, line.device_busy_ns
    if span is not None and busy is not None and busy > ROUNDED * span:
        return "the device was busy for longer than from its first kernel to its last"
    return None


def _host_ns(line: ProfileLine) -> int:
    """Time in which the host was in some operator: their sum, where one thread runs them in turn."""
    if line.host_busy_ns is not None:
        return line.host_busy_ns
    return _sum(op.self_host_ns for op in line.operators) + line.left_out.get("self_host_ns", 0)


def _device_ns(line: ProfileLine) -> int:
    """Time of all kernels: a captured step has no operator that launches them, and not all kernels are kept.

    Those of several streams may overlap, so it may be more than the device was busy for.
    """
    launched = _sum(op.self_device_ns for op in line.operators) + line.left_out.get("self_device_ns", 0)
    return max(launched, _sum(kernel.device_ns for kernel in line.kernels))


def _plain_s(line: ProfileLine) -> float | None:
    """Seconds of a step without the profiler: the mean of before and after, so that a drift cancels."""
    if not line.plain_ns or not line.n_steps:
        return None
    return sum(line.plain_ns) / len(line.plain_ns) / line.n_steps / 1e9


def _joined(rows: Iterable[Operator], n: int, whole_ns: int, on_device: bool) -> list[OperatorFinding]:
    groups: dict[str, list[Operator]] = {}
    for row in rows:
        groups.setdefault(row.name, []).append(row)
    return [_row(mine[0], mine, n, whole_ns, on_device, shapes=False) for mine in groups.values()]


def _row(
    first: Operator, rows: Sequence[Operator], n: int, whole_ns: int, on_device: bool, *, shapes: bool = True
) -> OperatorFinding:
    """Rows of one name, summed, as a step's."""

    def summed(field_name: str) -> float | None:
        known = [value for row in rows if (value := getattr(row, field_name)) is not None]
        return sum(known) / n if known else None

    def seconds(field_name: str) -> float | None:
        ns = summed(field_name)
        return None if ns is None else ns / 1e9

    own = summed("self_device_ns" if on_device else "self_host_ns")
    return OperatorFinding(
        name=first.name,
        kind=first.kind,
        shapes=_shapes(first) if shapes else None,
        calls=sum(row.calls for row in rows) / n,
        self_host_s=seconds("self_host_ns"),
        total_host_s=seconds("total_host_ns"),
        self_device_s=seconds("self_device_ns"),
        total_device_s=seconds("total_device_ns"),
        share=None if own is None or not whole_ns else own * n / whole_ns,
        flops=summed("flops"),
        self_host_mib=summed("self_host_mib"),
        self_device_mib=summed("self_device_mib"),
    )


def _shapes(row: Operator) -> str | None:
    """`128x64x16x16 64x32x3x3`: the tensors among the inputs; None where no shape is known."""
    tensors = ["x".join(map(str, shape)) for shape in row.shapes or () if shape]
    return " ".join(tensors) or None


def _by_own_time(rows: Iterable[OperatorFinding], on_device: bool) -> tuple[OperatorFinding, ...]:
    return tuple(
        sorted(rows, key=lambda row: -((row.self_device_s if on_device else row.self_host_s) or 0.0))
    )


def _sum(values: Iterable[int | None]) -> int:
    return sum(value or 0 for value in values)
