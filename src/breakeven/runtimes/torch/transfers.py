"""Copies of one size within a memory and between host and device, over the same buffers again and again.

Knows nothing about clocks. Small copies stay in caches and large ones do not: that is what a sweep of sizes
shows. A copy is one call of torch, so that of small ones the call itself is most of the time.
"""

import torch

from breakeven.errors import Unsupported
from breakeven.records.case import Device
from breakeven.runtimes import Peak
from breakeven.runtimes.torch import ceilings, place

HELD = 4
"""Two buffers of a copy may together take one part in so many of the memory."""


def transfer(device: Device, kind: str, size: int) -> Peak:
    """Copies of `size` bytes of FP32. Raises Unsupported where two such buffers are too much to ask for."""
    where = place.resolve(device)
    place.set_threads("auto", device.threads)
    if where.type == "cuda":
        torch.cuda.empty_cache()  # what the sizes before this one held
    host = torch.device("cpu")
    for memory in {where, host}:
        if 2 * size * HELD > ceilings.memory_of(memory):
            raise Unsupported(f"two buffers of {size} bytes are too much for the memory of {memory.type}")
    elements = size // 4
    source, target = {"copy": (where, where), "host": (host, where), "device": (where, host)}[
        kind.partition("_")[0]
    ]
    pinned = kind.endswith("_pinned")
    a, b = ceilings.array(elements, source), torch.empty(elements, device=target)
    if pinned:
        a, b = (buffer.pin_memory() if buffer.device.type == "cpu" else buffer for buffer in (a, b))
    counted = 8 if kind == "copy" else 4  # within one memory bytes read and bytes written

    def call() -> None:
        b.copy_(a, non_blocking=pinned)

    return Peak(
        call=call,
        sync=place.sync_of(where),
        amount=float(counted * elements),
        conditions=ceilings.told(where, a.dtype, [elements])
        | {"bytes_per_element": counted, "buffers": 2, "cache_bytes": ceilings.cache_of(where)},
    )
