"""A number beyond the end of the event log is refused, never silently waited for."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.base.errors import EventsReset
from tests.support.house import House


def test_a_number_beyond_the_logs_end_is_refused_with_the_last_one(tmp_path: Path) -> None:
    house = House(tmp_path)
    last = house.allocations.events(house.admin, 0, 1000)[-1].seq
    assert house.allocations.events(house.admin, last, 10) == []
    with pytest.raises(EventsReset) as refused:
        house.allocations.events(house.admin, last + 1, 10)
    assert refused.value.details == {"last_event": last, "event_epoch": house.allocations.event_epoch()}
    house.store.close()
