"""Measures how much main memory a job may still take: of the host, and of its cgroups."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

#: Bytes that a suspend leaves free on the host, for the system and for other jobs.
KEEP_FREE_BYTES: Final = 512 * 1024 * 1024
#: Limit and use of a group, by the version of its hierarchy (cgroups(7)).
_GROUP_FILES: Final = (
    ("memory.max", "memory.current"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
)


def measure_host_room(groups: Iterable[Path | str], meminfo: Path = Path("/proc/meminfo")) -> int:
    """Return the bytes that the processes of a job may still take.

    The driver puts the copy into the suspended process, so it counts against the job's own limit.

    Args:
        groups: the job's cgroups, as directories; those without a limit change nothing.
    """
    room = _read_available(meminfo) - KEEP_FREE_BYTES
    for group in groups:
        for limit_name, used_name in _GROUP_FILES:
            limit = _read_number(Path(group) / limit_name)
            used = _read_number(Path(group) / used_name)
            if limit is not None and used is not None:
                room = min(room, limit - used)
    return max(room, 0)


def _read_available(meminfo: Path) -> int:
    for line in meminfo.read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return 0


def _read_number(path: Path) -> int | None:
    """Read a number; None where there is no such file, or no limit ("max")."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None
