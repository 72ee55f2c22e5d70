"""What a device does at best: matrix products by precision, triad, and copies within and between memories.

Knows nothing about clocks: it builds the work and counts it. A better kernel than these may exist: they show
what torch does at best on this device, not what the hardware could.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from breakeven.errors import Mismatch, Unsupported
from breakeven.records.case import Device
from breakeven.runtimes import Peak, bits
from breakeven.runtimes.host import MIB, cpu, cpu_name
from breakeven.runtimes.torch import place, precision

PAIRS = 4
"""Pairs of factors that take turns: 8 buffers, so that no product meets its own in a cache (contract R19)."""
CUDA_SIDE, SMALL_CUDA_SIDE, LARGE_MEMORY = 8192, 4096, 16 * 1024 * MIB
"""Sides of square matrices: 8192 takes 2.3 GB in FP32, more than a small board should be asked for."""
CPU_SIDES = ((4, 1024), (16, 2048), (1 << 30, 4096))
"""(threads up to, side): large enough to occupy all cores, small enough for a tenth of a second a product."""
LEAST_ARRAY, CACHES = 256 * MIB, 4
"""An array of triad or copy: at least this, and at least this many times the last-level caches together."""
MOST_OF_MEMORY = 16
"""... but at most this fraction of the memory."""
HOST_BUFFERS, HOST_BUFFER = 8, 64 * MIB
"""Transfers between host and device: so many buffers take turns, beyond the host's caches together."""
DRAWN = 1024 * 1024
"""Random elements of an array that are drawn; the rest repeats them."""
DTYPES = {
    "fp32": torch.float32,
    "tf32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "int8": torch.int8,
}


def peak(device: Device, name: str) -> Peak:
    """Builds the work behind one ceiling. Raises Unsupported where this machine has no such thing."""
    where = place.resolve(device)
    place.set_threads("auto", device.threads)
    if where.type == "cuda":
        torch.cuda.empty_cache()  # what the ceiling before this one held
    kind, _, what = name.partition("_")
    if kind == "matmul":
        return _matmul(where, what)
    if kind == "triad":
        return _triad(where)
    return _copy(where) if kind == "copy" else _transfer(where, name)


def _matmul(device: torch.device, name: str) -> Peak:
    """n x n times n x n: 2 n^3 FLOPs. The precision is set, and probed through the call that is timed."""
    native, why = precision.hardware(name, device)
    if not native:
        raise Unsupported(f"no {name} in hardware: {why}")
    precision.set_precision(name)
    n, dtype = _side(device), DTYPES[name]
    multiply = _multiply_int8 if name == "int8" else _multiply
    pairs = [(_factor(n, dtype, device), _factor(n, dtype, device)) for _ in range(PAIRS)]
    out = torch.empty(n, n, dtype=torch.int32 if name == "int8" else dtype, device=device)
    verified = "exact" if name == "int8" else _probed(name, out, dtype)
    if name == "int8":
        _exact(out, *pairs[0])
    turn = itertools.cycle(pairs)
    return Peak(
        call=lambda: multiply(out, *next(turn)),
        sync=place.sync_of(device),
        amount=2.0 * n**3,
        conditions=told(device, dtype, [n, n, n]) | {"buffers": 2 * PAIRS, "verified": verified},
    )


def _multiply(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    torch.mm(a, b, out=out)


def _multiply_int8(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    # A private name; the second factor is column-major, as the tensor cores take it.
    torch._int_mm(a, b.t(), out=out)


def _factor(n: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Random and not zero: on zeros a chip draws less power and clocks higher than it could on data."""
    if dtype == torch.int8:
        return torch.randint(-127, 128, (n, n), dtype=dtype, device=device)
    return torch.randn(n, n, device=device).to(dtype)


def _probed(name: str, out: torch.Tensor, dtype: torch.dtype) -> str:
    """The mantissa bits that a product of this shape keeps. Raises Mismatch if they are not `name`'s."""
    n = out.shape[0]
    b = torch.zeros(n, n, dtype=dtype, device=out.device)
    b[0, 0] = 1.0

    def product(values: NDArray[np.float64]) -> NDArray[np.floating]:
        a = torch.zeros(n, n, dtype=dtype, device=out.device)
        a[:, 0] = torch.from_numpy(values).to(dtype).to(out.device)
        _multiply(out, a, b)
        return precision.numbers(out[:, 0])

    kept, found = bits.kept(product, n)
    if found != name:
        raise Mismatch("precision_mismatch", f"asked {name}, found {found or 'none'} ({kept} mantissa bits)")
    return f"{kept} mantissa bits"


def _exact(out: torch.Tensor, a: torch.Tensor, b: torch.Tensor) -> None:
    """Raises Mismatch unless one element of an integer product is right to the last bit."""
    _multiply_int8(out, a, b)
    if int(out[1, 2]) != int((a[1].long() * b[2].long()).sum()):
        raise Mismatch("output_mismatch", "the int8 product is not exact")


def _triad(device: torch.device) -> Peak:
    """a = b + s * c in FP32: two reads and a write, 12 bytes an element, as STREAM counts (McCalpin 1995)."""
    b, c = (array(_elements(device), device) for _ in range(2))
    a = torch.empty_like(b)
    return Peak(
        call=lambda: torch.add(b, c, alpha=3.0, out=a),
        sync=place.sync_of(device),
        amount=12.0 * a.numel(),
        conditions=told(device, a.dtype, [a.numel()]) | {"bytes_per_element": 12},
    )


def _copy(device: torch.device) -> Peak:
    """a = b within one memory, FP32: bytes read and bytes written, 8 an element."""
    b = array(_elements(device), device)
    a = torch.empty_like(b)
    return Peak(
        call=lambda: a.copy_(b),
        sync=place.sync_of(device),
        amount=8.0 * a.numel(),
        conditions=told(device, a.dtype, [a.numel()]) | {"bytes_per_element": 8},
    )


def _transfer(device: torch.device, name: str) -> Peak:
    """Between host and device: each byte counts once. `pinned`: page-locked host memory, as loaders use."""
    pinned = name.endswith("_pinned")
    elements = HOST_BUFFER // 4
    hosts = [array(elements, torch.device("cpu")) for _ in range(HOST_BUFFERS)]
    turn = itertools.cycle([host.pinmemory_of() for host in hosts] if pinned else hosts)
    there = array(elements, device)

    def upload() -> None:
        there.copy_(next(turn), non_blocking=pinned)

    def download() -> None:
        next(turn).copy_(there, non_blocking=pinned)

    return Peak(
        call=upload if name.startswith("host_to_device") else download,
        sync=place.sync_of(device),
        amount=4.0 * elements,
        conditions=told(device, there.dtype, [elements]) | {"bytes_per_element": 4, "buffers": HOST_BUFFERS},
    )


def array(elements: int, device: torch.device) -> torch.Tensor:
    """Random numbers between 1 and 2, one draw of up to 4 MiB over and over: memory does not compress."""
    drawn = torch.rand(min(elements, DRAWN), device=device) + 1
    return drawn.repeat(-(-elements // drawn.numel()))[:elements]


def told(device: torch.device, dtype: torch.dtype, shape: list[int]) -> dict[str, object]:
    told: dict[str, object] = {"dtype": str(dtype).removeprefix("torch."), "shape": shape}
    if device.type == "cuda":
        return told | {"device_name": torch.cuda.get_device_name(device)}
    return told | {"device_name": cpu_name(), "threads": torch.get_num_threads()}


def _side(device: torch.device) -> int:
    if device.type == "cuda":
        return CUDA_SIDE if memory_of(device) >= LARGE_MEMORY else SMALL_CUDA_SIDE
    threads = torch.get_num_threads()
    return next(side for most, side in CPU_SIDES if threads <= most)


def _elements(device: torch.device) -> int:
    """Elements of an FP32 array that no cache holds."""
    return min(max(LEAST_ARRAY, CACHES * cache_of(device)), memory_of(device) // MOST_OF_MEMORY) // 4


def cache_of(device: torch.device) -> int:
    """Bytes of the device's last-level caches together; 0 where nothing tells."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).L2_cache_size)
    return _host_caches()


def memory_of(device: torch.device) -> int:
    """Bytes of the device's memory, free or not."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return int((cpu().memory_mib or 0) * MIB)


def _host_caches(root: Path = Path("/")) -> int:
    """Bytes of all last-level caches together, each counted once; 0 where the kernel doesn't tell."""
    sizes: dict[str, tuple[int, int]] = {}
    for level, shared, size in _caches(root):
        if level >= sizes.get(shared, (0, 0))[0]:
            sizes[shared] = level, size
    top = max((level for level, _ in sizes.values()), default=0)
    return sum(size for level, size in sizes.values() if level == top)


def _caches(root: Path) -> Iterator[tuple[int, str, int]]:
    """(level, the CPUs that share it, bytes) of every cache of every CPU, as often as the kernel lists it."""
    for folder in root.glob("sys/devices/system/cpu/cpu[0-9]*/cache/index[0-9]*"):
        try:
            level, shared, size = (
                (folder / name).read_text().strip() for name in ("level", "shared_cpu_list", "size")
            )
            yield int(level), shared, int(size.removesuffix("K")) * 1024
        except (OSError, ValueError):
            continue
