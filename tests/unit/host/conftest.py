"""Fixtures of pools whose agent was killed while a step of it ran."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.base.settings import PoolPaths
from gpupool.mechanisms.slow_step import (
    await_slow_step,
    is_step_running,
    mark_released,
    run_slow_step,
)

_PROGRAM = (
    "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)"
)
_NAME = "reset"


class LeftStep:
    """A process that needs NVML closed and runs until it is ended."""

    def __init__(self, state_dir: Path) -> None:
        self.paths = PoolPaths(state_dir)
        self._folder = self.paths.agent / "modes"
        self._folder.mkdir(parents=True)
        self._end = state_dir / "end"
        mark_released(self._folder, _NAME)
        run_slow_step(self._folder, _NAME, [sys.executable, "-c", _PROGRAM, str(self._end)], "")

    def is_running(self) -> bool:
        return is_step_running(self._folder, _NAME)

    def end(self) -> None:
        """End the process and wait for it. Idempotent."""
        self._end.touch()
        await_slow_step(self._folder, _NAME)


@pytest.fixture
def left_step(tmp_path: Path) -> Iterator[LeftStep]:
    made = LeftStep(tmp_path)
    yield made
    made.end()
