"""The device of a case: finding it, its threads, memory and names, and what XLA compiled in this process.

Knows nothing about models, data or training.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.monitoring
import jaxlib.version

from breakeven.errors import Unsupported
from breakeven.records.case import Case, Device
from breakeven.runtimes import BUILD_CACHE, Place
from breakeven.runtimes.host import MIB, cpu, cpu_name, threads_of

PREALLOCATE = "XLA_PYTHON_CLIENT_PREALLOCATE"
"""Unless it is false, JAX takes three quarters of a GPU's memory when it first looks at it."""
POOL_SIZE = "NPROC"
"""Read by XLA when its CPU client starts: the threads of its pools. Unset: the cores offered."""
POOL = "tf_XLAEigen"
"""Name of the threads of the pool that computes on a CPU (jaxlib 0.10)."""

COMPILED = "/jax/core/compile/backend_compile_duration"
TRACED = "/jax/core/compile/jaxpr_trace_duration"
CACHE = {"hits": "/jax/compilation_cache/cache_hits", "misses": "/jax/compilation_cache/cache_misses"}
"""What JAX tells its listeners. A program found in the cache counts as compiled, too."""

_events: dict[str, int] = {}


def set_up(case: Case) -> jax.Device:
    """Every global setting from scratch, before JAX looks at its devices; then the device of the case.

    A case on the CPU does not see the GPU, so that it takes none of its memory. Raises Unsupported if this
    machine doesn't have the device.
    """
    _listen()
    os.environ.setdefault(PREALLOCATE, "false")
    os.environ[POOL_SIZE] = str(threads_of(case))
    jax.config.update("jax_platforms", "cpu" if case.device.kind == "cpu" else "cuda,cpu")
    _choose_cache()
    return resolve(case.device)


def resolve(device: Device) -> jax.Device:
    """The JAX device of that name. Raises Unsupported where JAX sees none."""
    try:
        found = jax.devices(device.kind)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise Unsupported(f"no {device.kind.upper()} device: jax {jax.__version__}: {reason}") from None
    if device.kind == "cuda" and device.index >= len(found):
        raise Unsupported(f"no device cuda:{device.index}: there are {len(found)}")
    return found[device.index if device.kind == "cuda" else 0]


def pool_threads() -> int | None:
    """Threads of the pool that computes on a CPU, as the kernel lists them; None where none has its name."""
    names = []
    for task in Path("/proc/self/task").glob("*/comm"):
        try:
            names.append(task.read_text().strip())
        except OSError:  # it has ended since
            continue
    return names.count(POOL) or None


def memory(device: jax.Device) -> dict[str, float]:
    """What JAX's own allocator counts on the device, in MiB. A CPU has none.

    JAX cannot restart its peak: it holds what compiling and starting up took, as long as the process lives.
    """
    stats: Mapping[str, int] = device.memory_stats() or {}
    names = {"bytes_in_use": "jax_bytes_in_use_mib", "peak_bytes_in_use": "jax_peak_bytes_in_use_mib"}
    return {mib: stats[name] / MIB for name, mib in names.items() if name in stats}


def counters() -> dict[str, int]:
    """Functions traced and programs compiled in this process so far."""
    return {"jax_traced": _events.get(TRACED, 0), "jax_compiled": _events.get(COMPILED, 0)}


def cache_counts() -> tuple[int, int]:
    """Programs found in the cache on disk, and those that were not."""
    return _events.get(CACHE["hits"], 0), _events.get(CACHE["misses"], 0)


def cache_facts(before: tuple[int, int]) -> dict[str, Any]:
    """Where the programs compiled since `before` came from, as a record tells it."""
    hits, misses = (now - then for now, then in zip(cache_counts(), before, strict=True))
    # Without a cache nobody asks it: all is made anew.
    state = {(True, False): "warm", (True, True): "mixed"}.get((hits > 0, misses > 0), "cold")
    return {"cache_state": state, "cache_hits": hits, "cache_misses": misses}


def versions() -> dict[str, str]:
    return {"jax": jax.__version__, "jaxlib": jaxlib.version.__version__}


def facts(device: jax.Device) -> dict[str, Any]:
    """What JAX says about the device and its settings now."""
    on_cpu = device.platform == "cpu"
    names = (
        PREALLOCATE,
        POOL_SIZE,
        "XLA_FLAGS",
        "XLA_PYTHON_CLIENT_ALLOCATOR",
        "XLA_PYTHON_CLIENT_MEM_FRACTION",
    )
    return {
        "threads": pool_threads() if on_cpu else None,
        "env": {name: os.environ.get(name) for name in names},
        "versions": versions() | {"platform": str(device.client.platform_version)},
        "device_name": cpu_name() if on_cpu else device.device_kind,
        "capability": getattr(device, "compute_capability", None),
        "x64": bool(jax.config.jax_enable_x64),
        "default_matmul_precision": jax.config.jax_default_matmul_precision,
    }


def places() -> tuple[Place, ...]:
    """The CPU and every CUDA device that JAX sees."""
    os.environ.setdefault(PREALLOCATE, "false")
    try:
        found = jax.devices("cuda")
    except RuntimeError:
        found = []
    gpus = [Place(label=f"cuda:{device.id}", name=device.device_kind) for device in found]
    return (cpu(), *gpus)


def _choose_cache() -> None:
    """The cache of BUILD_CACHE, where one is named and the user has chosen none for JAX."""
    folder = os.environ.get(BUILD_CACHE)
    if folder and jax.config.jax_compilation_cache_dir is None:
        jax.config.update("jax_compilation_cache_dir", os.path.join(folder, "jax"))
        # Also what is small or soon compiled: a warm process must compile nothing.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def _listen() -> None:
    """Counts what JAX tells, from now on; once a process."""
    if _events:
        return
    _events[COMPILED] = 0

    def count(event: str, *args: object, **told: object) -> None:
        _events[event] = _events.get(event, 0) + 1

    jax.monitoring.register_event_listener(count)
    jax.monitoring.register_event_duration_secs_listener(count)
