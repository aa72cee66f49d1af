"""New sizes of seats in the ledger: cards, tenants and books agree."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.base.errors import (
    NoRoomNow,
)
from gpupool.fleet.tables import devices
from gpupool.metering.tables import intervals
from tests.support.house import House
from tests.support.resizing import resize, rows, running

NS = 10**9


def test_what_shrinks_makes_room_for_what_waits(house: House) -> None:
    for name in ("a", "b"):
        running(house, name, 800)
    house.submit(500, name="waits")
    resize(house, "b", 300)
    house.allocations.placer.run_cycle()
    assert house.job("waits").state == "starting"


def test_the_books_count_each_size_for_its_own_seconds_and_close(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = house.store.clock.now_ns() // NS * NS + 10 * NS
    now = start
    monkeypatch.setattr(house.store.clock, "now_ns", lambda: now)
    running(house, "train")
    steps = [(10.7, 600, 8), (10.9, 700, 8), (20.2, 100, 4)]
    for seconds, milli, gib in steps:
        now = start + int(seconds * NS)
        resize(house, "train", milli, gib)
    now = start + 30 * NS
    house.finish("train")
    now = start + 40 * NS
    kept = [
        (r.start_s - start // NS, r.end_s - start // NS, r.gpu_milli, r.memory_mib)
        for r in rows(house, intervals)
    ]
    assert kept == [(0, 10, 300, 8192), (10, 20, 700, 8192), (20, 30, 100, 4096)]
    report = house.metering.make_report(house.admin, start, now)
    assert report.closes
    assert report.capacity_card_milliseconds == 2 * 40 * 1000
    (mine,) = [row for row in report.rows if row.kind == "tenant"]
    assert mine.card_milliseconds == 10 * 300 + 10 * 700 + 10 * 100
    assert mine.memory_mib_seconds == 20 * 8192 + 10 * 4096
    assert sum(row.card_milliseconds for row in report.rows) == report.capacity_card_milliseconds


def test_cards_never_count_more_than_they_have(house: House) -> None:
    running(house, "a", 500)
    running(house, "b", 500)
    for milli in (1, 250, 499, 500):
        resize(house, "a", milli)
        with house.store.read() as connection:
            (taken,) = connection.execute(
                sa.select(devices.c.used_milli).where(devices.c.idx == 0)
            ).scalars()
        assert taken == milli + 500
    with pytest.raises(NoRoomNow):
        resize(house, "a", 501)
