"""Planned moves are checked again on the pool as it is now, and then all are made or none."""

from __future__ import annotations

import pytest

from gpupool.allocations.cache.migrations import read_migrations
from gpupool.allocations.migration.apply import apply_moves
from gpupool.base.errors import NotFound, WriteConflict, WrongState
from gpupool.store.database import WriteTransaction
from gpupool.wire.defrag import MoveIn, MovesIn, MovesOut
from tests.support.house import House
from tests.support.resizing import running

SECOND = "GPU-node-1-1"


def apply(house: House, *moves: MoveIn) -> MovesOut:
    return house.allocations.migrations.apply_moves(MovesIn(moves=list(moves)))


def count_holds(house: House) -> int:
    with house.store.read() as connection:
        return len(read_migrations(connection))


def test_apply_moves_holds_the_new_seats_and_asks_the_job_to_leave(house: House) -> None:
    job = running(house, "a", 500, 8, preemptible=True)
    assert apply(house, house.move_to("a", SECOND)).moving == [job.id]
    assert [(item.want, item.stop_reason) for item in house.work()] == [("stop", "moved")]
    assert count_holds(house) == 1
    with pytest.raises(WrongState, match="or leaves already"):
        apply(house, house.move_to("a", SECOND))


def test_apply_moves_of_a_job_that_is_not_preemptible_is_refused(house: House) -> None:
    running(house, "a", 500, 8)
    with pytest.raises(WrongState, match="it is not preemptible"):
        apply(house, house.move_to("a", SECOND))
    assert house.work()[0].want == "run"


@pytest.mark.parametrize(("job", "card"), [("j-none", SECOND), (None, "GPU-none")])
def test_apply_moves_of_an_unknown_job_or_card_is_not_found(
    house: House, job: str | None, card: str
) -> None:
    known = running(house, "a", 500, 8, preemptible=True).id
    with pytest.raises(NotFound, match=job or card):
        apply(house, MoveIn(job=job or known, cards=[card], generations=[1]))


def test_apply_moves_needs_as_many_cards_of_one_node_as_the_job_has(house: House) -> None:
    house.register(2, "node-2")
    house.allocations.placer.refresh_cache()
    running(house, "a", 1000, None, count=2, preemptible=True)
    for cards in (["GPU-node-2-0"], ["GPU-node-2-0"] * 2, ["GPU-node-2-0", SECOND]):
        with pytest.raises(WriteConflict, match="needs 2 different cards of one node, not"):
            apply(house, house.move_to("a", *cards))
    assert apply(house, house.move_to("a", "GPU-node-2-0", "GPU-node-2-1")).moving


def test_apply_moves_of_two_jobs_into_room_for_one_moves_neither(house: House) -> None:
    for name in ("a", "b"):
        running(house, name, 500, 8, preemptible=True)
    running(house, "beside", 400, 8)
    with pytest.raises(
        WriteConflict, match=r"does not fit on card GPU-node-1-1 any more: it needs"
    ):
        apply(house, house.move_to("a", SECOND), house.move_to("b", SECOND))
    assert count_holds(house) == 0
    assert {item.want for item in house.work()} == {"run"}
    assert apply(house, house.move_to("a", SECOND)).moving


def test_apply_moves_writes_its_note_in_the_transaction_of_the_moves(house: House) -> None:
    running(house, "a", 500, 8, preemptible=True)

    def fail(_write: WriteTransaction) -> None:
        raise ZeroDivisionError

    parts = house.allocations
    moves = MovesIn(moves=[house.move_to("a", SECOND)])
    with pytest.raises(ZeroDivisionError):
        apply_moves(house.store, parts.cache, parts.placer, moves, fail)
    assert count_holds(house) == 0
