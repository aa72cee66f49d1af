"""Which jobs were evicted for which claims, read from the event log after a restart."""

from __future__ import annotations

from collections.abc import Mapping

from gpupool.allocations.cache.beneficiaries import read_eviction_beneficiaries
from tests.support.house import House

URGENT = {"j-urgent": ("j-urgent",)}


def write_event(house: House, kind: str, subject: str, **data: str) -> None:
    with house.store.write() as write:
        write.event(kind, subject, data=data)


def read(house: House, waiting: Mapping[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    with house.store.read() as connection:
        return read_eviction_beneficiaries(connection, waiting)


def test_evictions_for_claims_that_still_wait_are_read_in_order(house: House) -> None:
    assert read(house, URGENT) == []
    for victim, claim in (("j-1", "j-urgent"), ("j-2", "j-ended"), ("j-3", "j-urgent")):
        write_event(house, "job.preempted", victim, **{"for": claim})
    assert read(house, URGENT) == [("j-1", "j-urgent"), ("j-3", "j-urgent")]


def test_a_claim_that_started_since_has_had_the_seats_of_its_victims(house: House) -> None:
    write_event(house, "job.preempted", "j-1", **{"for": "j-urgent"})
    write_event(house, "job.placed", "j-urgent")
    assert read(house, URGENT) == []
    write_event(house, "job.preempted", "j-2", **{"for": "j-urgent"})
    assert read(house, URGENT) == [("j-2", "j-urgent")]


def test_a_gang_of_which_one_member_started_has_had_its_seats(house: House) -> None:
    gang = {"g-1": ("j-a", "j-b")}
    write_event(house, "job.preempted", "j-1", **{"for": "g-1"})
    assert read(house, gang) == [("j-1", "g-1")]
    write_event(house, "job.placed", "j-b")
    assert read(house, gang) == []
