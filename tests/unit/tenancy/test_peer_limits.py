"""The limits of the process behind a connection."""

from __future__ import annotations

import os
import resource
import subprocess

from gpupool.model.job_limits import DEFAULTS
from gpupool.tenancy.access import PeerProcess
from gpupool.tenancy.peer_limits import parse_limits, read_own_limits, read_peer_limits


def peer(pid: int, uid: int = os.getuid()) -> PeerProcess:
    return PeerProcess(pid, uid, os.getgid(), ())


def test_the_limits_of_a_process_are_the_kernels() -> None:
    with subprocess.Popen(
        ["sh", "-c", "ulimit -n 100; exec cat"], stdin=subprocess.PIPE
    ) as process:
        assert process.stdin
        resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 4096))
        own = read_peer_limits(peer(process.pid), None)
        assert own is not None
        assert own["core"] == resource.prlimit(process.pid, resource.RLIMIT_CORE)
        process.stdin.close()
    assert own.keys() == DEFAULTS.keys()


def test_every_limit_is_known() -> None:
    assert read_own_limits()["nofile"] == resource.getrlimit(resource.RLIMIT_NOFILE)
    assert read_own_limits().keys() == DEFAULTS.keys()


def test_nothing_is_known_over_tcp_of_another_user_and_of_a_process_that_is_gone() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert read_peer_limits(None, None) is None
    assert read_peer_limits(peer(ended.pid), None) is None
    assert read_peer_limits(peer(os.getpid(), os.getuid() + 1), None) is None
    assert read_peer_limits(peer(os.getpid()), os.getuid() + 1) is None


def test_lines_that_name_no_limit_are_passed_over() -> None:
    head = "Limit                     Soft Limit           Hard Limit           Units\n"
    text = (
        head
        + "Max open files            5                    unlimited            files\nMax what         1 2\n\n"
    )
    assert parse_limits(text) == {"nofile": (5, -1)}
