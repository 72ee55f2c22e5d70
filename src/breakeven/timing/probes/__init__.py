"""Probes: what is observed beside the clock while a window is timed.

Knows nothing about the loop that calls them, nor about frameworks. A probe never raises for a missing sensor:
its mapping holds None and, under `nulls`, the reason. `flags` and `reasons` ({flag: why}) go to the attempt.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from breakeven.records.case import Device
from breakeven.timing.probes.clocks import CpuClocksProbe, GpuClocksProbe, GpuSample, gpu_sample
from breakeven.timing.probes.contention import Baseline, ContentionProbe, take_baseline
from breakeven.timing.probes.energy import GPU_PERIOD_NS, NO_IDLE, CpuEnergyProbe, GpuEnergyProbe
from breakeven.timing.probes.memory import MemoryProbe
from breakeven.timing.probes.nvml import Board, open_board
from breakeven.timing.probes.sampler import PERIOD_S, Sampler
from breakeven.timing.readings import SYSTEM, Null

__all__ = ["Baseline", "NamedProbe", "gpu_baseline", "probes_for"]


class NamedProbe(Protocol):
    """Observes from start() to stop(). `name` is the attempt's field: memory, energy, clocks or contention.

    stop() returns JSON values, units in the keys, with `nulls` {key: reason} for every None; `flags` and
    `reasons` where the probe has any.
    """

    @property
    def name(self) -> str: ...

    def start(self) -> None: ...

    def stop(self) -> Mapping[str, Any]: ...


def gpu_baseline(
    device: Device,
    *,
    nvml: Any = None,
    uuid: str | None = None,
    environ: Mapping[str, str] | None = None,
    root: Path = SYSTEM,
) -> Baseline | None:
    """The GPU before this process touches it; None for other devices. Takes 1.2 s at most."""
    if device.kind != "cuda":
        return None
    return take_baseline(open_board(device.index, nvml=nvml, uuid=uuid, environ=environ), root)


def probes_for(
    device: Device,
    *,
    baseline: Baseline | None = None,
    nvml: Any = None,
    uuid: str | None = None,
    environ: Mapping[str, str] | None = None,
    root: Path = SYSTEM,
    cpus: Iterable[int] | None = None,
    counter_period_ns: int = GPU_PERIOD_NS,
    period_s: float = PERIOD_S,
    idle_w: float | Null = NO_IDLE,
) -> tuple[NamedProbe, ...]:
    """The probes of a device: start in this order, stop in the reverse one. A simulated device has none.

    Call it before the runtime prepares the case: without a `baseline` (see `gpu_baseline`) one is taken now,
    and after this process has opened the GPU others can no longer be told from it. `nvml`, `root`, `environ`
    and `cpus` (default: the affinity at start) exist to plant a machine.
    """
    if device.kind == "sim":
        return ()
    given = None if cpus is None else tuple(cpus)
    if device.kind == "cpu":
        contention = ContentionProbe(board=None, baseline=None, root=root, cpus=given)
        none = Null(reason="the case runs on the CPU")
        return (
            contention,
            MemoryProbe(board=None, baseline_mib=none, root=root),
            CpuClocksProbe(root=root, cpus=given),
            CpuEnergyProbe(contention=contention, root=root),
        )
    board = open_board(device.index, nvml=nvml, uuid=uuid, environ=environ)
    before = take_baseline(board, root) if baseline is None else baseline
    contention = ContentionProbe(board=board, baseline=before, root=root, cpus=given)
    sampler = _board_sampler(board, period_s)
    return (
        contention,
        MemoryProbe(board=board, baseline_mib=before.used_mib, root=root),
        GpuClocksProbe(sampler),
        GpuEnergyProbe(
            board=board,
            sampler=sampler,
            contention=contention,
            root=root,
            period_ns=counter_period_ns,
            idle_w=idle_w,
        ),
    )


def _board_sampler(board: Board | Null, period_s: float) -> Sampler[GpuSample]:
    """One thread for clocks and energy. Without a board its samples say why, one at each end."""
    if isinstance(board, Null):
        nothing = GpuSample(power_w=board, sm_mhz=board, mem_mhz=board, temperature_c=board, mask=board)
        return Sampler(lambda: nothing, period_s=3600.0)
    return Sampler(lambda: gpu_sample(board), period_s=period_s)
