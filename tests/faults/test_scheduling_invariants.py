"""The checks themselves: each says what is wrong of a ledger that was put wrong, and nothing of a
good one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.base.units import GIB
from gpupool.model.numa import divide_evenly
from gpupool.wire.defrag import MovesIn
from gpupool.wire.reservations import ReservationIn
from gpupool.wire.submissions import ShapeIn
from tests.faults.scheduling_invariants import promises
from tests.support.house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A running gang of two, and a job that moves to the fourth card."""
    made = House(tmp_path, cards=4)
    made.submit(
        1000, 140, name="all", gang={"name": "all", "parts": [{"name": "worker", "count": 2}]}
    )
    made.submit(1000, 140, name="moves", preemptible=True)
    free = [f"GPU-node-1-{n}" for n in range(4)]
    for item in made.work():
        made.report(item, "running", started_ns=5)
        free.remove(made.job(item.job).seats[0].uuid)
    made.allocations.migrations.apply_moves(MovesIn(moves=[made.move_to("moves", *free)]))
    yield made
    made.close()


def wrong(house: House, change: str = "") -> list[str]:
    """What is said of the ledger after that change of it."""
    database = house.store.engine.url.database
    assert database is not None
    with sqlite3.connect(database) as connection:
        connection.row_factory = sqlite3.Row
        if change:
            connection.execute(change)
        return list(promises(connection))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE jobs SET state = 'pending' WHERE gang_rank = 0", "it needs {'worker': 2}"),
        ("UPDATE jobs SET stop_requested = 'preempted' WHERE gang_rank = 0", "nobody stops it"),
        ("UPDATE allocations SET state = 'running' WHERE state = 'releasing'", "nobody stops it"),
        (
            "UPDATE jobs SET state = 'pending', leaving_for = 'j-1' WHERE name = 'moves'",
            "still leaves for j-1",
        ),
        (
            "UPDATE jobs SET stop_requested = NULL WHERE name = 'moves'",
            "not asked to leave its own",
        ),
        ("UPDATE devices SET used_milli = 100 WHERE used_milli = 0", "held or kept"),
        ("UPDATE nodes SET used_cpu_milli = used_cpu_milli - 1", "-1 milli"),
    ],
)
def test_what_is_put_wrong_is_said(house: House, change: str, said: str) -> None:
    assert wrong(house) == []
    assert any(said in sentence for sentence in wrong(house, change))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("UPDATE nodes SET used_numa = '[[0, 2000, 0]]'", "its allocations add up to"),
        ("UPDATE allocations SET numa = NULL", "its allocations add up to"),
        ("UPDATE allocations SET numa = '[[1, 5000, 0]]'", "NUMA node 1 of node-1 gave"),
    ],
)
def test_numa_nodes_that_are_put_wrong_are_said(tmp_path: Path, change: str, said: str) -> None:
    house = House(tmp_path, cards=0)
    house.register(4, numa=divide_evenly((0, 1), 8, 64 * GIB))
    house.allocations.placer.load()
    house.submit(300, 8, name="j", cpu_milli=3000)
    assert wrong(house) == []
    assert any(said in sentence for sentence in wrong(house, change))
    house.close()


def test_a_card_taken_from_a_reservation_that_has_begun_is_said(tmp_path: Path) -> None:
    house = House(tmp_path)
    now_ns = house.store.clock.now_ns()
    shape = ShapeIn(gpu_milli=1000, memory_bytes=140 * GIB)
    soon = ReservationIn(
        name="mine", shape=shape, replicas=2, start_ns=now_ns + 10**12, end_ns=now_ns + 2 * 10**12
    )
    house.allocations.reservations.create_reservation(soon, house.admin)
    house.submit(1000, 140, name="before", max_seconds=60)
    assert wrong(house, f"UPDATE reservations SET start_ns = {now_ns - 10**9}") != []
    assert wrong(house, "UPDATE allocations SET granted_ns = 1") == []
    house.close()
