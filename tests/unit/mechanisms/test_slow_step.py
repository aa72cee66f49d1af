"""A slow step runs once at a time, outlives its caller and is found again."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.slow_step import (
    OUTPUT_BYTES,
    StepResult,
    forget_slow_step,
    main,
    run_slow_step,
)
from tests.support.supervised import until

#: Counts its runs in a file, then waits until it may end.
WAITING_STEP = """
import os, pathlib, sys, time
with open("runs", "a") as runs:
    runs.write(f"{os.getpid()}\\n")
while not pathlib.Path("go").exists():
    time.sleep(0.01)
print("cut into 7 pieces")
sys.exit(3)
"""


def make_step(folder: Path) -> list[str]:
    program = f"import os; os.chdir({str(folder)!r})\n{WAITING_STEP}"
    return [sys.executable, "-c", program]


def list_runs(folder: Path) -> list[int]:
    path = folder / "runs"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def await_result(call: Callable[[], StepResult | NotYet]) -> StepResult:
    result = until(lambda: isinstance(answer := call(), StepResult) and answer)
    assert isinstance(result, StepResult)
    return result


def test_a_step_runs_once_however_often_it_is_called(tmp_path: Path) -> None:
    def call() -> StepResult | NotYet:
        return run_slow_step(tmp_path, "cut", make_step(tmp_path), "the card is being cut")

    answer = call()
    assert isinstance(answer, NotYet)
    assert answer.reason == "the card is being cut"
    until(lambda: list_runs(tmp_path))
    assert all(isinstance(call(), NotYet) for _ in range(5))
    (tmp_path / "go").touch()
    assert await_result(call) == StepResult(3, "cut into 7 pieces\n")
    assert call() == StepResult(3, "cut into 7 pieces\n")
    assert len(list_runs(tmp_path)) == 1


def test_the_command_counts_as_running_after_its_parent_was_killed(tmp_path: Path) -> None:
    def call() -> StepResult | NotYet:
        return run_slow_step(tmp_path, "cut", make_step(tmp_path), "the card is being cut")

    call()
    (command,) = until(lambda: list_runs(tmp_path))
    parent = int(Path(f"/proc/{command}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGKILL)
    assert isinstance(call(), NotYet)
    assert list_runs(tmp_path) == [command]
    (tmp_path / "go").touch()
    assert await_result(call).exit_code == 3
    assert len(list_runs(tmp_path)) == 2


def test_a_command_that_is_not_installed_ends_its_step(tmp_path: Path) -> None:
    command = [str(tmp_path / "reset-tool"), "--gpu-reset"]
    result = await_result(lambda: run_slow_step(tmp_path, "reset", command, "the card is reset"))
    assert result == StepResult(127, f"{command[0]}: No such file or directory\n")


def test_a_step_that_is_forgotten_runs_anew(tmp_path: Path) -> None:
    (tmp_path / "go").touch()

    def call() -> StepResult | NotYet:
        return run_slow_step(tmp_path, "cut", make_step(tmp_path), "the card is being cut")

    await_result(call)
    forget_slow_step(tmp_path, "cut")
    forget_slow_step(tmp_path, "cut")
    await_result(call)
    assert len(list_runs(tmp_path)) == 2


def test_a_second_process_of_a_finished_step_does_nothing(tmp_path: Path) -> None:
    touch = [sys.executable, "-c", f"open({str(tmp_path / 'runs')!r}, 'a').write('1 ')"]
    assert main([str(tmp_path), "cut", *touch]) == 0
    assert main([str(tmp_path), "cut", *touch]) == 0
    assert list_runs(tmp_path) == [1]


def test_only_the_end_of_a_long_output_is_kept(tmp_path: Path) -> None:
    program = f"print('x' * {OUTPUT_BYTES}); print('the last line')"
    main([str(tmp_path), "cut", sys.executable, "-c", program])
    result = run_slow_step(tmp_path, "cut", [], "")
    assert isinstance(result, StepResult)
    assert result.output.endswith("the last line\n")
    assert len(result.output) == OUTPUT_BYTES
