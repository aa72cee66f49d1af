"""Waiting jobs read from the ledger: single jobs, whole gangs, and the rests of arrays."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.allocations.cache.pending_jobs import QueueEntry, read_queue, read_waiting_jobs
from gpupool.allocations.store.tables import gangs, jobs
from gpupool.model.claim import Shape
from gpupool.wire.submissions import GroupIn, RoleIn
from tests.support.house import House


def submit_waiting_gang(house: House) -> list[str]:
    """A gang of three whole cards, in a pool of two; its members' public ids by rank."""
    parts = [RoleIn(name="worker", count=3)]
    house.register(1, "node-2")
    house.allocations.placer.refresh_cache()
    house.submit(1000, None, name="holder", count=2)
    house.submit(1000, None, name="gang", gang=GroupIn(name="all", parts=parts))
    return [house.job(f"gang.{rank}").id for rank in range(3)]


def read(house: House, *only: str) -> list[QueueEntry]:
    with house.store.read() as connection:
        return read_waiting_jobs(connection, only or None)


def test_one_member_of_a_waiting_gang_brings_all_of_it(house: House) -> None:
    members = submit_waiting_gang(house)
    entries = read(house, members[1])
    assert [entry.job for entry in entries] == members
    assert {entry.gang.members for entry in entries if entry.gang} == {tuple(members)}
    assert {entry.key.gang for entry in entries} == {house.job("gang.0").gang}


def test_a_gang_that_is_not_whole_or_is_to_end_does_not_wait(house: House) -> None:
    submit_waiting_gang(house)
    for change in ({"missing": 1}, {"missing": 0, "ending": "user"}):
        with house.store.write() as write:
            write.execute(gangs.update().values(**change))
        assert read(house) == []


def test_a_gang_waits_only_when_no_member_still_leaves_its_seats(house: House) -> None:
    members = submit_waiting_gang(house)
    with house.store.write() as write:
        leaving = jobs.c.public_id == members[0]
        values = {"state": "running", "stop_requested": "preempted"}
        write.execute(jobs.update().where(leaving).values(**values))
    assert read(house) == []
    with house.store.write() as write:
        write.execute(jobs.update().where(leaving).values(stop_requested=None))
    assert [entry.job for entry in read(house)] == members[1:]


def test_the_rest_of_an_array_follows_its_members_in_submission_order(house: House) -> None:
    house.submit(1000, None, name="holder", count=2)
    house.submit(1000, None, name="sweep", array=5)
    house.submit(1000, None, name="later")
    with house.store.read() as connection:
        entries = read_queue(connection)
    array = house.allocations.jobs.get_array("sweep", house.admin).id
    ids = [house.job("sweep.0").id, array, house.job("later").id]
    assert [entry.job for entry in entries] == ids
    rest = entries[1].rest
    assert rest is not None
    assert (rest.following, rest.count) == (1, 4)


def test_an_estimated_runtime_is_marked_as_guessed_and_a_limit_is_not(house: House) -> None:
    def estimate(_tenant: str, name: str, _shape: Shape, limit: int | None) -> int | None:
        return {"open": 90}.get(name, limit)

    house.submit(1000, None, name="holder", count=2)
    house.submit(1000, None, name="open")
    house.submit(1000, None, name="limited", max_seconds=60)
    with house.store.read() as connection:
        entries = read_waiting_jobs(connection, None, estimate)
        rows = connection.execute(sa.select(jobs.c.public_id, jobs.c.name)).all()
    names = {row.public_id: row.name for row in rows}
    found = {names[entry.job]: (entry.key.seconds, entry.key.guessed) for entry in entries}
    assert found == {"open": (90, True), "limited": (60, False)}
