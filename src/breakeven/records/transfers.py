"""Copies by size, as ceilings of their own: how they are named.

Knows nothing about devices. A name is `KIND/BYTES`, such as `host_to_device_pinned/65536`.
"""

KIB, MIB = 1024, 1024**2
SIZES = tuple(4 * KIB * 4**power for power in range(10))
"""Bytes of one copy: 4 KiB to 1 GiB, each four times the one before."""
KINDS = (
    "copy",
    "host_to_device_pinned",
    "host_to_device_pageable",
    "device_to_host_pinned",
    "device_to_host_pageable",
)
"""`copy`: within one memory; pinned and pageable are the host's memory."""


def name_of(kind: str, size: int) -> str:
    """The ceiling's name of copies of `size` bytes."""
    return f"{kind}/{size}"


def kind_and_size(name: str) -> tuple[str, int] | None:
    """What a ceiling's name says; None if it is not of a copy by size."""
    kind, slash, size = name.partition("/")
    return (kind, int(size)) if slash and size.isdecimal() and kind in KINDS else None
