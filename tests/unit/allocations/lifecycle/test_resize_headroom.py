"""Reservations and promises in a real ledger, before jobs that move or grow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.allocations.lifecycle.resize_headroom import JobResizeHeadroom
from gpupool.base.errors import BeyondQuota, NoRoomNow, WriteConflict, WrongState
from gpupool.base.units import GIB
from gpupool.scheduling.quota.queue_order import QuotaHeadroom
from gpupool.wire.defrag import MoveIn, MovesIn, RebalanceIn, RebalanceOut
from gpupool.wire.jobs import ResizeIn
from gpupool.wire.people import QuotaIn
from gpupool.wire.reservations import ReservationIn
from gpupool.wire.submissions import ShapeIn
from tests.support.house import House

HOUR = 3600 * 10**9


class Clocked(House):
    """A house whose time stands still until a test moves it."""

    def __init__(self, directory: Path, cards: int) -> None:
        super().__init__(directory, cards)
        self.now_ns = self.store.clock.now_ns()
        self.store.clock.now_ns = lambda: self.now_ns  # type: ignore[method-assign]
        self.tenancy.tenants.create(self.admin, "owner", None)


@pytest.fixture
def card(tmp_path: Path) -> Iterator[Clocked]:
    made = Clocked(tmp_path, 1)
    yield made
    made.close()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Clocked]:
    """Two cards: on the first two shares beside one that stays, on the second a small one."""
    made = Clocked(tmp_path, 2)
    run(made, "stays", 300)
    for name in ("x", "y"):
        run(made, name, 200, preemptible=True)
    run(made, "filler", 300)
    run(made, "small", 100)
    made.finish("filler")
    yield made
    made.close()


def run(house: House, name: str, milli: int, **more: object) -> None:
    house.submit(milli, 8, name=name, **more)
    item = next(one for one in house.work() if one.job == house.job(name).id)
    house.report(item, "running", started_ns=5)


def reserve(house: Clocked, milli: int, *, tenant: str = "owner") -> None:
    """From an hour from now on, for four."""
    start = house.now_ns + HOUR
    shape = ShapeIn(gpu_milli=milli, memory_bytes=64 * GIB)
    body = ReservationIn(
        name="demo", shape=shape, start_ns=start, end_ns=start + 4 * HOUR, tenant=tenant
    )
    house.allocations.reservations.create_reservation(body, house.admin)


def moves(found: RebalanceOut) -> MovesIn:
    return MovesIn(
        moves=[
            MoveIn(job=one.job, cards=one.cards, generations=one.generations) for one in found.moves
        ]
    )


def test_the_shares_lie_as_these_tests_need_them(house: Clocked) -> None:
    assert [house.job(name).device for name in ("stays", "x", "y", "small")] == ["node-1:0"] * 3 + [
        "node-1:1"
    ]
    assert len(house.allocations.migrations.plan_rebalance(RebalanceIn()).moves) == 1


def test_a_plan_leaves_a_reservations_card_alone_and_says_how_much_it_holds(house: Clocked) -> None:
    reserve(house, 800)
    house.now_ns += HOUR
    found = house.allocations.migrations.plan_rebalance(RebalanceIn())
    assert found.moves == []
    assert (found.reserved.cards, found.reserved.gpu_milli, found.reserved.memory_bytes) == (
        1,
        800,
        64 * GIB,
    )


def test_a_reservation_made_after_the_plan_refuses_the_move_with_the_numbers(
    house: Clocked,
) -> None:
    found = house.allocations.migrations.plan_rebalance(RebalanceIn())
    reserve(house, 800)
    with pytest.raises(WriteConflict) as refused:
        house.allocations.migrations.apply_moves(moves(found))
    message = refused.value.message
    assert (
        "does not fit on card GPU-node-1-1 any more: it needs 0.20 GPU (20 % compute) + 8192 MiB, "
        in message
    )
    assert (
        "0.90 GPU (90 % compute) + 135168 MiB are free; 0.80 GPU (80 % compute) + 65536 MiB of it is kept"
        in message
    )
    assert "for a reservation of another tenant from " in message
    assert message.endswith(" on, and the job has no known end")
    assert house.job(found.moves[0].name).state == "running"


@pytest.mark.parametrize(
    ("tenant", "whom"),
    [("owner", "a reservation of another tenant"), ("default", "reservation demo")],
)
def test_a_job_does_not_grow_into_what_is_reserved_and_is_told_the_numbers(
    house: Clocked, tenant: str, whom: str
) -> None:
    reserve(house, 700, tenant=tenant)
    house.now_ns += HOUR
    assert house.allocations.migrations.plan_rebalance(RebalanceIn()).reserved.cards == 1
    with pytest.raises(NoRoomNow) as refused:
        house.allocations.resizes.resize_job("small", ResizeIn(gpu_milli=500), house.admin)
    assert refused.value.message == (
        "node-1:1 has 0.20 GPU free where 0.40 more would be needed; job small holds 0.10 GPU (10 % compute) + "
        f"8192 MiB of it; 0.70 GPU (70 % compute) + 65536 MiB of it is kept for {whom}"
    )
    assert (
        refused.value.hint
        == "the most it could have now: gpupool resize small --gpu 0.3 --memory 77824MiB"
    )
    assert house.allocations.resizes.resize_job(
        "small", ResizeIn(gpu_milli=300), house.admin
    ).changed
    assert house.allocations.resizes.resize_job(
        "small", ResizeIn(gpu_milli=50), house.admin
    ).changed


def test_a_job_of_the_reservation_grows_into_it_and_no_other_does(card: Clocked) -> None:
    reserve(card, 700, tenant="default")
    card.now_ns += HOUR
    run(card, "mine", 100, reservation="demo")
    run(card, "other", 100)
    with pytest.raises(
        NoRoomNow, match=r"0\.20 GPU free .* 0\.60 GPU .* is kept for reservation demo\n"
    ):
        card.allocations.resizes.resize_job("other", ResizeIn(gpu_milli=400), card.admin)
    assert card.allocations.resizes.resize_job("mine", ResizeIn(gpu_milli=700), card.admin).changed


def test_a_job_that_ends_before_a_reservation_begins_may_grow_and_one_without_an_end_may_not(
    card: Clocked,
) -> None:
    run(card, "short", 100, max_seconds=600)
    run(card, "long", 100)
    reserve(card, 800)
    with pytest.raises(
        NoRoomNow,
        match=r"kept for a reservation of another tenant from .* and the job has no known",
    ):
        card.allocations.resizes.resize_job("long", ResizeIn(gpu_milli=300), card.admin)
    assert card.allocations.resizes.resize_job("short", ResizeIn(gpu_milli=900), card.admin).changed


def test_a_job_does_not_grow_into_a_promised_start(card: Clocked) -> None:
    run(card, "ends", 600, max_seconds=600)
    run(card, "grows", 100)
    card.submit(800, 8, name="head", priority="high", max_seconds=600)
    card.allocations.placer.run_cycle()
    assert card.job("head").state == "pending"
    with pytest.raises(
        NoRoomNow, match=r"0\.10 GPU free .* is kept for a claim of higher rank from "
    ):
        card.allocations.resizes.resize_job("grows", ResizeIn(gpu_milli=300), card.admin)
    assert card.allocations.resizes.resize_job("grows", ResizeIn(gpu_milli=200), card.admin).changed


def test_a_job_does_not_grow_into_the_quota_that_a_promised_start_will_need(card: Clocked) -> None:
    """The head waits for its tenant's quota, not for cards: what is left of that is for it alone
    until it starts."""
    card.tenancy.tenants.create(card.admin, "red", QuotaIn(nominal_milli=600, borrowing_milli=0))
    run(card, "ends", 200, tenant="red", max_seconds=600)
    run(card, "grows", 100, tenant="red")
    card.submit(400, 8, name="head", tenant="red", priority="high", max_seconds=600)
    card.allocations.placer.run_cycle()
    assert card.job("head").state == "pending"
    with pytest.raises(
        BeyondQuota,
        match="the quota of tenant red leaves is kept for a claim of higher rank from 20",
    ):
        card.allocations.resizes.resize_job("grows", ResizeIn(gpu_milli=201), card.admin)
    assert card.allocations.resizes.resize_job("grows", ResizeIn(gpu_milli=200), card.admin).changed
    assert card.allocations.resizes.resize_job("ends", ResizeIn(gpu_milli=300), card.admin).changed


def test_a_job_that_the_plan_does_not_see_is_not_judged_by_it(card: Clocked) -> None:
    run(card, "train", 100)
    beside = JobResizeHeadroom(card.allocations.cache.build_snapshot(), card.now_ns)
    with pytest.raises(WrongState, match="not all cards"):
        beside.find_quota_room("j-0000000000")
    with pytest.raises(WrongState):
        beside.explain_quota_shortage("j-0000000000", {})
    assert beside.find_quota_room(card.job("train").id) == QuotaHeadroom(None, None)
