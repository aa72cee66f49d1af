"""The process of a step says what it could not do; the moves are in `mechanisms/suspend`'s tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpupool.agent.suspension.step import RESUME, SUSPEND, read_outcome
from gpupool.mechanisms.suspend import MoveNotes, MoveOutcome


def run_step(goal: str, folder: Path, library: str) -> MoveOutcome | None:
    words = [goal, str(folder), str(os.getpid()), library]
    command = [sys.executable, "-m", "gpupool.agent.suspension.step", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return read_outcome(done.stdout)


@pytest.mark.parametrize(("goal", "state"), [(SUSPEND, "running"), (RESUME, "suspended")])
def test_without_a_driver_the_job_stays_where_it_was(goal: str, state: str, tmp_path: Path) -> None:
    outcome = run_step(goal, tmp_path, "/no/such/libcuda.so.1")
    assert outcome is not None
    assert outcome.state == state
    assert "cannot be loaded" in outcome.reason


def test_without_a_driver_a_suspend_that_has_begun_is_neither_here_nor_there(
    tmp_path: Path,
) -> None:
    MoveNotes(tmp_path).announce("7:100", "lock")
    outcome = run_step(SUSPEND, tmp_path, "/no/such/libcuda.so.1")
    assert outcome is not None
    assert outcome.state == "mixed"


def test_a_driver_without_the_calls_is_named_with_the_branch_that_has_them(tmp_path: Path) -> None:
    outcome = run_step(SUSPEND, tmp_path, "libc.so.6")
    assert outcome is not None
    assert outcome.state == "running"
    assert outcome.reason == "libc.so.6 has no checkpoint calls"


def test_the_outcome_is_the_last_line_that_is_one() -> None:
    assert read_outcome("a warning\n") is None
    text = 'a warning\n{"state": "running", "processes": 2, "reason": ""}\n'
    assert read_outcome(text) == MoveOutcome("running", 2)
