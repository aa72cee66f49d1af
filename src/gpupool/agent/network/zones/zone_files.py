"""Where the engine of a zone has its directory, and which zones have one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: In the directory of zone 0's engine.
_FOLDER: Final = "zones"


def locate_zone(root: Path, zone: int) -> Path:
    """Return the directory of the engine of a zone.

    Args:
        root: that of zone 0.
    """
    return root / _FOLDER / str(zone) if zone else root


def find_zone(root: Path) -> tuple[Path, int]:
    """Return the directory of zone 0 and the zone, by the directory of the zone's engine."""
    if root.parent.name != _FOLDER:
        return root, 0
    return root.parent.parent, int(root.name)


def list_zones(root: Path) -> list[int]:
    """List the zones above 0 that have a directory.

    Args:
        root: that of zone 0.
    """
    folder = root / _FOLDER
    return sorted(int(entry.name) for entry in folder.iterdir()) if folder.is_dir() else []
