"""One GPU as NVML shows it: every question answered by a value or by a reason.

Knows nothing about probes or records. `nvml` is the module pynvml, or a stand-in with its functions.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from breakeven.timing.readings import Null, first

# The bits of nvmlClocksEventReasons (nvml.h, CUDA 13; the older name is nvmlClocksThrottleReasons).
THROTTLE_BITS: dict[int, str] = {
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "hw_power_brake",
    0x200: "board_limit",
    0x400: "reliability",
}
# Not slowed by a limit: nothing to do, clocks that somebody chose, clocks that a display asks for.
BENIGN_BITS: dict[int, str] = {0x1: "idle", 0x2: "app_clocks", 0x100: "display_clocks"}

MODULES = ("GH200", "GB200", "GB300")
"""Superchips: the sensor may cover CPU, GPU and memory of the module, so the scope is not called a board."""

MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Board:
    """An open GPU: the NVML module and the handle of the device."""

    nvml: Any
    handle: Any

    def ask(self, function: str, *args: Any) -> Any:
        """What NVML's `function` says about this device, or Null."""
        return ask(self.nvml, function, self.handle, *args)


def ask(nvml: Any, function: str, *args: Any) -> Any:
    """What NVML's `function` returns, or Null with NVML's own words."""
    call = getattr(nvml, function, None)
    if call is None:
        return Null(reason=f"this nvidia-ml-py has no {function}; update it: pip install -U nvidia-ml-py")
    try:
        return call(*args)
    except nvml.NVMLError as error:
        return Null(reason=f"{function}: {error}")


def load_nvml() -> Any:
    """The initialised module pynvml, or Null. Never shut down: a process asks until it ends."""
    try:
        import pynvml
    except ImportError:
        return Null(reason="nvidia-ml-py is not installed; install it with: pip install nvidia-ml-py")
    started = ask(pynvml, "nvmlInit")
    if isinstance(started, Null):
        return Null(reason=f"no NVIDIA driver answers ({started.reason})")
    return pynvml


def open_board(
    index: int, *, nvml: Any = None, uuid: str | None = None, environ: Mapping[str, str] | None = None
) -> Board | Null:
    """The board that CUDA calls device `index`; by `uuid` where the framework tells it.

    CUDA numbers devices after CUDA_VISIBLE_DEVICES and, unless CUDA_DEVICE_ORDER=PCI_BUS_ID, the fastest
    first; NVML numbers all of them by PCI bus. Where the two could differ the answer is Null, never a guess.
    """
    nvml = load_nvml() if nvml is None else nvml
    if isinstance(nvml, Null):
        return nvml
    env = os.environ if environ is None else environ
    name = uuid or str(index)
    visible = env.get("CUDA_VISIBLE_DEVICES")
    if uuid is None and visible is not None:
        names = [part.strip() for part in visible.split(",")]
        if index >= len(names) or names[index] in ("", "-1"):
            return Null(reason=f"CUDA_VISIBLE_DEVICES={visible} hides cuda:{index}")
        name = names[index]
    if name.startswith("MIG-"):
        return Null(reason="a MIG slice: NVML's sensors see the whole GPU, not the slice")
    if not name.isdecimal():
        return _by_uuid(nvml, name)
    if not _order_is_certain(nvml, env):
        return Null(
            reason="GPUs of several kinds: CUDA's numbering may differ from NVML's; "
            "set CUDA_DEVICE_ORDER=PCI_BUS_ID"
        )
    return _board(nvml, ask(nvml, "nvmlDeviceGetHandleByIndex", int(name)))


def all_boards(nvml: Any) -> tuple[Board, ...] | Null:
    """Every GPU of this machine in NVML's order."""
    count = ask(nvml, "nvmlDeviceGetCount")
    if isinstance(count, Null):
        return count
    opened = (_board(nvml, ask(nvml, "nvmlDeviceGetHandleByIndex", i)) for i in range(count))
    return tuple(board for board in opened if not isinstance(board, Null))


def _board(nvml: Any, handle: Any) -> Board | Null:
    return handle if isinstance(handle, Null) else Board(nvml=nvml, handle=handle)


def _by_uuid(nvml: Any, uuid: str) -> Board | Null:
    """CUDA takes the beginning of a UUID too, as long as it is unique."""
    boards = all_boards(nvml)
    if isinstance(boards, Null):
        return boards
    wanted = uuid.removeprefix("GPU-")
    found = [b for b in boards if str(b.ask("nvmlDeviceGetUUID")).removeprefix("GPU-").startswith(wanted)]
    return found[0] if len(found) == 1 else Null(reason=f"NVML lists {len(found)} GPUs for the name {uuid}")


def _order_is_certain(nvml: Any, env: Mapping[str, str]) -> bool:
    if env.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return True
    boards = all_boards(nvml)
    return isinstance(boards, Null) or len({str(board.ask("nvmlDeviceGetName")) for board in boards}) <= 1


def is_mig(board: Board) -> bool:
    """Whether the GPU is cut into MIG slices now (a GPU that has no such mode is not)."""
    mode = board.ask("nvmlDeviceGetMigMode")
    return not isinstance(mode, Null) and mode[0] == 1


def used_mib(board: Board) -> float | Null:
    """Device memory that processes use, without what the driver reserves for itself where NVML can tell."""
    version = getattr(board.nvml, "nvmlMemory_v2", None)
    newer = board.ask("nvmlDeviceGetMemoryInfo", version) if version else Null(reason="no version 2")
    info = board.ask("nvmlDeviceGetMemoryInfo") if isinstance(newer, Null) else newer
    return info if isinstance(info, Null) else info.used / MIB


def power_w(board: Board) -> tuple[float, str] | Null:
    """Board power now and which sensor said so: `instant`, else `average` (over 1 s on Ampere and later,
    but for GA100: NVML reference, nvmlDeviceGetPowerUsage)."""
    field = getattr(board.nvml, "NVML_FI_DEV_POWER_INSTANT", None)
    if field is not None:
        values = board.ask("nvmlDeviceGetFieldValues", [field])
        if not isinstance(values, Null) and values[0].nvmlReturn == 0:
            return values[0].value.uiVal / 1000, "instant"
    milliwatts = board.ask("nvmlDeviceGetPowerUsage")
    return milliwatts if isinstance(milliwatts, Null) else (milliwatts / 1000, "average")


def throttle_mask(board: Board) -> int | Null:
    """The bits that say why the clocks are what they are; drivers before 535 know the older name only."""
    names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    return first(board.ask(name) for name in names)


def decode(mask: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(what throttles, what is benign) of a mask, sorted. A bit of a later driver counts as throttling."""
    throttle = [name for bit, name in THROTTLE_BITS.items() if mask & bit]
    benign = [name for bit, name in BENIGN_BITS.items() if mask & bit]
    rest = mask & ~sum([*THROTTLE_BITS, *BENIGN_BITS])
    throttle += [f"unknown_{1 << i:#x}" for i in range(rest.bit_length()) if rest >> i & 1]
    return tuple(sorted(throttle)), tuple(sorted(benign))


def process_ids(board: Board) -> frozenset[int] | Null:
    """Ids of processes that compute on the GPU. In a container they are the host's, or the list is empty.

    Processes that only draw (a desktop) are left out: the other checks see their memory and load.
    """
    listed = board.ask("nvmlDeviceGetComputeRunningProcesses")
    return listed if isinstance(listed, Null) else frozenset(process.pid for process in listed)


def utilisation(board: Board) -> float | Null:
    """Share of the last sample period (1/6 s to 1 s) in which any kernel ran, 0 to 1."""
    rates = board.ask("nvmlDeviceGetUtilizationRates")
    return rates if isinstance(rates, Null) else rates.gpu / 100
