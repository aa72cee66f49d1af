"""Processes of containers, found by what they call themselves; asked of a real namespace."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from gpupool.probes.host_pids import HostPids
from tests.support.supervised import until

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes pid namespaces"),
]


def start_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def first_child(pid: int) -> int:
    words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(words[0]) if words else 0


def test_a_process_of_another_namespace_is_found_by_its_own_pid_and_start() -> None:
    words = ["unshare", "--fork", "--pid", "--kill-child", "sleep", "600"]
    with subprocess.Popen(words) as outer:
        try:
            until(lambda: first_child(outer.pid), "the first process of the namespace")
            inner = first_child(outer.pid)
            namespace = os.stat(f"/proc/{inner}/ns/pid").st_ino
            pids = HostPids()
            assert pids.find_pid(1, namespace, start_of(inner)) == inner
            assert pids.find_pid(1, namespace, start_of(inner) + 1) is None
            assert pids.find_pid(1, os.stat("/proc/self/ns/pid").st_ino, start_of(1)) is None
        finally:
            outer.kill()
