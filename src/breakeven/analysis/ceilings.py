"""The speed of light: what the machines of a file do at best, as measured and by their datasheets.

Knows nothing about how a ceiling is measured. Above a measured ceiling a rate is flagged (a better kernel
exists), above a datasheet's peak it is invalid (contract R9).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from breakeven.analysis.findings import CeilingFinding
from breakeven.catalog.peaks import GpuPeak, gpu_peak
from breakeven.errors import UserError
from breakeven.records.case import Case, Work
from breakeven.records.file import Results
from breakeven.records.lines import Attempt, Ceiling, Check, Fingerprint
from breakeven.records.transfers import kind_and_size
from breakeven.workloads import costs, layers, models

SLACK = 1.1
"""By this factor a datasheet's peak or a power limit may be passed before a number is refused (R9)."""
MANY = 1024
"""Works that are remembered: counting a net's layers takes milliseconds, and many cases do one work."""
IEEE = frozenset({"none", "ieee"})
"""What torch reads back where no lower precision is allowed."""
NO_CPU_PEAK = (
    "a CPU's clock under load is not known (least of all in a virtual machine), hence no datasheet peak"
)

Key = tuple[str | None, str, str]
"""(fingerprint_id, device label, name)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Board:
    """What bounds one device: its datasheet, at its highest clock, and its power limit; None: not known."""

    name: str | None = None
    peak: GpuPeak | None = None
    faster: float = 1.0
    limit_w: float | None = None
    reason: str = ""

    def datasheet(self, name: str) -> float | None:
        """What the datasheet says where a ceiling has such a number: products, and the device's memory."""
        if self.peak is None:
            return None
        return (
            self.peak.bandwidth_gb_per_s
            if name == "copy"
            else self.peak.rates.get(name.removeprefix("matmul_"))
        )

    @property
    def fastest(self) -> float | None:
        """The highest rate of any floating-point precision."""
        rates = [rate for p in self.peak.rates if p != "int8" and (rate := self.rate(p))] if self.peak else []
        return max(rates, default=None)

    def rate(self, what: str) -> float | None:
        """Tera-operations a second at the board's highest clock in one precision."""
        found = self.peak.rates.get(what) if self.peak else None
        return None if found is None else found * self.faster


@dataclass(frozen=True, kw_only=True, slots=True)
class Light:
    """The limits of one case in TFLOP/s: `ceiling` as measured, `peak` by datasheet; and of its board in W.

    Both are those of the fastest precision that ran: layers may differ.
    """

    precision: str | None = None
    ceiling: float | None = None
    evidence: tuple[str, ...] = ()
    peak: float | None = None
    board: Board = field(default_factory=Board)
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """The best ceiling of each name on each device, and the machines by their id."""

    ceilings: Mapping[Key, Ceiling] = field(default_factory=dict)
    machines: Mapping[str, Fingerprint] = field(default_factory=dict)

    @staticmethod
    def of(results: Results) -> "Limits":
        best: dict[Key, Ceiling] = {}
        for line in results.ceilings:
            key = line.fingerprint_id, line.device_label, line.name
            if key not in best or line.rank > best[key].rank:
                best[key] = line
        return Limits(ceilings=best, machines={line.fingerprint_id: line for line in results.fingerprints})

    def light(self, case: Case, attempts: Sequence[Attempt], checks: Sequence[Check]) -> Light:
        """What bounds a case that these attempts of one unit ran."""
        bare = case.device.kind == "sim" and not any(key[1] == case.device.label for key in self.ceilings)
        if bare or case.device.world_size != 1 or not attempts:
            return Light()
        last, ran = attempts[-1], precisions_of(case, attempts, checks)
        board = self.board(last.fingerprint_id, case.device.kind, last.observed.get("device_name"))
        if not ran:
            why = "the precision that ran is not known"
            return Light(board=board, reasons={"share_of_ceiling": why, "peak_tflop_per_s": why})
        measured = {p: self._measured(last.fingerprint_id, case.device.label, p, board) for p in ran}
        reasons = {}
        if missing := [why for why in measured.values() if isinstance(why, str)]:
            reasons["share_of_ceiling"] = missing[0]
        known = {p: value for p, value in measured.items() if isinstance(value, float)}
        rates = {p: rate for p in ran if (rate := board.rate(p)) is not None}
        if len(rates) < len(ran):
            rates = {}
            reasons["peak_tflop_per_s"] = board.reason or f"no datasheet rate of {' and '.join(ran)}"
        whole = {} if missing else known
        ranked = whole or rates
        return Light(
            precision=max(ranked, key=lambda p: ranked[p]) if ranked else " and ".join(ran),
            ceiling=max(whole.values(), default=None),
            evidence=tuple(
                self.ceilings[last.fingerprint_id, case.device.label, f"matmul_{p}"].ceiling_id for p in whole
            ),
            peak=max(rates.values(), default=None),
            board=board,
            reasons=reasons,
        )

    def board(self, fingerprint_id: str | None, kind: str, name: Any) -> Board:
        """The board of that name in the machine; without a name the only kind that is there."""
        if kind != "cuda":
            return Board(reason=NO_CPU_PEAK if kind == "cpu" else "")
        line = self.machines.get(fingerprint_id or "")
        boards = line.platform.get("gpus") if line else None
        here = [b for b in boards if isinstance(b, Mapping)] if isinstance(boards, list | tuple) else []
        mine = [b for b in here if b.get("name") == name] if name else here
        if not mine and isinstance(name, str):
            mine = [{"name": name}]  # NVML did not answer: the framework's name has to do, clocks are unknown
        if not mine or len({b.get("name") for b in mine}) > 1:
            return Board(reason="the fingerprint does not tell which board ran")
        model = str(mine[0].get("name"))
        memory = mine[0].get("memory_gib")
        peak = gpu_peak(model, memory if isinstance(memory, int | float) else None)
        clock, limit = _highest(mine, "max_sm_mhz"), _highest(mine, "power_limit_w")
        return Board(
            name=model,
            peak=peak,
            faster=max(1.0, clock / peak.clock_mhz) if peak and clock else 1.0,
            limit_w=limit,
            reason="" if peak else f"no datasheet of {model} is known here",
        )

    def _measured(self, fingerprint_id: str | None, label: str, precision: str, board: Board) -> float | str:
        """The measured product rate of a precision, or why there is none."""
        line = self.ceilings.get((fingerprint_id, label, f"matmul_{precision}"))
        if line is None:
            return f"no measured ceiling of {precision} on {label}"
        if line.value is None:
            return f"no measured ceiling of {precision} on {label}: {line.reason}"
        if line.contended:
            return f"others used the machine while the ceiling of {precision} on {label} was measured"
        rate = board.rate(precision)
        if rate is not None and line.value > SLACK * rate:
            return f"the measured ceiling of {precision} on {label} is faster than the hardware"
        return line.value

    def findings(self) -> list[CeilingFinding]:
        """Every ceiling of the file, beside its datasheet; copies by size are findings of their own."""
        return [self._finding(key, line) for key, line in self.ceilings.items() if not kind_and_size(key[2])]

    def _finding(self, key: Key, line: Ceiling) -> CeilingFinding:
        fingerprint_id, label, name = key
        told = dict(line.conditions)
        kind = label.split(":")[0]
        board = self.board(fingerprint_id, kind, told.get("device_name"))
        theoretical = board.datasheet(name)
        value, reason = line.value, line.reason
        if value is not None and theoretical is not None and value > SLACK * theoretical * board.faster:
            value, reason = (
                None,
                f"faster than the hardware: {line.value:.4g} of {theoretical:.4g} {line.unit}",
            )
        flags = told.get("flags")
        return CeilingFinding(
            device_label=label,
            name=name,
            value=value,
            unit=line.unit,
            theoretical=theoretical,
            conditions=told,
            flags=tuple(map(str, flags)) if isinstance(flags, list | tuple) else (),
            evidence=(line.ceiling_id,),
            machine=fingerprint_id,
            reasons={
                **({"value": reason or "not told"} if value is None else {}),
                **({"theoretical": board.reason} if theoretical is None and board.reason else {}),
            },
        )


def precisions_of(case: Case, attempts: Sequence[Attempt], checks: Sequence[Check]) -> tuple[str, ...]:
    """The precisions that the case's layers really ran at; empty where nothing tells.

    A precision that was asked for was verified by the check; `default` is what the check's probes found, else
    what the settings read back as. BF16 without hardware for it is FP32 arithmetic. A simulated device does
    by default what it does at FP32.
    """
    if case.device.kind == "sim":
        return ("fp32" if case.tuning.precision == "default" else case.tuning.precision,)
    found = [check.checks for check in checks]
    if any(_at(one, "dtype_in_hardware", "found") == "emulated" for one in found):
        return ("fp32",)
    if case.tuning.precision != "default":
        return (case.tuning.precision,)
    probes = (_at(one, "precision", "found") for one in reversed(found))
    probed = next((probe for probe in probes if isinstance(probe, Mapping) and probe), {})
    names = {_at(probe, "precision") for probe in probed.values()}
    if names and None not in names:
        return tuple(sorted(map(str, names)))
    seen = {attempts[-1].observed.get(f"{what}_precision") for what in ("matmul", "conv")}
    if None in seen or not seen <= IEEE | {"tf32"}:
        return ()
    return ("fp32", "tf32") if "tf32" in seen else ("fp32",)


def too_fast(case: Case, steps_s: Iterable[float], light: Light) -> str | None:
    """Why the fastest process cannot be right, or None.

    Winograd passes a precision's peak honestly: that peak bounds the least arithmetic of any algorithm. The
    nominal FLOPs are bounded by the board's fastest precision, at which transforms save no time.
    """
    fastest, flops, least = min(steps_s, default=None), flops_of(case.work), _least_flops(case.work)
    if fastest is None or flops is None or least is None:
        return None
    # Integers have a peak of their own, above that of every floating-point type.
    highest = light.board.rate("int8") if case.tuning.precision == "int8" else light.board.fastest
    for work, limit, words in ((least, light.peak, " at least"), (flops, highest, "")):
        rate = work / fastest / 1e12
        if limit is not None and rate > SLACK * limit:
            shown = f"{rate:,.0f} TFLOP/s{words}, where {light.board.name} does {limit:,.0f}"
            return f"faster than the hardware: {shown}"
    return None


def above(rate: float | None, light: Light) -> bool:
    """Whether a nominal rate (TFLOP/s) passes the measured ceiling or the datasheet."""
    return rate is not None and any(
        limit is not None and rate > limit for limit in (light.ceiling, light.peak)
    )


@lru_cache(maxsize=MANY)
def flops_of(work: Work) -> int | None:
    """FLOPs of one step, 2 a multiply-accumulate, counted from the layers; None for an unknown model."""
    net = net_of(work)
    if net is None:
        return None
    train = work.task == "train"
    return costs.training_flops(net, work.batch) if train else work.batch * costs.forward_flops(net)


@lru_cache(maxsize=MANY)
def _least_flops(work: Work) -> float | None:
    net = net_of(work)
    return None if net is None else costs.least_flops(net, work.batch, training=work.task == "train")


def net_of(work: Work) -> layers.Model | None:
    """The layers of the work's model; None for an unknown one."""
    return _net(work.model, work.num_classes, work.input_shape)


@lru_cache(maxsize=MANY)
def _net(name: str, num_classes: int, input_shape: tuple[int, int, int]) -> layers.Model | None:
    try:
        return models.model(name, num_classes=num_classes, input_shape=input_shape)
    except UserError:
        return None


def _highest(boards: Sequence[Mapping[str, Any]], key: str) -> float | None:
    values = [b[key] for b in boards if isinstance(b.get(key), int | float)]
    return float(max(values)) if len(values) == len(boards) else None


def _at(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
