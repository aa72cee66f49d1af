"""Reads /proc for a job's processes: parents, pids in namespaces, mapped drivers and limits.

Reads only. A process may be gone at any moment, and one that changed its user cannot be read
without root: both give an empty answer, never an error.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from gpupool.base.units import NANOS_PER_SECOND

#: Bytes at the beginning of each page of the fence that say which it is.
MAGIC_BYTES: Final = 8
#: Steps up a chain of parents; bounds the walk if pids are reused while it runs.
_DEPTH = 4096


def iterate_parents(pid: int, proc: Path = Path("/proc")) -> Iterator[int]:
    """Yield a process and everything above it, up to init."""
    for _ in range(_DEPTH):
        if pid <= 0:
            return
        yield pid
        try:
            text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return
        # The name in parentheses may hold spaces and parentheses (proc_pid_stat(5)).
        # The name in parentheses may hold spaces and parentheses (proc_pid_stat(5)).
        pid = int(text.rpartition(")")[2].split()[1])


def read_start_ns(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Return the start in ns of CLOCK_BOOTTIME, exact to a clock tick; None if it has ended."""
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    if _has_ended(fields):
        return None
    return int(fields[19]) * NANOS_PER_SECOND // os.sysconf("SC_CLK_TCK")


def is_alive(pid: int, proc: Path = Path("/proc")) -> bool:
    """Whether the process runs; a zombie does not."""
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return not _has_ended(text.rpartition(")")[2].split())


def _has_ended(fields: Sequence[str]) -> bool:
    # The first thread may have ended while others run. It looks like a zombie then, and the process
    # keeps what it has of a card (num_threads of proc_pid_stat(5)).
    return fields[0] in "ZX" and int(fields[17]) <= 1


def read_names(pid: int, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """Return its pid here and in each pid namespace below (NSpid of proc_pid_status(5))."""
    try:
        text = (proc / str(pid) / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return (pid,)
    names = [pid]
    for line in text.splitlines():
        if line.startswith("NSpid:"):
            names += [int(word) for word in line.split()[1:] if int(word) != pid]
    return tuple(names)


def find_other_driver(pid: int, known: Collection[int], proc: Path = Path("/proc")) -> str:
    """Return the path of a mapped libcuda.so that is none of the `known` inodes, or ""."""
    try:
        lines = (
            (proc / str(pid) / "maps").read_text(encoding="utf-8", errors="replace").splitlines()
        )
    except OSError:
        return ""
    for line in lines:
        fields = line.split(maxsplit=5)
        if (
            len(fields) == 6
            and os.path.basename(fields[5]).startswith("libcuda.so")
            and int(fields[4]) not in known
        ):
            return fields[5]
    return ""


def maps_other_page(
    pid: int, pages: Mapping[bytes, os.stat_result], proc: Path = Path("/proc")
) -> bool:
    """Whether the process has a file mapped that begins as one of these pages but is another file.

    A file that was mounted over for a moment stays mapped, whatever its name and whatever the
    process finds at its path now. The process may have mapped its own page too.

    Args:
        pages: the files that may be mapped, by their first `MAGIC_BYTES`.
    """
    sizes = {_in_pages(page.st_size) for page in pages.values()}
    try:
        lines = (
            (proc / str(pid) / "maps").read_text(encoding="utf-8", errors="replace").splitlines()
        )
        for line in lines:
            range_ = _find_shared_range(line, sizes)
            if range_ and _is_other_page(f"{proc}/{pid}/map_files/{range_}", pages):
                return True
        return False
    except OSError:
        return False  # it has ended, or only root may look


def _find_shared_range(line: str, sizes: Collection[int]) -> str:
    """Return the range of a shared mapping of such a size from a file's beginning, or "".

    The range is written as /proc/PID/map_files names it.
    """
    # Other mappings are not opened: they may lie on a file server that does not answer, which would
    # block the audit.
    fields = line.split(maxsplit=5)
    if len(fields) < 6 or fields[1][3] != "s" or int(fields[2], 16) != 0:
        return ""
    first, last = fields[0].split("-")
    begin = int(first, 16)
    end = int(last, 16)
    return f"{begin:x}-{end:x}" if end - begin in sizes else ""


def _in_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def _is_other_page(path: str, pages: Mapping[bytes, os.stat_result]) -> bool:
    found = os.stat(path)
    # Opening a mapped device could have side effects.
    if not stat.S_ISREG(found.st_mode):
        return False
    with open(path, "rb", buffering=0) as file:
        expected = pages.get(file.read(MAGIC_BYTES))
    return expected is not None and (found.st_dev, found.st_ino) != (
        expected.st_dev,
        expected.st_ino,
    )


def list_children(pid: int, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """Return the children of a process with one thread; empty when it has ended."""
    try:
        return tuple(map(int, (proc / f"{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return ()


def sees_other_file(
    pid: int,
    path: str,
    expected: os.stat_result,
    proc: Path = Path("/proc"),
    *,
    or_none: bool = True,
) -> bool:
    """Whether the process finds another file at `path`; with `or_none`, or none at all."""
    try:
        found = os.stat(f"{proc}/{pid}/root{path}")
    except (FileNotFoundError, NotADirectoryError):
        return or_none and _has_root(pid, proc)
    except OSError:
        return False
    return (found.st_dev, found.st_ino) != (expected.st_dev, expected.st_ino)


def _has_root(pid: int, proc: Path) -> bool:
    try:
        # The kernel takes the root from an ending process before it becomes a zombie.
        os.readlink(f"{proc}/{pid}/root")
    except OSError:
        return False
    return is_alive(pid, proc)
