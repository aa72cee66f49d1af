"""Creates and checks the grants page, on which the arbiter lets an allocation use a card's time."""

from __future__ import annotations

import ctypes
from pathlib import Path

from gpupool.mechanisms.regions.layout import (
    GRANTS_MAGIC,
    LAYOUT,
    CGrants,
    RegionHeader,
    check_header,
    read_part,
)


def empty_grants() -> bytes:
    """Return `struct fence_grants` as it is before the arbiter writes to it."""
    return bytes(CGrants(RegionHeader(GRANTS_MAGIC, LAYOUT, ctypes.sizeof(CGrants))))


def check_grants(path: Path) -> None:
    """Check the header of a grants page; raises FileNotFoundError or DamagedRegion."""
    with open(path, "rb", buffering=0) as file:
        found = CGrants.from_buffer_copy(read_part(file.fileno(), 0, ctypes.sizeof(CGrants)))
    check_header(found.header, GRANTS_MAGIC, ctypes.sizeof(CGrants), "grants")
