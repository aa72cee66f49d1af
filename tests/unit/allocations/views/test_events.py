"""Positions in the event log: one of another log, or beyond the end, is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.base.errors import EventsReset
from tests.support.house import House


def test_a_number_of_another_log_is_refused_with_this_ones_epoch_and_end(tmp_path: Path) -> None:
    house = House(tmp_path)
    epoch = house.allocations.events.read_event_epoch()
    last = house.allocations.events.read_events(house.admin, 0, 1000)[-1].seq
    assert house.allocations.events.read_events(house.admin, last - 1, 10, epoch)[0].seq == last
    assert house.allocations.events.read_events(house.admin, last - 1, 10)[0].seq == last
    with pytest.raises(EventsReset) as refused:
        house.allocations.events.read_events(house.admin, last - 1, 10, "e-another")
    assert refused.value.details == {"last_event": last, "event_epoch": epoch}
    assert f"--after {last} --epoch {epoch}" in refused.value.hint
    house.store.close()


def test_two_databases_have_different_epochs(tmp_path: Path) -> None:
    epochs = set()
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        house = House(tmp_path / name)
        epochs.add(house.allocations.events.read_event_epoch())
        house.store.close()
    assert len(epochs) == 2
    assert "" not in epochs


def test_a_number_beyond_the_logs_end_is_refused_with_the_last_one(tmp_path: Path) -> None:
    house = House(tmp_path)
    last = house.allocations.events.read_events(house.admin, 0, 1000)[-1].seq
    assert house.allocations.events.read_events(house.admin, last, 10) == []
    with pytest.raises(EventsReset) as refused:
        house.allocations.events.read_events(house.admin, last + 1, 10)
    assert refused.value.details == {
        "last_event": last,
        "event_epoch": house.allocations.events.read_event_epoch(),
    }
    house.store.close()
