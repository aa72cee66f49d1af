"""The cards that a pool starts with, on a machine where a step of an earlier agent still runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest

from gpupool.base.errors import BadMachine
from gpupool.host import cards
from gpupool.host.state.directory import PoolMarker
from gpupool.mechanisms.released_step import is_driver_suspended
from gpupool.probes.contract import Probe, ProbeAvailability
from tests.support.supervised import until
from tests.unit.host.conftest import LeftStep


def test_the_first_look_at_the_cards_waits_for_the_step(
    left_step: LeftStep, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def look() -> tuple[Probe | None, Mapping[str, ProbeAvailability]]:
        looks.append(left_step.is_running())
        return None, {}

    monkeypatch.setattr(cards, "find_first_available", look)

    def start() -> None:
        with pytest.raises(BadMachine):
            cards.find_cards(PoolMarker("p-1"), left_step.paths)

    pool = threading.Thread(target=start)
    pool.start()
    try:
        until(is_driver_suspended, "the wait for the step")
        assert looks == []
    finally:
        left_step.end()
        pool.join(30)
    assert looks == [False]
