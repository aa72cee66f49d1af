"""Seats that jobs hold, and seats that are held for jobs that migrate."""

from __future__ import annotations

from gpupool.allocations.cache.held_seats import HeldSeats
from gpupool.allocations.cache.live_cards import LiveCards
from gpupool.allocations.ledger.running_jobs import SeatHolder
from gpupool.base.units import GIB
from gpupool.model.allocation import Seat
from gpupool.model.claim import Shape
from gpupool.scheduling import CardStatus
from tests.support.scheduling_builders import cards

HALF = Shape(500, 8 * GIB)
NAMES = ("node-1/0", "node-1/1")


def live_cards(*known: str) -> LiveCards:
    """Two cards, of which the second is not well; only `known` ones have a row."""
    found = LiveCards()
    found.columns = cards("1x2xH200", status={NAMES[1]: CardStatus.UNHEALTHY})
    found.index = {name: NAMES.index(name) for name in known}
    return found


def holder(job: str, card: str, *, preemptible: bool = False, requeue: bool = False) -> SeatHolder:
    seats = (Seat(card, 500, 8 * GIB),)
    return SeatHolder(
        job, "nlp", 0, seats, HALF, 5, None, preemptible, "", None, job, requeue=requeue
    )


def make_held_seats(known: LiveCards, *holders: SeatHolder) -> HeldSeats:
    made = HeldSeats(known, lambda _holder: None, lambda job: job)
    made.record_holders(holders)
    return made


def test_a_holder_with_an_absent_card_runs_again_when_the_card_returns() -> None:
    known = live_cards(*NAMES)
    held = make_held_seats(known, holder("a", NAMES[0]), holder("b", NAMES[1]))
    known.index = {NAMES[0]: 0}
    held.rebuild_running_jobs()
    assert [job.job for job in held.get_running_jobs()] == ["a"]
    assert set(held.holders) == {"a", "b"}
    known.index = {name: row for row, name in enumerate(NAMES)}
    held.rebuild_running_jobs()
    assert {job.job: job.rows for job in held.get_running_jobs()} == {"a": (0,), "b": (1,)}


def test_mark_leaving_keeps_the_first_beneficiary_and_skips_strangers() -> None:
    held = make_held_seats(live_cards(*NAMES), holder("a", NAMES[0], preemptible=True))
    (first,) = held.mark_leaving(["a", "stranger"], {"a": "urgent"})
    (again,) = held.mark_leaving(["a"], {})
    assert (first.leaving_for, again.leaving_for, again.leaving) == ("urgent", "urgent", True)
    (running,) = held.get_running_jobs()
    assert (running.beneficiary, running.preemptible) == ("urgent", False)


def test_a_hold_on_an_absent_card_is_kept_but_in_no_snapshot() -> None:
    known = live_cards(NAMES[0])
    held = make_held_seats(known, holder("a", NAMES[0]))
    held.record_migrations({"a": (Seat(NAMES[1], 500, 8 * GIB),)})
    assert held.build_migration_holds(lambda _job: None) == []
    known.index = {name: row for row, name in enumerate(NAMES)}
    (hold,) = held.build_migration_holds(lambda _job: None)
    assert (hold.job, hold.shape, hold.rows, hold.sizes) == ("a", HALF, (1,), (8 * GIB,))
    held.drop_migration("a")
    assert held.build_migration_holds(lambda _job: None) == []


def test_a_migrating_job_without_seats_has_the_shape_in_which_it_waits() -> None:
    held = make_held_seats(live_cards(*NAMES))
    held.load_migrations({"waits": (Seat(NAMES[0], 500, GIB),), "ended": (Seat(NAMES[0], 1, 1),)})
    (hold,) = held.build_migration_holds({"waits": HALF}.get)
    assert (hold.job, hold.shape) == ("waits", HALF)


def test_only_jobs_that_may_start_again_are_recovered_from_a_bad_card() -> None:
    held = make_held_seats(
        live_cards(*NAMES),
        holder("well", NAMES[0], requeue=True),
        holder("firm", NAMES[1]),
        holder("again", NAMES[1], requeue=True),
        holder("soft", NAMES[1], preemptible=True),
    )
    assert held.list_jobs_to_recover() == ["again", "soft"]
    held.mark_leaving(["again"], {})
    assert held.list_jobs_to_recover() == ["soft"]
