"""Sections of profiles: operators, the same by input shapes, kernels, launch gaps, what profiling cost.

Knows nothing about profilers or how a share is worked out.
"""

from collections.abc import Iterator, Sequence

from breakeven.analysis.findings import CaseFinding, Understanding
from breakeven.analysis.profile import OperatorFinding, ProfileFinding
from breakeven.records.profile import Gaps
from breakeven.report import words
from breakeven.report.names import Names, naming
from breakeven.report.view import Cell, Column, Row, Section, absent, build_table, clean, label, number, said
from breakeven.units import format_duration

MOST, MOST_SHAPES, MOST_KERNELS, MOST_HOST = 12, 25, 12, 4
"""Rows a case; the trace and the results file hold the others."""
LONGEST = 60
COUNTED = 0.02
"""An operator whose FLOPs are counted has a row if all that it calls takes this share of the step."""
HOST = (
    "host: the time of the host's threads. Of a case on a GPU that is launching kernels and waiting for "
    "them: the host column of such a run is no measure of how fast a CPU is, and never stands against its "
    "device column as CPU against GPU. "
)
READING = (
    "Per step, under the profiler, which slows steps down: where time goes, not how long a step takes. "
    "self: without what an operator calls in turn; total: with it, so totals hold one another and do not add "
    "up. " + HOST + "device: the kernels that the operator launched. share: self time, of all kernels' time "
    "where there are any, else of the step; JAX and TensorFlow run operators side by side, so theirs may add "
    "up to more than the step. FLOP: what the profiler counts, at the operator that the net "
    "calls: forward convolutions and matrix products, nothing of a convolution's backward pass."
)
SHAPES = (
    "The tensors among the inputs, those of highest self time. Columns as above; memory: allocated less "
    "freed, so what frees others' memory is below 0."
)
IDLE = (
    "device idle: of the time from the first kernel to the last, that in which none ran. "
    "outside: the host in no operator, the interpreter above all and on a GPU the wait for it. "
    "overhead: a step under the profiler over one without, right before and after in the same process. "
    "Open a trace at ui.perfetto.dev (it stays on your machine)."
)


def operators(understanding: Understanding, names: Names) -> Section | None:
    """What takes a step's time, by operator."""
    rows: list[Row] = []
    for case, found in _profiled(understanding):
        head = naming(case, names)
        rows += [(*head, said(op.name, note=op.kind), *_operator(op, found)) for op in _chosen(found)]
        if found.operators and not found.on_device:
            share = (found.outside_s or 0.0) / found.step_s if found.step_s else None
            rows.append((*head, said("(no operator)"), *_outside(found, share)))
    columns = [*names.columns, label("operator"), *_columns()]
    table = build_table(columns, rows)
    title = "Operators of a profiled step"
    return Section(key="operators", title=title, note=READING, table=table) if table else None


def shapes(understanding: Understanding, names: Names) -> Section | None:
    """The same by the shapes of their inputs."""
    rows: list[Row] = []
    for case, found in _profiled(understanding):
        for op in found.by_shape[:MOST_SHAPES]:
            cells = (said(op.name, note=op.kind), said(op.shapes) if op.shapes else absent())
            memory = (_mib(op.self_host_mib), _mib(op.self_device_mib))
            rows.append((*naming(case, names), *cells, *_operator(op, found), *memory))
    columns = [*names.columns, label("operator"), Column(name="input shapes", key=True), *_columns()]
    columns += [number("host memory"), number("device memory")]
    table = build_table(columns, rows)
    return Section(
        key="operator_shapes", title="Operators by input shapes", note=SHAPES, table=table, detail=True
    ) if table else None  # fmt: skip


def kernels(understanding: Understanding, names: Names) -> Section | None:
    """What ran on the device, by name."""
    rows: list[Row] = []
    for case, found in _profiled(understanding):
        for kernel in found.kernels[:MOST_KERNELS]:
            cells = (
                said(_short(kernel.name), kernel.name, note=kernel.name),
                _calls(kernel.calls),
                words.seconds(None, kernel.device_s, evidence=found.evidence),
                _percent(kernel.share, found),
            )
            rows.append((*naming(case, names), *cells))
    columns = [*names.columns, label("kernel"), number("calls"), number("device"), number("share")]
    table = build_table(columns, rows)
    note = "Kernels and copies on the device, per profiled step; share of the time that all of them took."
    return Section(key="kernels", title="Kernels", note=note, table=table) if table else None


def gaps(understanding: Understanding, names: Names) -> Section | None:
    """Stretches in which the device ran nothing, by their length."""
    rows: list[Row] = []
    for case, found in _profiled(understanding):
        n = found.n_steps or 1
        for gap in found.gaps:
            cells = (
                said(_length(gap), gap.from_ns),
                _calls(gap.count / n),
                words.seconds(None, gap.ns / n / 1e9, evidence=found.evidence),
            )
            rows.append((*naming(case, names), *cells))
    columns = [*names.columns, label("gap"), number("a step"), number("idle a step")]
    table = build_table(columns, rows)
    note = (
        "Stretches between kernels in which none ran, on any stream. Launching takes the host 2 to 10 us, so "
        "shorter gaps are the device's own; longer ones wait for the host, for data or for a copy."
    )
    return Section(key="gaps", title="Launch gaps", note=note, table=table) if table else None


def cost(understanding: Understanding, names: Names) -> Section | None:
    """What profiling cost, what is in no operator, and where the trace is."""
    rows: list[Row] = []
    for case, found in _profiled(understanding):
        why = found.reasons.get("operators", "")
        cells = (
            words.count(found.n_steps, why),
            words.seconds(None, found.plain_step_s, reason=why, evidence=found.evidence),
            words.seconds(None, found.step_s, reason=why, evidence=found.evidence),
            _factor(found, why),
            words.seconds(None, found.outside_s, reason=why, evidence=found.evidence),
            _idle(found, why),
            said(found.trace, note=f"sha256 {found.trace_sha256}") if found.trace else absent(why),
        )
        rows.append((*naming(case, names), *cells))
    columns = [
        *names.columns,
        number("steps"),
        number("step"),
        number("profiled"),
        number("overhead"),
        number("outside"),
        number("device idle"),
        Column(name="trace"),
    ]
    table = build_table(columns, rows)
    title = "What profiling cost, and its traces"
    return Section(key="profiles", title=title, note=IDLE, table=table) if table else None


def _profiled(understanding: Understanding) -> Iterator[tuple[CaseFinding, ProfileFinding]]:
    known = {(one.source, one.case_id): one for one in understanding.profiles}
    for case in understanding.cases:
        if (case.source, case.case_id) in known:
            yield case, known[case.source, case.case_id]


def _chosen(found: ProfileFinding) -> Sequence[OperatorFinding]:
    """Those of highest self time, those whose FLOPs are known if they matter, and on a GPU those at which the
    host spends most; in the order of self time.
    """
    whole = sum(op.self_device_s or 0.0 for op in found.operators) if found.on_device else found.step_s
    least = COUNTED * (whole or 0.0)
    busy = sorted(found.operators, key=lambda op: -(op.self_host_s or 0.0))
    names = {op.name for op in busy[: MOST_HOST if found.on_device else 0]}

    def matters(op: OperatorFinding) -> bool:
        total = op.total_device_s if found.on_device else op.total_host_s
        return op.name in names or bool(op.flops and (total or 0.0) >= least)

    return [op for place, op in enumerate(found.operators) if place < MOST or matters(op)]


def _columns() -> list[Column]:
    names = ("calls", "share", "self host", "total host", "self device", "total device")
    return [*map(number, names), number("FLOP")]


def _operator(op: OperatorFinding, found: ProfileFinding) -> tuple[Cell, ...]:
    times = (op.self_host_s, op.total_host_s, op.self_device_s, op.total_device_s)
    return (
        _calls(op.calls),
        _percent(op.share, found),
        *(absent() if t is None else words.seconds(None, t, evidence=found.evidence) for t in times),
        words.amount(op.flops, "", evidence=found.evidence),
    )


def _outside(found: ProfileFinding, share: float | None) -> tuple[Cell, ...]:
    own = words.seconds(None, found.outside_s, evidence=found.evidence)
    return (absent(), _percent(share, found), own, *[absent()] * 4)


def _percent(share: float | None, found: ProfileFinding) -> Cell:
    if share is None:
        return absent()
    return Cell(text=words.percent(share), sort=share, evidence=found.evidence)


def _short(name: str) -> str:
    """A kernel's name, whose template arguments may take ten lines of a terminal."""
    plain = name.removeprefix("void ")
    return plain if len(plain) <= LONGEST else f"{plain[:LONGEST]}..."


def _calls(count: float) -> Cell:
    return Cell(text=words.significant(count, 3) if count % 1 else f"{count:,.0f}", sort=count)


def _mib(mib: float | None) -> Cell:
    """Net memory: one that frees what others made is below 0."""
    if mib is None or abs(mib) < 0.0005:
        return absent()
    return Cell(text=f"{words.significant(mib, 3)} MiB", sort=mib)


def _factor(found: ProfileFinding, why: str) -> Cell:
    if found.overhead is None:
        return absent(why or found.reasons.get("overhead", ""))
    return Cell(text=f"{found.overhead:.2f}x", sort=found.overhead, evidence=found.evidence)


def _idle(found: ProfileFinding, why: str) -> Cell:
    if found.idle_share is None:
        return absent(why or found.reasons.get("device_span_ns", ""))
    return _percent(found.idle_share, found)


def _length(gap: Gaps) -> str:
    low = format_duration(gap.from_ns / 1e9)
    if gap.to_ns is None:
        return f"from {low}"
    high = format_duration(gap.to_ns / 1e9)
    return clean(f"below {high}" if gap.from_ns == 0 else f"{low} to {high}")
