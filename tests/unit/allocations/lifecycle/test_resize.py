"""Another size for a job that runs: in the ledger, in the books, and to its node."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.base.errors import (
    BadFraction,
    BadInput,
    BadQuantity,
    BeyondQuota,
    LargerThanAnyCard,
    NoRoomNow,
)
from gpupool.base.units import GIB, MIB
from gpupool.fleet.tables import devices
from gpupool.metering.tables import delivered, intervals
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.quota.working_quotas import WorkingQuotas
from gpupool.store.tables import events
from gpupool.wire.fleet import ReportIn, ReportsIn
from gpupool.wire.jobs import ResizeIn
from gpupool.wire.people import LimitIn
from gpupool.wire.samples import JobSample
from tests.support.house import House
from tests.support.ledger_sums import held, used
from tests.support.resizing import quota, resize, rows, running, work_of


def test_a_running_share_grows_and_shrinks_where_it_is(house: House) -> None:
    running(house, "train")
    grown = resize(house, "train", 700, 100)
    assert (grown.job.share, grown.changed) == ("0.70 GPU (70 % compute) + 102400 MiB", True)
    assert (grown.gpu_milli_before, grown.memory_bytes_before) == (300, 8 * GIB)
    assert used(house)[0] == (700, 100 * GIB, 1)
    assert held(house) == (700, 100 * GIB)
    resize(house, "train", gib=2)
    assert house.job("train").share == "0.70 GPU (70 % compute) + 2048 MiB"
    assert used(house)[0] == (700, 2 * GIB, 1)
    house.finish("train")
    assert used(house)[0] == (0, 0, 0)
    assert held(house) == (0, 0)


def test_its_node_is_asked_until_it_says_that_the_limits_are_in_force(house: House) -> None:
    running(house, "train")
    before = work_of(house, "train")
    assert (before.want, resize(house, "train", 500).applied) == ("run", False)
    for _ in range(2):
        item = work_of(house, "train")
        assert (item.want, item.seats[0].gpu_milli, item.started) == ("resize", 500, True)
        assert item.generation > before.generation
    generation = house.job("train").generation
    assert house.report(item, "resized", gpu_memory_bytes=3 * GIB) == []
    assert work_of(house, "train").want == "run"
    assert house.job("train").generation > generation
    again = resize(house, "train", 500)
    assert (again.changed, again.applied) == (False, True)


def test_what_was_told_before_the_resize_was_heard_of_still_counts(house: House) -> None:
    running(house, "train")
    old = work_of(house, "train")
    resize(house, "train", 500)
    assert house.report(old, "running", started_ns=5) == []
    assert house.report(old, "ended", exit_code=0) == []
    assert house.job("train").state == "done"
    assert used(house)[0] == (0, 0, 0)


def test_a_word_from_before_the_last_size_in_force_is_stale(house: House) -> None:
    running(house, "train")
    old = work_of(house, "train")
    resize(house, "train", 500)
    house.report(work_of(house, "train"), "resized")
    assert house.report(old, "ended", exit_code=0) == [old.allocation]
    assert house.job("train").state == "running"


def test_the_same_size_again_changes_nothing_at_all(house: House) -> None:
    running(house, "train")
    resize(house, "train", 500, 16)
    before = rows(house, intervals), rows(house, events), work_of(house, "train").generation
    assert resize(house, "train", 500, 16).changed is False
    assert before == (
        rows(house, intervals),
        rows(house, events),
        work_of(house, "train").generation,
    )


def test_the_event_says_both_sizes(house: House) -> None:
    running(house, "train")
    resize(house, "train", 500, 16)
    with house.store.read() as connection:
        (data,) = connection.execute(
            sa.select(events.c.data).where(events.c.kind == "job.resized")
        ).scalars()
    assert data == {
        "name": "train",
        "size": {"gpu_milli": 500, "memory_bytes": 16 * GIB},
        "before": {"gpu_milli": 300, "memory_bytes": 8 * GIB},
        "cards": 1,
    }


def test_every_card_of_a_job_gets_the_new_size_or_none(house: House) -> None:
    running(house, "wide", count=2)
    resize(house, "wide", 400)
    assert [row[:2] for row in used(house)] == [(400, 8 * GIB), (400, 8 * GIB)]
    assert held(house) == (800, 16 * GIB)
    running(house, "other", 500)
    with pytest.raises(NoRoomNow):
        resize(house, "wide", 600)
    assert sorted(row[0] for row in used(house)) == [400, 900]


@pytest.mark.parametrize(
    ("milli", "size", "error", "text"),
    [
        (0, None, BadFraction, "0 of a card"),
        (-5, None, BadFraction, "-0.005 of a card"),
        (1001, None, BadFraction, "1.001 of a card"),
        (None, 0, BadQuantity, "0 bytes"),
        (None, 141 * GIB, LargerThanAnyCard, "node-1:0 has 143360 MiB, not 144384 MiB"),
        (None, None, BadInput, "needs a new share"),
    ],
)
def test_sizes_that_no_card_could_give_are_refused(
    house: House, milli: int | None, size: int | None, error: type[Exception], text: str
) -> None:
    running(house, "train")
    with pytest.raises(error, match=text):
        house.allocations.resizes.resize_job(
            "train", ResizeIn(gpu_milli=milli, memory_bytes=size), house.admin
        )
    assert used(house)[0] == (300, 8 * GIB, 1)


def test_memory_is_counted_up_to_whole_mib(house: House) -> None:
    running(house, "train")
    house.allocations.resizes.resize_job("train", ResizeIn(memory_bytes=GIB + 1), house.admin)
    assert house.job("train").memory_bytes == GIB + MIB


def test_a_refused_growth_leaves_the_job_and_the_books_as_they_were(house: House) -> None:
    quota(house, "owner", nominal_milli=1800)
    running(house, "firm", 200, tenant="default")
    before = [rows(house, table) for table in (devices, intervals, events)]
    with pytest.raises(BeyondQuota):
        resize(house, "firm", 300, 1)
    assert [rows(house, table) for table in (devices, intervals, events)] == before


def test_what_grows_in_memory_and_shrinks_in_compute_is_asked_for_its_memory_alone(
    house: House,
) -> None:
    quota(house, "red", nominal_milli=300, nominal_memory_bytes=20 * GIB)
    running(house, "train", 300, tenant="red")
    quota(house, "red", nominal_milli=100, nominal_memory_bytes=20 * GIB)
    assert resize(house, "train", 200, 16).changed
    with pytest.raises(BeyondQuota, match="holds 16384 of its maximum 20480 MiB"):
        resize(house, "train", 150, 24)


def test_a_job_grows_on_the_node_it_is_on_also_where_whole_nodes_are_owed_to_others(
    house: House,
) -> None:
    """A cell that somebody sits on is not one of those that are kept whole: the reason why growth
    asks for none."""
    running(house, "mine", 300)
    quota(house, "owner", others=[LimitIn(resource="node", nominal=1, lending=0)])
    snapshot = house.allocations.placer.take_snapshot()
    closed = WorkingQuotas(snapshot, FreeCapacity(snapshot.cards)).find_closed_cards("default")
    assert closed is None or not closed[list(snapshot.running[0].rows)].any()
    assert resize(house, "mine", 600).changed


def test_a_share_may_grow_until_it_holds_everything_and_shrink_again(house: House) -> None:
    running(house, "train", 999, 140)
    assert resize(house, "train", 1000).changed
    assert resize(house, "train", 500, 8).changed
    assert used(house)[0] == (500, 8 * GIB, 1)


def test_what_a_running_job_uses_is_told_with_it_and_the_word_at_a_resize_at_once(
    house: House,
) -> None:
    running(house, "train", 500, 8)
    item = work_of(house, "train")
    for milliseconds in (1000, 1500):
        house.store.clock.now_ns()
        sample = JobSample(job=item.job, gpu_milliseconds=milliseconds, gpu_memory_bytes=2 * GIB)
        house.allocations.agents.apply_reports("node-1", ReportsIn(jobs=[sample]))
    told = house.job("train").use
    assert told is not None
    assert (told.memory_bytes, told.memory_percent, told.gpu_milliseconds) == (2 * GIB, 25.0, 1500)
    assert told.share_percent == pytest.approx((told.gpu_percent or 0) * 2, abs=0.2)
    resize(house, "train", gib=4)
    house.report(work_of(house, "train"), "resized", gpu_memory_bytes=3 * GIB)
    told = house.job("train").use
    assert told is not None
    assert (told.memory_bytes, told.memory_percent) == (3 * GIB, 75.0)
    house.finish("train")
    assert house.job("train").use is None


def test_the_last_sample_comes_with_the_end_and_is_in_the_books(house: House) -> None:
    running(house, "train")
    item = work_of(house, "train")
    end = ReportIn(
        allocation=item.allocation, generation=item.generation, state="ended", exit_code=0
    )
    body = ReportsIn(reports=[end], jobs=[JobSample(job=item.job, gpu_milliseconds=777)])
    house.allocations.agents.apply_reports("node-1", body)
    assert [row.gpu_milliseconds for row in rows(house, delivered)] == [777]
