"""Cycles and arrivals: what waits, what is refused, and what a stale cache does."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from gpupool.allocations.cache.pending_jobs import QueueEntry
from gpupool.allocations.ledger.cache_updates import CardUpdate
from gpupool.allocations.lifecycle import job_reports
from gpupool.base.errors import (
    NoRoomNow,
    NotFound,
)
from gpupool.scheduling.workspace.class_columns import FEWEST
from gpupool.wire.fleet import ReportIn
from gpupool.wire.people import QuotaIn
from tests.support.house import House
from tests.support.ledger_sums import used


def test_what_does_not_fit_now_waits_with_numbers_and_starts_when_room_comes(house: House) -> None:
    for n in range(2):
        house.submit(1000, None, name=f"whole-{n}")
    waiting = house.submit(500, 8, name="later")
    assert waiting.state == "pending"
    assert "0.50 GPU (50 % compute) + 8192 MiB" in waiting.reason
    house.finish("whole-1")
    house.allocations.placer.run_cycle()
    assert house.job("later").device == "node-1:1"


def test_a_job_has_no_answer_of_a_plan_that_was_made_before_it_came(house: House) -> None:
    for n in range(2):
        house.submit(1000, None, name=f"whole-{n}")
    first = house.submit(500, 8, name="first")
    house.allocations.placer.run_cycle()
    key = house.allocations.cache.find_class_key(first.id)
    assert key is not None
    entry = QueueEntry("j-0000000000", key, 0)
    describe = house.allocations.placer.planner.describe_wait
    # It waits in the class that the last plan refused, and room may have come since.
    house.allocations.cache.enqueue_jobs([entry])
    assert describe(entry.job) == "not looked at yet"
    assert "0.50 GPU" in describe(first.id)
    house.allocations.placer.run_cycle()
    assert describe(entry.job) == describe(first.id)


def test_no_wait_is_refused_with_numbers_and_leaves_no_trace(house: House) -> None:
    for n in range(2):
        house.submit(1000, None, name=f"whole-{n}")
    before = house.allocations.events.read_events(house.admin, 0, 1000)
    with pytest.raises(NoRoomNow, match="2 cards"):
        house.submit(500, 8, name="now", wait=False)
    assert house.allocations.events.read_events(house.admin, 0, 1000) == before
    with pytest.raises(NotFound):
        house.job("now")


def test_no_wait_is_placed_at_once_when_there_is_room(house: House) -> None:
    assert house.submit(name="now", wait=False).state == "starting"


def test_a_stale_mirror_is_noticed_and_nothing_is_overcommitted(house: House) -> None:
    snapshot = house.allocations.cache.build_snapshot()
    house.submit(800, 8, name="first")
    house.allocations.cache._cards.columns = (
        snapshot.cards
    )  # as if the note about the first grant were lost
    house.submit(800, 8, name="second")
    house.allocations.placer.run_cycle()
    assert [milli for milli, _, _ in used(house)] == [800, 800]


def test_a_no_is_of_now_an_end_that_is_written_but_not_noted_yet_makes_room(house: House) -> None:
    for n in range(2):
        house.submit(1000, None, name=f"whole-{n}")
    item = house.work()[0]
    report = ReportIn(
        allocation=item.allocation, generation=item.generation, state="ended", exit_code=0
    )
    with house.store.write() as write:  # what the service does just before it notes it
        job_reports.apply_reports(write, house.metering, house.fleet, "node-1", [report])
    assert house.submit(1000, None, name="now", wait=False).state == "starting"


def test_for_a_no_the_cards_are_read_once_more_and_only_once(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.submit(1000, None, name="holder", count=2)
    read = list[int]()
    note_cards = house.allocations.cache.record_cards

    def counted(notes: Iterable[CardUpdate]) -> None:
        read.append(len(told := list(notes)))
        note_cards(told)

    monkeypatch.setattr(house.allocations.cache, "record_cards", counted)
    with pytest.raises(NoRoomNow):
        house.submit(1000, None, name="now", wait=False)
    assert read == [2]
    house.submit(1000, None, name="later")
    assert read == [2, 0], "who waits reads nothing again"


def test_a_quota_of_the_largest_numbers_stops_no_plan(house: House) -> None:
    most = 2**62
    largest = QuotaIn(
        nominal_milli=most,
        borrowing_milli=most,
        nominal_memory_bytes=most,
        borrowing_memory_bytes=most,
    )
    for n in range(2):
        house.submit(1000, None, name=f"wall-{n}")
    house.tenancy.tenants.create(house.admin, "blue", largest)
    for n in range(FEWEST):
        house.submit(500 + n, None, name=f"job-{n}", tenant="blue")
    assert "free" in house.allocations.jobs.explain_job("job-1", house.admin).sentence
    house.finish("wall-0")
    house.allocations.placer.run_cycle()
    assert house.job("job-0").state == "starting"
