"""The processes of a job are listed with their children, stopped and continued."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from gpupool.agent.suspension.job_tree import JobTree
from tests.support.supervised import until


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[bytes]]:
    # The parent is the supervisor: it is not one of the job's processes.
    process = subprocess.Popen(["sh", "-c", "sh -c 'sleep 1000 & sleep 1000' & wait"])
    yield process
    for one in JobTree(process.pid, lambda _: None).list_all():
        subprocess.run(["kill", "-KILL", str(one.pid)], check=False)
    process.kill()
    process.wait()


def test_a_tree_is_stopped_and_goes_on_as_a_whole(parent: subprocess.Popen[bytes]) -> None:
    released = []
    tree = JobTree(parent.pid, released.append)
    until(lambda: len(tree.list_all()) == 3, "three processes")
    processes = tree.list_all()
    assert parent.pid not in {process.pid for process in processes}
    assert not tree.is_stopped()
    tree.stop()
    assert tree.is_stopped()
    assert released == [frozenset(process.pid for process in processes)]
    tree.go_on()
    until(lambda: not tree.is_stopped(), "a tree that goes on")
    assert tree.list_all() == processes


def test_a_process_with_a_reused_pid_is_another_one(parent: subprocess.Popen[bytes]) -> None:
    tree = JobTree(parent.pid, lambda _: None)
    until(lambda: len(tree.list_all()) == 3, "three processes")
    process = tree.list_all()[0]
    assert tree.is_alive(process)
    later = type(process)(process.pid, process.start_ticks + 1)
    assert not tree.is_alive(later)
    assert later.key != process.key
