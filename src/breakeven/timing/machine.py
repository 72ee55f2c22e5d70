"""The machine's fingerprint: which hardware, driver, libraries and settings stand behind the numbers.

Knows nothing about what is measured. Nothing volatile, no host name and no user is read: two runs on one
machine have one fingerprint, and a results file can be given away.
"""

import hashlib
import os
import platform as python_platform
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from breakeven.records.canonical import digest
from breakeven.records.lines import Fingerprint
from breakeven.timing.concerns import Concern, findings_for_doctor
from breakeven.timing.cpu import Cores, core_ids_for, offered_cores
from breakeven.timing.host import host_facts
from breakeven.timing.probes.clocks import CLOCK_MEMORY, CLOCK_SM
from breakeven.timing.probes.nvml import MIB, Board, all_boards, ask, load_nvml
from breakeven.timing.readings import SYSTEM, Null, told

__all__ = ["Concern", "Cores", "core_ids_for", "findings_for_doctor", "fingerprint", "offered_cores"]

STEERING = (
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "DNNL_", "ONEDNN_", "ATEN_", "TORCH", "PYTORCH_",
    "CUDA_", "CUDNN_", "CUBLAS_", "NVIDIA_", "XLA_", "TF_", "JAX_", "ORT_", "OV_", "MALLOC_",
    "TRITON_", "GLIBC_TUNABLES", "PYTHONMALLOC", "PYTHONDEVMODE", "PYTHONOPTIMIZE", "PYTHONTRACEMALLOC",
    "PYTHON_GIL", "PYTHON_JIT",
)  # fmt: skip
PRELOADED = "LD_PRELOAD"
"""Libraries put before all others, such as another allocator: which ones, without their folders."""
FOLDERS = ("_HOME", "_PATH", "_DIR", "_CACHE", "_ROOT")
LONGEST_VALUE = 80

UUID_HEX = 16
"""Hex digits kept of a UUID's sha256: tells boards apart, gives nobody the UUID."""


def fingerprint(
    versions: Mapping[str, str],
    *,
    root: Path = SYSTEM,
    nvml: Any = None,
    affinity: Iterable[int] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Fingerprint:
    """This machine, with the given library versions. Take it before pinning: the offered cores belong to it.

    What cannot be read is None, its reason under the dotted name in `nulls`. The quota, the kinds of core and
    parts of `system` are None without a reason where there is no such thing. `nvml` may stand in for pynvml.
    """
    nulls: dict[str, str] = {}
    facts = host_facts(nulls, root, affinity)
    driver, gpus, uuids = _gpu_facts(load_nvml() if nvml is None else nvml, nulls)
    facts |= {
        "gpus": gpus,
        "nvidia": driver,
        "python": f"{python_platform.python_implementation()} {python_platform.python_version()}",
        "machine": python_platform.machine(),
        "libraries": dict(sorted(versions.items())),
        "environ": steering(os.environ if environ is None else environ),
    }
    unit = {"gpus": uuids}
    named = {("unit.gpus" if key == "unit.gpus" else f"platform.{key}"): why for key, why in nulls.items()}
    return Fingerprint(
        fingerprint_id=digest("fingerprint", {"platform": facts, "unit": unit}),
        platform_id=digest("platform", facts),
        platform=facts,
        unit=unit,
        nulls=named,
    )


def steering(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables that steer what libraries compute with: threads, instruction sets, precision, allocators.

    A forgotten DNNL_MAX_CPU_ISA, or a preloaded allocator, makes another machine of this one. Folders are
    left out: they steer nothing and name their owner.
    """
    found = {
        name: value[:LONGEST_VALUE]
        for name, value in environ.items()
        if name.startswith(STEERING) and not name.endswith(FOLDERS) and "/" not in value
    }
    # Both separators that ld.so takes.
    libraries = [PurePosixPath(path).name for path in environ.get(PRELOADED, "").replace(":", " ").split()]
    if libraries:
        found[PRELOADED] = " ".join(libraries)[:LONGEST_VALUE]
    return dict(sorted(found.items()))


def _gpu_facts(
    nvml: Any, nulls: dict[str, str]
) -> tuple[dict[str, Any] | None, list[dict[str, Any]] | None, list[str | None] | None]:
    """(driver, what each board is, hashed UUIDs); all None where NVML does not answer."""
    boards = nvml if isinstance(nvml, Null) else all_boards(nvml)
    if isinstance(boards, Null):
        nulls |= dict.fromkeys(("gpus", "nvidia", "unit.gpus"), boards.reason)
        return None, None, None
    cuda = told(ask(nvml, "nvmlSystemGetCudaDriverVersion_v2"), "nvidia.cuda", nulls)
    driver = {
        "driver": told(ask(nvml, "nvmlSystemGetDriverVersion"), "nvidia.driver", nulls),
        # NVML writes 13.0 as 13000.
        "cuda": None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
    }
    facts = [board_facts(board, f"gpus.{i}.", nulls) for i, board in enumerate(boards)]
    return driver, facts, [_hashed_uuid(board, i, nulls) for i, board in enumerate(boards)]


def board_facts(board: Board, prefix: str, nulls: dict[str, str]) -> dict[str, Any]:
    """What a board is and how it is set. Maxima only: current clocks and links change with the load."""

    def fact(key: str, function: str, *args: Any) -> Any:
        return told(board.ask(function, *args), prefix + key, nulls)

    memory = fact("memory_gib", "nvmlDeviceGetMemoryInfo")
    limit_mw = fact("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit")
    ecc = fact("ecc", "nvmlDeviceGetEccMode")
    mig = fact("mig", "nvmlDeviceGetMigMode")
    persistence = fact("persistence", "nvmlDeviceGetPersistenceMode")
    capability = fact("compute_capability", "nvmlDeviceGetCudaComputeCapability")
    return {
        "name": fact("name", "nvmlDeviceGetName"),
        "compute_capability": None if capability is None else ".".join(str(part) for part in capability),
        "memory_gib": None if memory is None else round(memory.total / MIB / 1024),
        "vbios": fact("vbios", "nvmlDeviceGetVbiosVersion"),
        "power_limit_w": None if limit_mw is None else limit_mw / 1000,
        "max_sm_mhz": fact("max_sm_mhz", "nvmlDeviceGetMaxClockInfo", CLOCK_SM),
        "max_mem_mhz": fact("max_mem_mhz", "nvmlDeviceGetMaxClockInfo", CLOCK_MEMORY),
        "max_pcie_generation": fact("max_pcie_generation", "nvmlDeviceGetMaxPcieLinkGeneration"),
        "max_pcie_width": fact("max_pcie_width", "nvmlDeviceGetMaxPcieLinkWidth"),
        # Both answer (current, after the next reset).
        "ecc": None if ecc is None else ecc[0] == 1,
        "mig": None if mig is None else mig[0] == 1,
        "persistence": None if persistence is None else persistence == 1,
    }


def _hashed_uuid(board: Board, index: int, nulls: dict[str, str]) -> str | None:
    uuid = told(board.ask("nvmlDeviceGetUUID"), f"gpus.{index}.uuid", nulls)
    return None if uuid is None else hashlib.sha256(str(uuid).encode()).hexdigest()[:UUID_HEX]
