"""Helpers outlive their starter, are shared, and end with the last allocation that needs them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.agent.jobs import helpers
from gpupool.agent.jobs.helpers import HelperProcesses
from gpupool.agent.supervisor.client import (
    JobState,
    SupervisorConnection,
    SupervisorError,
    inspect_job,
    read_log,
)
from gpupool.mechanisms.contract import HelperProcess
from tests.support.supervised import is_alive, until

DAEMON = HelperProcess("mps-0", ("/bin/sh", "-c", "echo ready; exec sleep 1000"))


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[HelperProcesses]:
    made = make(tmp_path)
    yield made
    made.release_unknown(())
    assert not list_names(tmp_path)


def make(folder: Path) -> HelperProcesses:
    return HelperProcesses(folder, os.getuid(), lambda _job: ())


def list_names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def find_pid(directory: Path) -> int:
    with SupervisorConnection(directory) as connection:
        return connection.read_status().pid


def test_a_helper_runs_once_for_all_its_allocations(
    processes: HelperProcesses, tmp_path: Path
) -> None:
    processes.start("al-1", [DAEMON])
    pid = find_pid(tmp_path / "mps-0")
    processes.start("al-1", [DAEMON])
    processes.start("al-2", [DAEMON])
    assert find_pid(tmp_path / "mps-0") == pid
    processes.release("al-1")
    assert is_alive(pid)
    processes.release("al-2")
    assert not is_alive(pid)
    assert not list_names(tmp_path)


def test_another_agent_finds_the_helper_and_ends_what_no_allocation_needs(
    processes: HelperProcesses, tmp_path: Path
) -> None:
    processes.start("al-1", [DAEMON])
    processes.start("al-2", [replace(DAEMON, name="mps-1")])
    kept = find_pid(tmp_path / "mps-0")
    dropped = find_pid(tmp_path / "mps-1")
    make(tmp_path).release_unknown(["al-1"])
    assert is_alive(kept)
    assert not is_alive(dropped)
    assert list_names(tmp_path) == ["mps-0"]


def test_a_helper_that_was_killed_is_started_anew(
    processes: HelperProcesses, tmp_path: Path
) -> None:
    processes.start("al-1", [DAEMON])
    first = find_pid(tmp_path / "mps-0")
    # Killed before it says so, the first one would never be counted.
    until(lambda: count_ready(tmp_path / "mps-0") == 1)
    os.kill(first, signal.SIGKILL)
    until(lambda: inspect_job(tmp_path / "mps-0").state is JobState.ENDED)
    processes.start("al-1", [DAEMON])
    assert find_pid(tmp_path / "mps-0") != first
    until(lambda: count_ready(tmp_path / "mps-0") == 2)


def count_ready(directory: Path) -> int:
    """How often a helper has said in its log that it is ready."""
    return read_log(directory, 0, 4096).data.count(b"ready\n")


def test_a_helper_that_its_mechanism_restarts_is_not_started_anew(
    processes: HelperProcesses, tmp_path: Path
) -> None:
    processes.start("al-1", [DAEMON])
    processes.start("al-2", [replace(DAEMON, restarts=False)])
    os.kill(find_pid(tmp_path / "mps-0"), signal.SIGKILL)
    until(lambda: inspect_job(tmp_path / "mps-0").state is JobState.ENDED)
    with pytest.raises(SupervisorError, match="helper mps-0 ended before the job could start"):
        processes.start("al-3", [replace(DAEMON, restarts=False)])
    assert inspect_job(tmp_path / "mps-0").state is JobState.ENDED
    processes.start("al-1", [DAEMON])
    assert is_alive(find_pid(tmp_path / "mps-0")), "its mechanism asks for it"


def test_releasing_what_was_never_started_changes_nothing(
    processes: HelperProcesses, tmp_path: Path
) -> None:
    processes.release("al-unheard-of")
    assert not list_names(tmp_path)


def test_a_program_that_is_missing_is_an_error_with_its_name(
    processes: HelperProcesses, tmp_path: Path
) -> None:
    with pytest.raises(
        SupervisorError, match=r"helper mps-0 cannot start.*nvidia-cuda-mps-missing"
    ):
        processes.start("al-1", [replace(DAEMON, arguments=("/usr/bin/nvidia-cuda-mps-missing",))])
    processes.release("al-1")
    assert not list_names(tmp_path)


@pytest.mark.parametrize("name", ["../../etc", "", ".", "a/b", "a\0b"])
def test_a_name_never_leads_out_of_the_directory(processes: HelperProcesses, name: str) -> None:
    with pytest.raises(ValueError, match="not a helper's name"):
        processes.start("al-1", [replace(DAEMON, name=name)])


def test_a_helper_that_does_not_end_keeps_its_allocation(
    processes: HelperProcesses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(helpers, "GRACE_SECONDS", 1)
    deaf = replace(
        DAEMON,
        arguments=("/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1000; done"),
    )
    processes.start("al-1", [deaf])
    until(lambda: b"ready" in read_log(tmp_path / "mps-0", 0, 4096).data)
    monkeypatch.setattr(helpers, "STUCK_SECONDS", -0.9)
    with pytest.raises(SupervisorError, match="did not end within"):
        processes.release("al-1")
    assert (tmp_path / "mps-0/users/al-1").exists()
    monkeypatch.undo()


def test_a_helper_that_ends_leaves_that_of_another_pool_alone(tmp_path: Path) -> None:
    pools = [make(tmp_path / name) for name in ("one", "two")]
    for pool in pools:
        pool.start("al-1", [DAEMON])
    other = find_pid(tmp_path / "two" / "mps-0")
    os.kill(find_pid(tmp_path / "one" / "mps-0"), signal.SIGKILL)
    pools[0].release("al-1")
    assert is_alive(other)
    pools[1].release("al-1")
    assert not is_alive(other)
