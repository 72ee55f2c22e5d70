"""The device of a case: finding it, waiting for it, its threads, its memory and its names.

Knows nothing about models, data or training.
"""

import os
import sys
from collections.abc import Callable
from typing import Any

import torch

from breakeven.errors import Unsupported
from breakeven.records.case import Device
from breakeven.runtimes import Place
from breakeven.runtimes.host import MIB, cpu, cpu_name


def resolve(device: Device) -> torch.device:
    """The torch device of a case. Raises Unsupported if this machine doesn't have it."""
    if device.kind == "cpu":
        return torch.device("cpu")
    if device.kind == "cuda":
        if not torch.cuda.is_available():
            raise Unsupported(f"no CUDA device: torch {torch.__version__} sees none")
        count = torch.cuda.device_count()
        if device.index >= count:
            raise Unsupported(f"no device cuda:{device.index}: there are {count}")
        torch.cuda.set_device(device.index)
        return torch.device("cuda", device.index)
    raise Unsupported(f"torch runtime: unknown kind of device {device.kind!r}")


def sync_of(device: torch.device) -> Callable[[], None]:
    """The function that returns when the device is done. An unknown device is refused, not left out."""
    if device.type == "cuda":
        return lambda: torch.cuda.synchronize(device)
    if device.type == "cpu":
        # Nothing to wait for: an eager CPU operation returns when its OpenMP or MKL region has joined.
        return lambda: None
    raise Unsupported(f"torch runtime: no synchronisation known for {device.type!r}")


def span_of(device: torch.device) -> Callable[[Callable[[], object]], Callable[[], int]] | None:
    """Times work by events on the device's current stream; None for a device without a timer."""
    if device.type != "cuda":
        return None

    def span(work: Callable[[], object]) -> Callable[[], int]:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()

        def read() -> int:
            end.synchronize()
            return int(start.elapsed_time(end) * 1e6)  # from milliseconds

        return read

    return span


def set_threads(asked: int | str, offered: int | None) -> None:
    """Sets torch's threads. `auto` is torch's own choice, but never more than the cores offered.

    A prepared parent chose its number before this process got its affinity, hence the limit.
    """
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    limit = min(cores, offered or cores)
    torch.set_num_threads(min(torch.get_num_threads(), limit) if asked == "auto" else int(asked))


def reset_memory(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)


def memory(device: torch.device) -> dict[str, float]:
    """Peaks since the last reset, as the caching allocator counts them. A CPU has none of its own."""
    if device.type != "cuda":
        return {}
    return {
        "torch_allocated_peak_mib": torch.cuda.max_memory_allocated(device) / MIB,
        "torch_reserved_peak_mib": torch.cuda.max_memory_reserved(device) / MIB,
    }


def versions() -> dict[str, str]:
    cudnn = torch.backends.cudnn.version() if torch.cuda.is_available() else None
    found = {"torch": torch.__version__, "cuda": torch.version.cuda, "hip": torch.version.hip, "cudnn": cudnn}
    return {name: str(value) for name, value in found.items() if value is not None}


def facts(device: torch.device) -> dict[str, Any]:
    """What torch says about the device and its threads now."""
    found: dict[str, Any] = {
        "threads": torch.get_num_threads(),
        "interop_threads": torch.get_num_interop_threads(),
        "env": {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")},
        "versions": versions(),
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
    }
    if device.type == "cuda":
        found["device_name"] = torch.cuda.get_device_name(device)
        found["capability"] = "{}.{}".format(*torch.cuda.get_device_capability(device))
    else:
        found["device_name"] = cpu_name()
        found["capability"] = torch.backends.cpu.get_cpu_capability()
    return found


def places() -> tuple[Place, ...]:
    """The CPU and every CUDA device that torch sees."""
    found = [cpu()]
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        properties = torch.cuda.get_device_properties(index)
        found.append(
            Place(label=f"cuda:{index}", name=properties.name, memory_mib=properties.total_memory / MIB)
        )
    return tuple(found)


def counters() -> dict[str, int]:
    """What torch.compile did so far, if it is loaded at all: sums of torch._dynamo's counters by group."""
    utils = sys.modules.get("torch._dynamo.utils")
    if utils is None:
        return {}
    return {f"dynamo_{group}": sum(counts.values()) for group, counts in utils.counters.items()}
