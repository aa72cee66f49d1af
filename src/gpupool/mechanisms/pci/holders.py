"""Finds the processes that have a device node open, over all of `/proc`.

A vendor's list of processes is not enough: it lacks daemons that hold a node without a context.
Must run in the host's pid namespace.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

#: NVIDIA's daemon that keeps cards initialised; switching the persistence mode off ends its hold.
PERSISTENCE_DAEMON = "nvidia-persistenced"
#: The kernel keeps so many characters of a process's name (TASK_COMM_LEN, proc(5)).
_NAME_LENGTH = 15


@dataclass(frozen=True)
class NodeHolder:
    """A process with an open descriptor of a node."""

    pid: int
    name: str
    node: str


def find_holders(
    nodes: Iterable[Path],
    root: Path = Path("/"),
    ignore: Iterable[str] = (),
    ignore_pid: int | None = None,
) -> tuple[NodeHolder, ...]:
    """Return the holders of any of the nodes, by pid. Blocks for one look at each descriptor.

    Args:
        nodes: device nodes; those that do not exist have no holder.
        root: where `/proc` is.
        ignore: names of processes that do not count.
        ignore_pid: a process that does not count.
    """
    wanted = {}
    for node in nodes:
        key = _identify(node)
        if key is not None:
            wanted[key] = str(node)
    found = []
    ignored = frozenset(name[:_NAME_LENGTH] for name in ignore)
    processes = (root / "proc").iterdir() if wanted else iter(())
    for process in processes:
        if process.name.isdigit() and int(process.name) != ignore_pid:
            found += _look_at_process(process, wanted, ignored)
    return tuple(sorted(found, key=lambda holder: holder.pid))


def format_holders(holders: Iterable[NodeHolder]) -> str:
    """Return the processes for people: `python (pid 812) on /dev/nvidia0`."""
    return ", ".join(f"{one.name} (pid {one.pid}) on {one.node}" for one in holders)


def is_persistence_daemon(name: str) -> bool:
    """Whether a process's name, as the kernel shows it, is that of NVIDIA's daemon."""
    return name[:_NAME_LENGTH] == PERSISTENCE_DAEMON[:_NAME_LENGTH]


def suggest_end(names: Iterable[str]) -> str:
    """Return the command that ends a hold of NVIDIA's daemon; empty where it is none of these."""
    if any(is_persistence_daemon(name) for name in names):
        return f"stop it for the switch: systemctl stop {PERSISTENCE_DAEMON}"
    return ""


def _look_at_process(
    process: Path, wanted: dict[tuple[int, ...], str], ignore: frozenset[str]
) -> list[NodeHolder]:
    try:
        descriptors = list((process / "fd").iterdir())
        name = (process / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return []  # it has ended, or is another user's
    if name[:_NAME_LENGTH] in ignore:
        return []
    for descriptor in descriptors:
        key = _identify(descriptor)
        if key in wanted:
            return [NodeHolder(int(process.name), name, wanted[key])]
    return []


def _identify(path: Path) -> tuple[int, ...] | None:
    """Return what names a node also where a container gave it another path."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    if stat.S_ISCHR(status.st_mode):
        return (status.st_rdev,)
    return (status.st_dev, status.st_ino)
