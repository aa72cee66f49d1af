"""Gangs that were written in part are removed, and those that are to end are stopped."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.allocations.store.tables import claims, gangs, jobs
from gpupool.wire.submissions import GroupIn, RoleIn
from tests.support.array_rows import count
from tests.support.house import House


def mark_gang(house: House, **values: object) -> int:
    """A waiting gang of three whose row says so; its row id."""
    house.submit(1000, None, name="holder", count=2)
    parts = [RoleIn(name="worker", count=2)]
    house.submit(1000, None, name="gang", gang=GroupIn(name="all", parts=parts))
    with house.store.write() as write:
        write.execute(gangs.update().values(**values))
        return int(write.execute(sa.select(gangs.c.id)).scalar_one())


def test_settle_all_removes_a_gang_with_missing_members(house: House) -> None:
    mark_gang(house, missing=1)
    house.allocations.unsettled.settle_all()
    assert (count(house, gangs), count(house, jobs), count(house, claims)) == (0, 1, 1)


def test_settle_all_leaves_a_gang_alone_while_it_is_written(house: House) -> None:
    unsettled = house.allocations.unsettled
    gang = mark_gang(house, missing=1)
    with unsettled.begin_writing() as begin:
        begin(gang)
    unsettled.settle_all()
    assert count(house, gangs) == 1
    with unsettled.remove_on_failure(gang):
        pass
    unsettled.settle_all()
    assert count(house, gangs) == 0


def test_a_failure_of_the_writing_removes_the_gang_at_once(house: House) -> None:
    gang = mark_gang(house, missing=1)
    with pytest.raises(ZeroDivisionError), house.allocations.unsettled.remove_on_failure(gang):
        raise ZeroDivisionError
    assert count(house, gangs) == 0


def test_settle_all_stops_the_members_of_a_gang_that_is_to_end(house: House) -> None:
    mark_gang(house, ending="admin", ending_grace_s=3)
    house.allocations.unsettled.settle_all()
    ended = {(house.job(f"gang.{rank}").state, house.job(f"gang.{rank}").reason) for rank in (0, 1)}
    assert ended == {("stopped", "stopped by an administrator")}
    assert house.allocations.cache.count_waiting() == 0
    assert house.job("holder").state == "starting"
