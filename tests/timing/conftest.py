"""Planted machines: a folder that stands for / and an object that stands for the module pynvml."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pynvml import NVMLError, NVMLError_NotSupported

MIB = 1024 * 1024
UUID = "GPU-11111111-2222-3333-4444-555555555555"


class PlantedNvml:
    """One or more boards. Every fact is an attribute; NOT_SUPPORTED stands for NVML's error of that name."""

    NVMLError = NVMLError
    nvmlMemory_v2 = 2
    NVML_FI_DEV_POWER_INSTANT = 186

    def __init__(self) -> None:
        self.names = ["NVIDIA H200"]
        self.uuids = [UUID]
        self.energy_mj: Any = lambda: 0
        self.power_mw: Any = lambda: 300_000
        self.instant = True
        self.used_mib: Any = 0.0
        self.busy_percent: Any = 0
        self.pids: list[int] = []
        self.mask: Any = 0
        self.mig: Any = (0, 0)
        self.sm_mhz: Any = 1980
        self.broken: set[str] = set()

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        if name.startswith("nvml") and name in object.__getattribute__(self, "broken"):

            def refuse(*_: Any) -> Any:
                raise NVMLError_NotSupported()

            return refuse
        return found

    def nvmlDeviceGetCount(self) -> int:
        return len(self.names)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if index >= len(self.names):
            raise NVMLError(2)
        return index

    def nvmlDeviceGetName(self, handle: int) -> str:
        return self.names[handle]

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return self.uuids[handle]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: int) -> int:
        return int(self.energy_mj())

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        return int(self.power_mw())

    def nvmlDeviceGetFieldValues(self, handle: int, fields: list[int]) -> list[Any]:
        assert fields == [186]
        value = SimpleNamespace(uiVal=self.power_mw())
        return [SimpleNamespace(nvmlReturn=0 if self.instant else 3, value=value)]

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:
        return 700_000

    def nvmlDeviceGetMemoryInfo(self, handle: int, version: int | None = None) -> Any:
        used = self.used_mib() if callable(self.used_mib) else self.used_mib
        return SimpleNamespace(used=used * MIB, total=143771 * MIB)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> Any:
        busy = self.busy_percent() if callable(self.busy_percent) else self.busy_percent
        return SimpleNamespace(gpu=busy, memory=0)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        return [SimpleNamespace(pid=pid) for pid in self.pids]

    def nvmlDeviceGetMigMode(self, handle: int) -> tuple[int, int]:
        return self.mig  # type: ignore[no-any-return]

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> int:
        return self.sm_mhz if kind == 1 else 3201

    def nvmlDeviceGetMaxClockInfo(self, handle: int, kind: int) -> int:
        return 1980 if kind == 1 else 3201

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        return 55

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: int) -> int:
        return self.mask() if callable(self.mask) else self.mask

    def nvmlSystemGetDriverVersion(self) -> str:
        return "580.1"

    def nvmlSystemGetCudaDriverVersion_v2(self) -> int:
        return 13000

    def nvmlDeviceGetCudaComputeCapability(self, handle: int) -> tuple[int, int]:
        return (9, 0)

    def nvmlDeviceGetVbiosVersion(self, handle: int) -> str:
        return "96.00"

    def nvmlDeviceGetMaxPcieLinkGeneration(self, handle: int) -> int:
        return 5

    def nvmlDeviceGetMaxPcieLinkWidth(self, handle: int) -> int:
        return 16

    def nvmlDeviceGetEccMode(self, handle: int) -> tuple[int, int]:
        return (1, 1)

    def nvmlDeviceGetPersistenceMode(self, handle: int) -> int:
        return 0

    def nvmlDeviceGetDisplayActive(self, handle: int) -> int:
        return 0


@pytest.fixture
def nvml() -> PlantedNvml:
    return PlantedNvml()


Plant = Callable[[Mapping[str, str]], Path]


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Writes files (path from / -> text) and returns the folder that stands for /."""

    def write(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return tmp_path

    return write


def topology(cores: int, threads: int = 1) -> dict[str, str]:
    """/sys files of CPUs whose hardware threads i, i + cores, ... share core i."""
    files = {}
    for core in range(cores):
        siblings = [core + cores * k for k in range(threads)]
        for cpu in siblings:
            path = f"sys/devices/system/cpu/cpu{cpu}/topology/core_cpus_list"
            files[path] = ",".join(map(str, siblings)) + "\n"
    return files


@pytest.fixture
def cpus() -> Callable[..., dict[str, str]]:
    return topology
