"""Defragmentation of a real ledger: seats are kept first, jobs leave, and each starts where it was
to go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from gpupool.allocations.cache.migrations import read_migrations
from gpupool.base.errors import (
    BadInput,
    NoPermission,
    NoRoomNow,
    NotFound,
    StaleGeneration,
    WriteConflict,
    WrongState,
)
from gpupool.wire.defrag import DefragIn, DefragOut, MoveIn, MovesIn, MovesOut
from gpupool.wire.fleet import WorkOut
from gpupool.wire.jobs import ResizeIn
from tests.support.house import House

GREEDY = DefragIn(seconds=0)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Two nodes of two cards, each with one whole card in use by a job that may be moved."""
    made = House(tmp_path)
    made.register(2, "node-2")
    made.allocations.placer.refresh_cache()
    for name in ("a", "b", "c", "d"):
        made.submit(1000, None, name=name, preemptible=True)
        report(made, name, "running", started_ns=5)
    by_node = {
        node: [name for name in "abcd" if made.job(name).node == node]
        for node in ("node-1", "node-2")
    }
    for names in by_node.values():
        report(made, names[0], "ended", exit_code=0)
    yield made
    made.close()


def item_of(house: House, name: str) -> tuple[WorkOut, str]:
    job = house.job(name)
    assert job.node is not None
    return next(one for one in house.work(node=job.node) if one.job == job.id), job.node


def report(house: House, name: str, state: str, **more: object) -> None:
    item, node = item_of(house, name)
    house.report(item, state, node, **more)


def live(house: House) -> list[str]:
    return [name for name in "abcd" if house.job(name).state == "running"]


def moves(found: DefragOut) -> MovesIn:
    return MovesIn(
        moves=[
            MoveIn(job=one.job, cards=one.cards, generations=one.generations) for one in found.moves
        ]
    )


def apply(house: House) -> tuple[DefragOut, MovesOut]:
    found = house.allocations.migrations.plan_defrag(GREEDY)
    return found, house.allocations.migrations.apply_moves(moves(found))


def test_a_plan_says_what_moves_and_what_that_brings_and_moves_nothing(house: House) -> None:
    found = house.allocations.migrations.plan_defrag(GREEDY)
    assert (found.whole_nodes, found.whole_cards, found.movable, found.by) == (
        (0, 1),
        (2, 2),
        2,
        "greedy",
    )
    (move,) = found.moves
    assert move.name in live(house)
    assert {move.from_node, move.node} == {"node-1", "node-2"}
    assert len(live(house)) == 2


def test_a_moved_job_leaves_waits_again_and_starts_where_its_seats_were_kept(house: House) -> None:
    found, told = apply(house)
    (move,) = found.moves
    assert told.moving == [move.job]
    item, node = item_of(house, move.name)
    assert (item.want, item.stop_reason, node) == ("stop", "moved", move.from_node)
    house.report(item, "ended", node, reason="stopped", signal=15)
    assert (house.job(move.name).state, house.job(move.name).reason) == (
        "pending",
        "moved to other cards",
    )
    house.allocations.placer.run_cycle()
    after = house.job(move.name)
    assert (after.state, after.node, [seat.uuid for seat in after.seats]) == (
        "starting",
        move.node,
        move.cards,
    )


def test_nobody_else_gets_the_kept_seats_not_even_after_the_mirror_was_read_anew(
    house: House,
) -> None:
    found, _ = apply(house)
    (move,) = found.moves
    house.allocations.placer.load()
    other = house.submit(1000, None, name="other")
    assert other.node == move.from_node, "the only card that is neither used nor kept"
    report(house, move.name, "ended", reason="stopped", signal=15)
    late = house.submit(1000, None, name="late")
    house.allocations.placer.run_cycle()
    assert house.job(move.name).node == move.node
    assert house.job(late.name).node == move.from_node


def test_a_job_that_ends_by_itself_meanwhile_keeps_nothing(house: House) -> None:
    found, _ = apply(house)
    (move,) = found.moves
    house.allocations.jobs.stop_job(move.name, house.admin, None)
    report(house, move.name, "ended", reason="stopped", signal=15)
    assert house.job(move.name).state == "stopped"
    for name in ("x", "y", "z"):
        assert house.submit(1000, None, name=name).state == "starting"


def test_the_same_moves_twice_are_refused_the_second_time(house: House) -> None:
    found, _ = apply(house)
    with pytest.raises(WrongState):
        house.allocations.migrations.apply_moves(moves(found))


def test_a_plan_that_the_pool_has_outlived_moves_nothing(house: House) -> None:
    found = house.allocations.migrations.plan_defrag(GREEDY)
    (move,) = found.moves
    house.submit(1000, None, name="quick", labels={})
    house.submit(1000, None, name="quicker", labels={})
    with pytest.raises(WriteConflict):
        house.allocations.migrations.apply_moves(moves(found))
    assert move.name in live(house)
    with pytest.raises(NotFound):
        house.allocations.migrations.apply_moves(
            MovesIn(moves=[MoveIn(job="j-none", cards=move.cards, generations=[1])])
        )
    with pytest.raises(NotFound):
        house.allocations.migrations.apply_moves(
            MovesIn(moves=[MoveIn(job=move.job, cards=["GPU-none"], generations=[1])])
        )


def change_row(house: House, card: str) -> None:
    """Somebody else writes to the card, and nobody here has heard of it."""
    with house.store.write() as write:
        write.execute(
            sa.text("UPDATE devices SET generation = generation + 1 WHERE uuid = :card"),
            {"card": card},
        )


def test_a_plan_is_refused_once_a_card_that_it_names_has_changed_though_the_job_would_still_fit(
    house: House,
) -> None:
    found = house.allocations.migrations.plan_defrag(GREEDY)
    (move,) = found.moves
    passing = house.submit(1000, None, name="passing")
    while [seat.uuid for seat in house.job(passing.name).seats] != move.cards:
        passing = house.submit(1000, None, name=f"{passing.name}-more")
    report(house, passing.name, "ended", exit_code=0)
    with pytest.raises(StaleGeneration) as refused:
        house.allocations.migrations.apply_moves(moves(found))
    (was,) = move.generations
    said = f"card {move.cards[0]} has changed since the plan was made: generation {was} was read, it is {was + 2} now"
    assert refused.value.message == said
    assert move.name in live(house)


def test_a_write_that_nobody_here_has_heard_of_refuses_the_moves_and_the_next_plan_knows_of_it(
    house: House,
) -> None:
    found = house.allocations.migrations.plan_defrag(GREEDY)
    (move,) = found.moves
    change_row(house, move.cards[0])
    with pytest.raises(StaleGeneration, match="changed since the plan was made"):
        house.allocations.migrations.apply_moves(moves(found))
    assert sorted(live(house)) == sorted(
        name for name in live(house) if item_of(house, name)[0].want == "run"
    )
    with house.store.read() as connection:
        assert read_migrations(connection) == {}
    again, told = apply(house)
    (now,) = again.moves  # of two that cost the same it may be the other one
    assert (
        now.generations == [move.generations[0] + 1]
        if now.cards == move.cards
        else now.job != move.job
    )
    assert told.moving == [now.job]


def test_moves_that_were_made_make_every_other_plan_for_those_cards_stale(house: House) -> None:
    found, _ = apply(house)
    (move,) = found.moves
    (stays,) = (name for name in live(house) if name != move.name)
    late = MoveIn(job=house.job(stays).id, cards=move.cards, generations=move.generations)
    with pytest.raises(StaleGeneration):
        house.allocations.migrations.apply_moves(MovesIn(moves=[late]))


def test_as_many_generations_are_named_as_cards(house: House) -> None:
    (move,) = house.allocations.migrations.plan_defrag(GREEDY).moves
    with pytest.raises(BadInput, match="1 cards are named with 2 generations"):
        house.allocations.migrations.apply_moves(
            MovesIn(moves=[MoveIn(job=move.job, cards=move.cards, generations=[1, 1])])
        )


def test_a_second_plan_counts_on_what_is_kept(house: House) -> None:
    apply(house)
    assert house.allocations.migrations.plan_defrag(GREEDY).moves == []


def test_a_job_that_moves_waits_behind_nobody_of_its_class_who_finds_no_room(house: House) -> None:
    found, _ = apply(house)
    (move,) = found.moves
    (stays,) = (name for name in live(house) if name != move.name)
    house.submit(1000, None, name="other")
    report(house, move.name, "ended", reason="stopped", signal=15)
    report(house, stays, "lost")
    house.submit(1000, None, name="urgent", priority="high", array=2)
    assert house.job(stays).state == "pending"
    assert (house.job(move.name).state, house.job(move.name).node) == ("starting", move.node)


def test_a_job_that_saved_its_work_loses_only_what_came_after_and_moves_first(house: House) -> None:
    with house.store.write() as write:
        write.execute(sa.text("UPDATE allocations SET granted_ns = granted_ns - 3600000000000"))
    house.allocations.placer.load()
    (before,) = house.allocations.migrations.plan_defrag(GREEDY).moves
    assert before.lost_seconds == 3600
    (other,) = (name for name in live(house) if name != before.name)
    assert house.allocations.jobs.record_checkpoint(other, house.admin).saved_ns is not None
    (after,) = house.allocations.migrations.plan_defrag(GREEDY).moves
    assert (after.name, after.lost_seconds) == (other, 0)
    house.allocations.placer.load()
    assert house.allocations.migrations.plan_defrag(GREEDY).moves == [after], "it is remembered"


def test_only_what_runs_and_is_ones_own_can_say_that_it_saved(house: House) -> None:
    house.submit(1000, None, name="e", preemptible=True)
    with pytest.raises(WrongState):
        house.allocations.jobs.record_checkpoint("e", house.admin)
    stranger = house.member("eve", "default")
    with pytest.raises((NotFound, NoPermission)):
        house.allocations.jobs.record_checkpoint(live(house)[0], stranger)


def test_a_job_does_not_grow_into_seats_that_are_kept_for_another(tmp_path: Path) -> None:
    house = House(tmp_path)
    for name, milli in (("grows", 300), ("filler", 700), ("moves", 500)):
        house.submit(milli, 8, name=name, preemptible=True)
        report(house, name, "running", started_ns=5)
    report(house, "filler", "ended", exit_code=0)
    (seat,) = house.job("grows").seats
    house.allocations.migrations.apply_moves(MovesIn(moves=[house.move_to("moves", seat.uuid)]))
    with pytest.raises(NoRoomNow, match=r"0\.20 GPU free"):
        house.allocations.resizes.resize_job("grows", ResizeIn(gpu_milli=600), house.admin)
    assert house.allocations.resizes.resize_job(
        "grows", ResizeIn(gpu_milli=500), house.admin
    ).changed
    house.close()
