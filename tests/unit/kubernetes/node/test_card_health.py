"""Cards that fail and come back, told by the probe that one machine has too."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.kubernetes.node.card_health import CardHealth
from gpupool.model.device import DeviceHealth
from gpupool.probes.simulated import SimulatedProbe, parse_sim
from gpupool.probes.simulated_health import set_health

SECONDS = 20


class Watched:
    def __init__(self, place: Path) -> None:
        (machine,) = parse_sim("2xL40S", "n0")
        self.place = place
        self._news: queue.Queue[None] = queue.Queue()
        self.health = CardHealth(
            SimulatedProbe(machine, place), machine, lambda: self._news.put(None)
        )
        self.uuids = [device.uuid for device in machine.devices]

    def news(self) -> list[tuple[DeviceHealth, str]]:
        """What the cards are once something has changed."""
        self._news.get(timeout=SECONDS)
        return [(card.health, card.health_reason) for card in self.health.current_cards()]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    made.health.start()
    yield made
    made.health.close()


def test_a_card_that_fails_is_told_and_one_that_comes_back_too(watched: Watched) -> None:
    well = (DeviceHealth.OK, "")
    set_health(watched.place, 1, DeviceHealth.FAILED, "fell off the bus", 79)
    assert watched.news() == [well, (DeviceHealth.FAILED, "fell off the bus (XID 79)")]
    assert (
        watched.health.describe_failure(watched.uuids)
        == f"card {watched.uuids[1]}: fell off the bus (XID 79)"
    )
    assert watched.health.describe_failure(watched.uuids[:1]) == ""
    set_health(watched.place, 1, DeviceHealth.OK)
    assert watched.news() == [well, well]
    assert watched.health.describe_failure(watched.uuids) == ""


def test_a_warning_is_told_and_is_no_failure(watched: Watched) -> None:
    set_health(watched.place, 0, DeviceHealth.WARNING, "hot")
    assert watched.news()[0] == (DeviceHealth.WARNING, "hot")
    assert watched.health.describe_failure(watched.uuids) == ""


class Forgetful(SimulatedProbe):
    """A driver that names the first card alone."""

    def health(self) -> dict[str, tuple[DeviceHealth, str]]:
        first, *_ = super().health().items()
        return dict([first])

    def wait_events(self, timeout_seconds: float) -> tuple[()]:
        super().wait_events(timeout_seconds)
        return ()


def test_a_card_that_the_driver_does_not_name_any_more_has_failed(tmp_path: Path) -> None:
    (machine,) = parse_sim("2xL40S", "n0")
    news: queue.Queue[None] = queue.Queue()
    health = CardHealth(Forgetful(machine, tmp_path), machine, lambda: news.put(None))
    health.start()
    set_health(tmp_path, 0, DeviceHealth.WARNING, "wakes the probe")
    news.get(timeout=SECONDS)
    health.close()
    states = [(card.health, card.health_reason) for card in health.current_cards()]
    assert states[1] == (DeviceHealth.FAILED, "the driver does not show it any more")
