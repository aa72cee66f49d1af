"""The resource limits of the process behind a request over the Unix socket, as the kernel has them.

A request's body may name any limits; this is what its sender could set for itself. Blocks for one
read of /proc.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from gpupool.model.job_limits import UNLIMITED, Pair
from gpupool.tenancy.access import PeerProcess

#: Names of proc(5), /proc/PID/limits; 26 columns.
_LINES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "Max address space": "as",
        "Max core file size": "core",
        "Max cpu time": "cpu",
        "Max data size": "data",
        "Max file size": "fsize",
        "Max file locks": "locks",
        "Max locked memory": "memlock",
        "Max msgqueue size": "msgqueue",
        "Max nice priority": "nice",
        "Max open files": "nofile",
        "Max processes": "nproc",
        "Max resident set": "rss",
        "Max realtime priority": "rtprio",
        "Max realtime timeout": "rttime",
        "Max pending signals": "sigpending",
        "Max stack size": "stack",
    }
)
_NAME_COLUMNS: Final = 26
#: The file has 17 lines of 80 signs.
_MOST_BYTES: Final = 16_384


def read_peer_limits(peer: PeerProcess | None, runs_as: int | None) -> dict[str, Pair] | None:
    """Read the peer's own limits.

    None over TCP, when the job runs as another user, and when the process is gone. The directory of
    /proc stays that of one process, so a pid that is reused between the two looks gives nothing;
    the process must still be of the user that connected.
    """
    if peer is None or (runs_as is not None and runs_as != peer.uid):
        return None
    try:
        directory = os.open(f"/proc/{peer.pid}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # The directory belongs to the process's effective user: of a set-uid program to another.
        if os.fstat(directory).st_uid != peer.uid:
            return None
        return parse_limits(_read_limits(directory))
    except OSError:
        return None
    finally:
        os.close(directory)


def read_own_limits() -> dict[str, Pair]:
    """Read the limits of this process."""
    directory = os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return parse_limits(_read_limits(directory))
    finally:
        os.close(directory)


def _read_limits(directory: int) -> str:
    file = os.open("limits", os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    try:
        return os.read(file, _MOST_BYTES).decode("ascii", "replace")
    finally:
        os.close(file)


def parse_limits(text: str) -> dict[str, Pair]:
    """Parse the lines that name a limit of setrlimit(2); others are passed over."""
    found: dict[str, Pair] = {}
    for line in text.splitlines():
        name = _LINES.get(line[:_NAME_COLUMNS].strip())
        values = line[_NAME_COLUMNS:].split()
        if name is not None and len(values) >= 2:
            found[name] = _parse_value(values[0]), _parse_value(values[1])
    return found


def _parse_value(text: str) -> int:
    return UNLIMITED if text == "unlimited" else int(text)
