"""What /proc says of a job's process: whose it is, its names in other namespaces, which drivers and limits it sees.

Reads only. A process may be gone at any moment, and one that changed its user cannot be looked into without root:
both give no answer, never an error.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path

_DEPTH = 4096  # no chain of parents is longer


def parents(pid: int, proc: Path = Path("/proc")) -> Iterator[int]:
    """The process itself and everything above it, up to init."""
    for _ in range(_DEPTH):
        if pid <= 0:
            return
        yield pid
        try:
            text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        pid = int(text.rpartition(")")[2].split()[1])


def is_alive(pid: int, proc: Path = Path("/proc")) -> bool:
    """Whether it runs; one that has ended and was not waited for does not."""
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def names(pid: int, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """Its pid here and in each pid namespace below (NSpid of proc_pid_status(5))."""
    try:
        text = (proc / str(pid) / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return (pid,)
    line = next((one for one in text.splitlines() if one.startswith("NSpid:")), "")
    return (pid, *(int(word) for word in line.split()[1:] if int(word) != pid))


def other_driver(pid: int, known: Collection[int], proc: Path = Path("/proc")) -> str:
    """The path of a mapped libcuda.so that is none of the `known` files (inodes); empty when there is none."""
    try:
        lines = (proc / str(pid) / "maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and os.path.basename(fields[5]).startswith("libcuda.so") and int(fields[4]) not in known:
            return fields[5]
    return ""


def maps_other_file(pid: int, name: str, expected: os.stat_result, proc: Path = Path("/proc")) -> bool:
    """Whether the process has a file of that name mapped, and not the expected one.

    A file that was mounted over for a moment stays mapped, whatever the process finds at its path now.
    """
    found = False
    try:
        lines = (proc / str(pid) / "maps").read_text(encoding="utf-8", errors="replace").splitlines()
        for line in lines:
            fields = line.split(maxsplit=5)
            if len(fields) < 6 or os.path.basename(fields[5].removesuffix(" (deleted)")) != name:
                continue
            mapped = os.stat(f"{proc}/{pid}/map_files/{_plain_range(fields[0])}")
            if (mapped.st_dev, mapped.st_ino) == (expected.st_dev, expected.st_ino):
                return False
            found = True
    except OSError:
        return False  # it has ended, or only root may look
    return found


def _plain_range(addresses: str) -> str:
    """As /proc/PID/map_files names it: without leading zeros."""
    return "-".join(f"{int(each, 16):x}" for each in addresses.split("-"))


def sees_other_file(pid: int, path: str, expected: os.stat_result, proc: Path = Path("/proc")) -> bool:
    """Whether the process finds another file at `path` than the expected one, or none."""
    try:
        found = os.stat(f"{proc}/{pid}/root{path}")
    except (FileNotFoundError, NotADirectoryError):
        return _has_root(pid, proc)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) != (expected.st_dev, expected.st_ino)


def _has_root(pid: int, proc: Path) -> bool:
    """Whether it still has a file system: one that is ending has given it back before it is a zombie."""
    try:
        os.readlink(f"{proc}/{pid}/root")
    except OSError:
        return False
    return is_alive(pid, proc)
