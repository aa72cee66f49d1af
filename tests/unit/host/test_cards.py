"""The cards that a pool starts with, on a machine where a step of an earlier agent still runs."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpupool.base.errors import BadMachine
from gpupool.base.settings import PoolPaths
from gpupool.host import cards
from gpupool.host.state.directory import PoolMarker
from gpupool.mechanisms.released_step import is_driver_suspended
from gpupool.mechanisms.slow_step import (
    await_slow_step,
    is_step_running,
    mark_released,
    run_slow_step,
)
from gpupool.probes.contract import Probe, ProbeAvailability
from tests.support.supervised import until

STEP = "import pathlib, sys, time\nwhile not pathlib.Path(sys.argv[1]).exists(): time.sleep(0.01)"


def test_the_first_look_at_the_cards_waits_for_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = PoolPaths(tmp_path)
    folder = paths.agent / "modes"
    folder.mkdir(parents=True)
    mark_released(folder, "reset")
    run_slow_step(folder, "reset", [sys.executable, "-c", STEP, str(tmp_path / "go")], "")
    running = []

    def look() -> tuple[Probe | None, Mapping[str, ProbeAvailability]]:
        running.append(is_step_running(folder, "reset"))
        return None, {}

    monkeypatch.setattr(cards, "find_first_available", look)

    def start() -> None:
        with pytest.raises(BadMachine):
            cards.find_cards(PoolMarker("p-1"), paths)

    pool = threading.Thread(target=start)
    pool.start()
    try:
        until(is_driver_suspended, "the wait for the step")
        assert running == []
    finally:
        (tmp_path / "go").touch()
        pool.join(30)
        await_slow_step(folder, "reset")
    assert running == [False]
