"""What /proc says of a job's process: whose it is, its names in other namespaces, which drivers and limits it sees.

Reads only. A process may be gone at any moment, and one that changed its user cannot be looked into without root:
both give no answer, never an error.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

#: Bytes at the beginning of each page of the fence that say which it is.
MAGIC_BYTES: Final = 8
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


def start_ns(pid: int, proc: Path = Path("/proc")) -> int | None:
    """When it began, in ns of CLOCK_BOOTTIME to the clock tick; None for one that has ended."""
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19]) * 10**9 // os.sysconf("SC_CLK_TCK")


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


def maps_other_page(pid: int, pages: Mapping[bytes, os.stat_result], proc: Path = Path("/proc")) -> bool:
    """Whether the process has a file mapped that begins as one of these pages does and is another file.

    A file that was mounted over for a moment stays mapped, under whatever name and whatever the process finds at its
    path now. Its own page may be mapped beside it. `pages`: by their first bytes, the files that may be mapped.
    """
    sizes = {_in_pages(page.st_size) for page in pages.values()}
    try:
        lines = (proc / str(pid) / "maps").read_text(encoding="utf-8", errors="replace").splitlines()
        ranges = [one for line in lines if (one := _shared_range(line, sizes))]
        return any(_is_other_page(f"{proc}/{pid}/map_files/{one}", pages) for one in ranges)
    except OSError:
        return False  # it has ended, or only root may look


def _shared_range(line: str, sizes: Collection[int]) -> str:
    """The range of a shared mapping of such a size from a file's beginning, as /proc/PID/map_files names it.

    What a program maps of its own data is left alone: it may lie on a file server that does not answer.
    """
    fields = line.split(maxsplit=5)
    if len(fields) < 6 or fields[1][3] != "s" or int(fields[2], 16) != 0:
        return ""
    begin, end = (int(each, 16) for each in fields[0].split("-"))
    return f"{begin:x}-{end:x}" if end - begin in sizes else ""


def _in_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def _is_other_page(path: str, pages: Mapping[bytes, os.stat_result]) -> bool:
    """Devices are mapped too: only regular files are opened."""
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        return False
    with open(path, "rb", buffering=0) as file:
        expected = pages.get(file.read(MAGIC_BYTES))
    return expected is not None and (found.st_dev, found.st_ino) != (expected.st_dev, expected.st_ino)


def children(pid: int, proc: Path = Path("/proc")) -> tuple[int, ...]:
    """Of a process with one thread; empty when it has ended."""
    try:
        return tuple(map(int, (proc / f"{pid}/task/{pid}/children").read_text().split()))
    except OSError:
        return ()


def sees_other_file(
    pid: int, path: str, expected: os.stat_result, proc: Path = Path("/proc"), *, or_none: bool = True
) -> bool:
    """Whether the process finds another file at `path` than the expected one; with `or_none`, or none."""
    try:
        found = os.stat(f"{proc}/{pid}/root{path}")
    except (FileNotFoundError, NotADirectoryError):
        return or_none and _has_root(pid, proc)
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
