"""Real cgroups for tests: made below a hierarchy of this host, and removed with their children."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpupool.agent.supervisor.cgroups import detect_cgroups, kill_members


@contextmanager
def open_pool_group(versions: Collection[int] = (1, 2)) -> Iterator[Path]:
    """A pool's cgroup for one test, of version 2 where this host has it; skips where it has none.

    What is in it at the end is killed.
    """
    found = detect_cgroups().job_hierarchies if os.geteuid() == 0 else ()
    usable = [hierarchy for hierarchy in found if hierarchy.version in versions]
    if not usable:
        pytest.skip(f"root and a writable cgroup hierarchy of version {versions} are needed")
    first = min(usable, key=lambda hierarchy: -hierarchy.version)
    group = first.base / f"gpupool-test-{os.getpid()}"
    group.mkdir()
    try:
        yield group
    finally:
        for folder, _names, _files in os.walk(group, topdown=False):
            if Path(folder).parent == group:
                kill_members([folder])
            os.rmdir(folder)


def enter_group(group: Path, pid: int = 0) -> None:
    """Move a process into a cgroup; 0 is the caller."""
    (group / "cgroup.procs").write_text(str(pid), encoding="ascii")
