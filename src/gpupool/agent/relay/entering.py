"""Puts this process into a running job: its cgroups, namespaces, limits and account.

In the order of the supervisor (`native/supervisor/launch.c`), which did the same for the job's
command. One way: a process that has entered does not return.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

#: Of sched.h; the order matters: the user namespace gives the right to enter the others.
_NAMESPACES: Final = {"user": 0x10000000, "net": 0x40000000, "mnt": 0x00020000}
#: Where the soft and the hard limit stand in a line of /proc/PID/limits (fs/proc/base.c).
_SOFT: Final = slice(26, 46)
_HARD: Final = slice(47, 67)
#: Of prctl(2).
_PR_SET_CHILD_SUBREAPER: Final = 36
#: The column of a process's start in /proc/PID/stat after the command's name (proc(5): 22).
_START_COLUMN: Final = 19


class EntryFailure(Exception):
    """Why the job was not entered."""


def enter_job(request: Mapping[str, Any]) -> int:
    """Enter the job of a request; return a pidfd of its command.

    Raises:
        EntryFailure: with the reason; the process must end then.
    """
    pid = int(request["pid"])
    try:
        command = os.pidfd_open(pid)
        check_start(pid, int(request["start_ticks"]))
        places = {kind: os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY) for kind in _NAMESPACES}
        processors = os.sched_getaffinity(pid)
        limits = read_limits(Path(f"/proc/{pid}/limits").read_text())
        # The process was the command when it was looked at, so what was opened is the job's.
        check_start(pid, int(request["start_ticks"]))
        for group in request["cgroups"]:
            (Path(group) / "cgroup.procs").write_text("0")
        _enter_namespaces(places)
        os.umask(int(request["umask"]))
        os.sched_setaffinity(0, processors)
        for number, values in enumerate(limits):
            resource.setrlimit(number, values)
        if request["account"] is not None:
            _become(*request["account"])
    except (OSError, ValueError) as error:
        raise EntryFailure(str(error)) from error
    library = ctypes.CDLL(None, use_errno=True)
    # What the program leaves behind becomes a child of the session, which can end it.
    library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    return command


def check_start(pid: int, start_ticks: int) -> None:
    """Raise EntryFailure unless the process is the one that began then."""
    try:
        # Bytes: the name in it is the user's, and cut after 15 of them.
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError as error:
        raise EntryFailure("its command has ended") from error
    if int(text.rpartition(b")")[2].split()[_START_COLUMN]) != start_ticks:
        raise EntryFailure("its command has ended")


def read_limits(text: str) -> list[tuple[int, int]]:
    """Parse /proc/PID/limits: soft and hard limit of each resource, in the order of the kernel.

    prlimit(2) would need CAP_SYS_RESOURCE for another account, which root in a container lacks.
    """
    return [
        (_parse_limit(line[_SOFT]), _parse_limit(line[_HARD])) for line in text.splitlines()[1:]
    ]


def _parse_limit(text: str) -> int:
    return resource.RLIM_INFINITY if text.strip() == "unlimited" else int(text)


def _enter_namespaces(places: Mapping[str, int]) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    for kind, flag in _NAMESPACES.items():
        place = places[kind]
        here = os.stat(f"/proc/self/ns/{kind}")
        there = os.fstat(place)
        is_other = (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino)
        if is_other and library.setns(place, flag) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"cannot enter its {kind} namespace: {os.strerror(number)}")
        os.close(place)


def _become(uid: int, gid: int, groups: list[int]) -> None:
    os.setgroups(groups)
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)
    with contextlib.suppress(PermissionError):
        if uid != 0:
            os.setuid(0)
            raise EntryFailure("root's rights could be regained")
