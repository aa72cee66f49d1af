"""A slow step that takes long to start is started once."""

from __future__ import annotations

import fcntl
import sys
from pathlib import Path

import pytest

from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.slow_step import (
    StepResult,
    forget_slow_step,
    is_step_running,
    run_slow_step,
)
from tests.support.supervised import until


def test_calls_before_the_process_has_started_start_no_second_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = tmp_path / "starts"
    go = tmp_path / "go"
    slow = tmp_path / "slow-python"
    slow.write_text(
        f"#!/bin/sh\necho start >>{starts}\n"
        f'while [ ! -e {go} ]; do sleep 0.01; done\nexec {sys.executable} "$@"\n'
    )
    slow.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(slow))

    def call() -> StepResult | NotYet:
        return run_slow_step(tmp_path, "cut", ["/bin/true"], "the card is being cut")

    assert all(isinstance(call(), NotYet) for _ in range(20))
    assert is_step_running(tmp_path, "cut")
    go.touch()
    result = until(lambda: isinstance(answer := call(), StepResult) and answer)
    assert result == StepResult(0, "")
    assert starts.read_text() == "start\n"
    until(lambda: not is_step_running(tmp_path, "cut"))
    forget_slow_step(tmp_path, "cut")
    assert not is_step_running(tmp_path, "cut")


def test_two_looks_at_one_moment_do_not_see_a_step(tmp_path: Path) -> None:
    lock = tmp_path / "step-cut.lock"
    lock.touch()
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_SH)  # as `is_step_running` of another thread has it
        assert not is_step_running(tmp_path, "cut")
    with lock.open() as step:
        fcntl.flock(step, fcntl.LOCK_EX)
        assert is_step_running(tmp_path, "cut")
