"""Another size for a job that runs: in the ledger, in the books, and to its node."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.base.errors import (
    BadFraction,
    BadInput,
    BadQuantity,
    LargerThanAnyCard,
    NoRoomNow,
    NotAllowed,
    NotFound,
    QuotaExceeded,
    Refused,
    WrongState,
)
from gpupool.base.units import GIB, MIB
from gpupool.fleet.tables import devices
from gpupool.metering.tables import delivered, intervals
from gpupool.model.tenant import Principal, Role
from gpupool.scheduling.free import Free
from gpupool.scheduling.quotas import Quotas
from gpupool.store.tables import events
from gpupool.wire.fleet import JobSample, ReportIn, ReportsIn, WorkOut
from gpupool.wire.jobs import JobOut, ResizedOut, ResizeIn
from gpupool.wire.people import LimitIn, QuotaIn
from tests.support.house import House
from tests.unit.allocations.test_service import held, used

NS = 10**9


def running(house: House, name: str, gpu_milli: int = 300, memory_gib: int | None = 8, **options: object) -> JobOut:
    house.submit(gpu_milli, memory_gib, name=name, **options)
    job = house.job(name)
    item = next(item for item in house.work() if item.job == job.id)
    house.report(item, "running", started_ns=5)
    return house.job(name)


def resize(
    house: House, name: str, milli: int | None = None, gib: int | None = None, who: Principal | None = None
) -> ResizedOut:
    size = None if gib is None else gib * GIB
    return house.allocations.resize(name, ResizeIn(gpu_milli=milli, memory_bytes=size), who or house.admin)


def work_of(house: House, name: str) -> WorkOut:
    job = house.job(name)
    return next(item for item in house.work() if item.job == job.id)


def rows(house: House, table: sa.Table) -> list[sa.Row[tuple[object, ...]]]:
    with house.store.read() as connection:
        return list(connection.execute(sa.select(table)))


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


def test_resized_after_another_resize_answers_with_the_size_that_it_gave(house: House) -> None:
    running(house, "train")
    first = resize(house, "train", 400)
    second = resize(house, "train", 600)
    told = house.allocations.resized(first)
    assert told.job.gpu_milli == 400
    assert told.note == f"another resize followed: train has {second.job.share} now"


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
    assert before == (rows(house, intervals), rows(house, events), work_of(house, "train").generation)


def test_the_event_says_both_sizes(house: House) -> None:
    running(house, "train")
    resize(house, "train", 500, 16)
    with house.store.read() as connection:
        (data,) = connection.execute(sa.select(events.c.data).where(events.c.kind == "job.resized")).scalars()
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


def test_more_than_is_free_on_its_card_is_refused_with_the_numbers_and_the_most(house: House) -> None:
    running(house, "train")
    running(house, "beside", 500, 100)
    with pytest.raises(NoRoomNow) as refused:
        resize(house, "train", 600, 50)
    assert refused.value.message == (
        "node-1:0 has 0.20 GPU free where 0.30 more would be needed and 32768 MiB free where 43008 MiB more would be "
        "needed; job train holds 0.30 GPU (30 % compute) + 8192 MiB of it"
    )
    assert refused.value.hint == "the most it could have now: gpupool resize train --gpu 0.5 --memory 40960MiB"
    assert used(house)[0] == (800, 108 * GIB, 2)
    assert resize(house, "train", 500, 40).changed


def test_room_on_another_card_does_not_help(house: House) -> None:
    running(house, "a", 600)
    running(house, "b", 400)
    assert used(house)[1] == (0, 0, 0)
    with pytest.raises(NoRoomNow):
        resize(house, "a", 700)


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
        house.allocations.resize("train", ResizeIn(gpu_milli=milli, memory_bytes=size), house.admin)
    assert used(house)[0] == (300, 8 * GIB, 1)


def test_memory_is_counted_up_to_whole_mib(house: House) -> None:
    running(house, "train")
    house.allocations.resize("train", ResizeIn(memory_bytes=GIB + 1), house.admin)
    assert house.job("train").memory_bytes == GIB + MIB


def test_what_grows_stays_within_the_quota_and_what_shrinks_always_may(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "physics", None)
    user = house.member("ada", "physics")
    house.tenancy.put_quota(house.admin, "physics", QuotaIn(nominal_milli=400, nominal_memory_bytes=20 * GIB))
    running(house, "train", principal=user)
    with pytest.raises(QuotaExceeded) as refused:
        resize(house, "train", 500, who=user)
    assert refused.value.message == "tenant physics holds 0.30 of its maximum 0.40 GPU; this claim needs 0.20 more"
    assert refused.value.hint == (
        "an admin can raise it: gpupool quota set; "
        "the most it could have now: gpupool resize train --gpu 0.4 --memory 20480MiB"
    )
    with pytest.raises(QuotaExceeded, match="holds 8192 of its maximum 20480 MiB; this claim needs 22528 MiB more"):
        resize(house, "train", gib=30, who=user)
    assert resize(house, "train", 400, who=user).changed
    house.tenancy.put_quota(house.admin, "physics", QuotaIn(nominal_milli=100, nominal_memory_bytes=20 * GIB))
    assert resize(house, "train", 200, who=user).changed
    assert held(house, "physics") == (200, 8 * GIB)


def quota(house: House, tenant: str, **parts: Any) -> None:
    if tenant not in house.allocations.mirror.snapshot().tenants:
        house.tenancy.tenants.create(house.admin, tenant, None)
    house.tenancy.put_quota(house.admin, tenant, QuotaIn(**parts))


def test_what_grows_has_to_find_room_in_its_cohort_as_well(house: House) -> None:
    house.tenancy.cohorts.put("lab", QuotaIn(nominal_milli=800, borrowing_milli=0))
    for tenant in ("red", "blue"):
        quota(house, tenant, cohort="lab", borrowing_milli=None)
    running(house, "mine", 400, tenant="red")
    running(house, "theirs", 300, tenant="blue")
    with pytest.raises(QuotaExceeded, match=r"cohort lab holds 0\.70 of its maximum 0\.80 GPU; this claim needs 0\.20"):
        resize(house, "mine", 600)
    assert resize(house, "mine", 500).changed
    assert resize(house, "theirs", 100).changed
    assert resize(house, "mine", 700).changed


def test_what_grows_stays_within_the_limit_of_the_model_it_runs_on(house: House) -> None:
    quota(house, "red", others=[LimitIn(resource="gpu:H200", nominal=1000, borrowing=0)])
    running(house, "train", 300, count=2, tenant="red")
    with pytest.raises(QuotaExceeded) as refused:
        resize(house, "train", 600)
    assert refused.value.message == "tenant red holds 0.60 of its maximum 1.00 H200; this claim needs 0.60 more"
    assert (refused.value.hint or "").endswith("gpupool resize train --gpu 0.5 --memory 143360MiB")
    assert resize(house, "train", 500).changed


def test_what_is_not_preemptible_does_not_grow_into_what_others_are_guaranteed(house: House) -> None:
    quota(house, "owner", nominal_milli=1500)
    quota(house, "red", nominal_milli=200, borrowing_milli=None)
    running(house, "firm", 300, tenant="red")
    with pytest.raises(QuotaExceeded) as refused:
        resize(house, "firm", 600)
    assert refused.value.message == (
        "of the pool's 2.00 GPU 0.30 are held by jobs that may not be preempted and 1.50 are guaranteed to others and "
        "not in such use; this claim, not preemptible, needs 0.30 more"
    )
    assert refused.value.hint == (
        "submit it with --preemptible: then it may use what others are guaranteed, until they need it; "
        "the most it could have now: gpupool resize firm --gpu 0.5 --memory 143360MiB"
    )
    assert resize(house, "firm", 500).changed
    running(house, "lent", 300, tenant="red", preemptible=True)
    assert resize(house, "lent", 500).changed


def test_a_refused_growth_leaves_the_job_and_the_books_as_they_were(house: House) -> None:
    quota(house, "owner", nominal_milli=1800)
    running(house, "firm", 200, tenant="default")
    before = [rows(house, table) for table in (devices, intervals, events)]
    with pytest.raises(QuotaExceeded):
        resize(house, "firm", 300, 1)
    assert [rows(house, table) for table in (devices, intervals, events)] == before


def test_what_grows_in_memory_and_shrinks_in_compute_is_asked_for_its_memory_alone(house: House) -> None:
    quota(house, "red", nominal_milli=300, nominal_memory_bytes=20 * GIB)
    running(house, "train", 300, tenant="red")
    quota(house, "red", nominal_milli=100, nominal_memory_bytes=20 * GIB)
    assert resize(house, "train", 200, 16).changed
    with pytest.raises(QuotaExceeded, match="holds 16384 of its maximum 20480 MiB"):
        resize(house, "train", 150, 24)


def test_a_job_grows_on_the_node_it_is_on_also_where_whole_nodes_are_owed_to_others(house: House) -> None:
    """A cell that somebody sits on is not one of those that are kept whole: the reason why growth asks for none."""
    running(house, "mine", 300)
    quota(house, "owner", others=[LimitIn(resource="node", nominal=1, lending=0)])
    snapshot = house.allocations.placer.seen()
    closed = Quotas(snapshot, Free(snapshot.cards)).closed("default")
    assert closed is None or not closed[list(snapshot.running[0].rows)].any()
    assert resize(house, "mine", 600).changed


def test_another_tenants_job_does_not_exist_and_a_colleagues_may_not_be_touched(house: House) -> None:
    for name in ("physics", "rivals"):
        house.tenancy.tenants.create(house.admin, name, None)
    ada, bob = house.member("ada", "physics"), house.member("bob", "physics")
    stranger, boss = house.member("eve", "rivals"), house.member("kim", "physics", Role.TENANT_ADMIN)
    job = running(house, "train", principal=ada)
    for name in ("train", job.id):
        with pytest.raises(NotFound):
            resize(house, name, 100, who=stranger)
        with pytest.raises(NotAllowed):
            resize(house, name, 100, who=bob)
    assert resize(house, "train", 100, who=boss).changed


def test_a_whole_card_has_no_fence_to_change(house: House) -> None:
    running(house, "train", 1000, None)
    with pytest.raises(Refused, match="has node-1:0 whole: no fence runs in it"):
        resize(house, "train", 500)


def test_a_share_may_grow_until_it_holds_everything(house: House) -> None:
    running(house, "train", 999, 140)
    assert resize(house, "train", 1000).changed


def test_best_effort_holds_no_compute_but_its_memory_can_change(house: House) -> None:
    running(house, "train", sharing="best-effort")
    with pytest.raises(Refused, match="best effort"):
        resize(house, "train", 500)
    resize(house, "train", gib=16)
    assert used(house)[0] == (0, 16 * GIB, 1)
    assert house.job("train").share == "0.30 GPU (best effort) + 16384 MiB"


def test_only_what_runs_can_be_resized(house: House) -> None:
    house.submit(1000, None, name="first")
    with pytest.raises(WrongState, match="is starting"):
        resize(house, "first", 500)
    house.submit(1000, None, count=2, name="waits")
    with pytest.raises(WrongState, match="waits and holds nothing yet"):
        resize(house, "waits", 500)
    house.allocations.stop("first", house.admin, None)
    running(house, "share")
    house.allocations.stop("share", house.admin, None)
    with pytest.raises(WrongState, match="being stopped"):
        resize(house, "share", 500)
    house.finish("share")
    with pytest.raises(WrongState, match="is stopped: only a running job"):
        resize(house, "share", 500)


def test_a_draining_card_takes_nothing_more_and_gives_back_all_the_same(house: House) -> None:
    running(house, "train")
    house.fleet.release(["node-1:0"], True, house.admin)
    with pytest.raises(Refused, match="node-1:0 is draining: a share on it can only shrink"):
        resize(house, "train", 500)
    assert resize(house, "train", 100, 4).changed


def test_what_shrinks_makes_room_for_what_waits(house: House) -> None:
    for name in ("a", "b"):
        running(house, name, 800)
    house.submit(500, name="waits")
    resize(house, "b", 300)
    house.allocations.placer.run_once()
    assert house.job("waits").state == "starting"


def test_the_answer_says_what_is_in_use_beyond_the_new_memory(house: House) -> None:
    running(house, "train")
    told = resize(house, "train", gib=2)
    assert "gets nothing more until" in told.note or "fence: none" in told.note
    house.report(work_of(house, "train"), "resized", fence="soft", gpu_memory_bytes=6 * GIB)
    answer = house.allocations.resized(told)
    assert (answer.applied, answer.used_bytes) == (True, 6 * GIB)
    assert answer.note == (
        "6144 MiB are in use, 4096 MiB more than it now has: what it holds stays, it gets nothing more until it has "
        "given that back"
    )


def test_the_books_count_each_size_for_its_own_seconds_and_close(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
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
    kept = [(r.start_s - start // NS, r.end_s - start // NS, r.gpu_milli, r.memory_mib) for r in rows(house, intervals)]
    assert kept == [(0, 10, 300, 8192), (10, 20, 700, 8192), (20, 30, 100, 4096)]
    report = house.metering.report(house.admin, start, now)
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
            (taken,) = connection.execute(sa.select(devices.c.used_milli).where(devices.c.idx == 0)).scalars()
        assert taken == milli + 500
    with pytest.raises(NoRoomNow):
        resize(house, "a", 501)


def test_what_a_running_job_uses_is_told_with_it_and_the_word_at_a_resize_at_once(house: House) -> None:
    running(house, "train", 500, 8)
    item = work_of(house, "train")
    for milliseconds in (1000, 1500):
        house.store.clock.now_ns()
        sample = JobSample(job=item.job, gpu_milliseconds=milliseconds, gpu_memory_bytes=2 * GIB)
        house.allocations.agents.reports("node-1", ReportsIn(jobs=[sample]))
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
    end = ReportIn(allocation=item.allocation, generation=item.generation, state="ended", exit_code=0)
    body = ReportsIn(reports=[end], jobs=[JobSample(job=item.job, gpu_milliseconds=777)])
    house.allocations.agents.reports("node-1", body)
    assert [row.gpu_milliseconds for row in rows(house, delivered)] == [777]
