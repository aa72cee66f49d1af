"""Creates, checks and reads the grants page, on which the arbiter lets an allocation use a card's time."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpupool.mechanisms.regions.layout import (
    GRANTS_MAGIC,
    LAYOUT,
    CGrants,
    RegionHeader,
    check_header,
    read_part,
)


@dataclass(frozen=True)
class PromiseSums:
    """What the arbiter counted of an allocation's promise on one card, since it began.

    Attributes:
        borrowed_ns: GPU time beyond the promise.
        denied_ns: promised time that was lost while the allocation waited for the card.
    """

    borrowed_ns: int = 0
    denied_ns: int = 0


def empty_grants() -> bytes:
    """Return `struct fence_grants` as it is before the arbiter writes to it."""
    return bytes(CGrants(RegionHeader(GRANTS_MAGIC, LAYOUT, ctypes.sizeof(CGrants))))


def check_grants(path: Path) -> None:
    """Check the header of a grants page; raises FileNotFoundError or DamagedRegion."""
    _read_page(path)


def read_promises(path: Path, uuids: Sequence[str]) -> dict[str, PromiseSums]:
    """Return the sums by uuid, of the cards that an arbiter has divided.

    Args:
        uuids: the allocation's cards, in the order of the limits page.

    Raises:
        FileNotFoundError: there is no file.
        DamagedRegion: the file is cut short, or its header is another one.
    """
    found = {}
    for uuid, grant in zip(uuids, _read_page(path).device, strict=False):
        if grant.beat_ns:
            found[uuid] = PromiseSums(grant.borrowed_ns, grant.denied_ns)
    return found


def _read_page(path: Path) -> CGrants:
    with open(path, "rb", buffering=0) as file:
        found = CGrants.from_buffer_copy(read_part(file.fileno(), 0, ctypes.sizeof(CGrants)))
    check_header(found.header, GRANTS_MAGIC, ctypes.sizeof(CGrants), "grants")
    return found
