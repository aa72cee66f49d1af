"""Reads and writes the cgroup controller dmem: limits of card memory that the kernel keeps.

https://docs.kernel.org/admin-guide/cgroup-v2.html, "DMEM". `dmem.capacity` is in the root cgroup
alone. A write to `dmem.max` may have several lines, and changes the regions that it names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

#: Bytes by region.
Regions = Mapping[str, int]
#: What `dmem.max` shows for a region without a limit.
UNLIMITED: Final = "max"
CONTROLLER: Final = "dmem"


def find_root(group: Path) -> Path | None:
    """Return the root cgroup above a group, if its kernel has the controller."""
    for above in (group, *group.parents):
        if (above / "dmem.capacity").exists():
            return above
    return None


def read_capacities(root: Path) -> Regions:
    """Return bytes by region of all cards."""
    found = {}
    for region, size in _read_lines(root / "dmem.capacity").items():
        if size.isdigit():
            found[region] = int(size)
    return found


def list_card_regions(capacities: Regions, address: str) -> tuple[str, ...]:
    """Return the regions of memory of the card at a PCI address that programs get memory of."""
    start = f"drm/{address}/vram"
    return tuple(sorted(region for region in capacities if region.startswith(start)))


def split_limit(capacities: Regions, regions: Iterable[str], memory_bytes: int) -> Regions:
    """Return the part of a limit for each region of a card, by their sizes.

    >>> split_limit({"a/vram0": 300, "a/vram1": 100}, ("a/vram0", "a/vram1"), 40)
    {'a/vram0': 30, 'a/vram1': 10}
    """
    names = tuple(regions)
    total = sum(capacities[name] for name in names)
    return {name: memory_bytes * capacities[name] // total for name in names}


def is_delegated(group: Path) -> bool:
    """Whether the controller can be given to a job's group: it reaches the pool's group above it."""
    controllers = _read_text(group.parent.parent / "cgroup.controllers").split()
    return CONTROLLER in controllers


def enable_controller(group: Path) -> None:
    """Give the controller to the groups above a job's, as the supervisor does for main memory."""
    for above in (group.parent.parent, group.parent):
        if CONTROLLER not in _read_text(above / "cgroup.subtree_control").split():
            (above / "cgroup.subtree_control").write_text(f"+{CONTROLLER}", encoding="ascii")


def read_limits(group: Path) -> Mapping[str, str]:
    """Return the limit of each region as the kernel writes it: a number of bytes or `max`."""
    return _read_lines(group / "dmem.max")


def write_limits(group: Path, limits: Mapping[str, str]) -> None:
    """Set limits of regions, in one write."""
    lines = [f"{region} {limits[region]}\n" for region in sorted(limits)]
    (group / "dmem.max").write_text("".join(lines), encoding="ascii")


def _read_lines(path: Path) -> dict[str, str]:
    found = {}
    for line in _read_text(path).splitlines():
        region, _, value = line.partition(" ")
        if value:
            found[region] = value.strip()
    return found


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
