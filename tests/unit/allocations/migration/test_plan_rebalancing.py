"""Rebalancing of a real ledger: load is spread over the cards in use, and each share starts where
it was to go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.wire.defrag import MoveIn, MovesIn, RebalanceIn, RebalanceOut
from tests.support.house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Three cards: one with three best-effort shares beside a held one, one with a small share, one
    free."""
    made = House(tmp_path, cards=3)
    made.submit(600, 70, name="held")
    made.submit(500, 71, name="small")
    for name in ("x", "y", "z"):
        made.submit(500, 8, name=name, sharing="best-effort", preemptible=True)
    for item in made.work():
        made.report(item, "running", started_ns=5)
    yield made
    made.close()


def apply(house: House, found: RebalanceOut) -> list[str]:
    asked = [
        MoveIn(job=one.job, cards=one.cards, generations=one.generations) for one in found.moves
    ]
    return house.allocations.migrations.apply_moves(MovesIn(moves=asked)).moving


def test_a_plan_says_what_moves_and_how_even_the_load_is_then_and_moves_nothing(
    house: House,
) -> None:
    found = house.allocations.migrations.plan_rebalance(RebalanceIn())
    assert [(move.from_devices, move.devices) for move in found.moves] == [
        (["node-1:0"], ["node-1:1"])
    ] * 2
    assert (found.before.cards, found.before.highest_milli, found.before.mean_milli) == (
        2,
        2100,
        1300,
    )
    assert (found.after.cards, found.after.highest_milli, found.after.mean_milli) == (2, 1500, 1300)
    assert (found.before.jain, found.after.jain) == (0.7253, 0.9769)
    assert found.movable == 3
    assert [house.job(name).device for name in "xyz"] == ["node-1:0"] * 3


def test_moved_shares_leave_wait_again_and_start_where_their_seats_were_kept(house: House) -> None:
    found = house.allocations.migrations.plan_rebalance(RebalanceIn(max_moves=1))
    (move,) = found.moves
    assert apply(house, found) == [move.job]
    item = next(one for one in house.work() if one.job == move.job)
    assert (item.want, item.stop_reason) == ("stop", "moved")
    house.report(item, "ended", reason="stopped", signal=15)
    house.allocations.placer.run_cycle()
    after = house.job(move.name)
    assert (after.state, after.device, [seat.uuid for seat in after.seats]) == (
        "starting",
        "node-1:1",
        move.cards,
    )


def test_a_plan_made_before_the_last_is_carried_out_counts_on_it(house: House) -> None:
    first = house.allocations.migrations.plan_rebalance(RebalanceIn())
    apply(house, first)
    second = house.allocations.migrations.plan_rebalance(RebalanceIn())
    assert (second.moves, second.before) == ([], first.after)


def test_free_cards_are_used_when_asked_for(house: House) -> None:
    found = house.allocations.migrations.plan_rebalance(RebalanceIn(use_free_cards=True))
    assert ["node-1:2"] in [move.devices for move in found.moves]
    assert (found.before.cards, found.after.cards) == (2, 3)
    assert apply(house, found) == [move.job for move in found.moves]
