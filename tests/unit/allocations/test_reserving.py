"""Reservations in the ledger, the queue as it is shown, and what the pool learns from its past."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.allocations.learnt import Learnt, coarse
from gpupool.base.errors import BadDuration, GpupoolError, NameTaken, NotFound, TooManyCards
from gpupool.base.units import format_instant
from gpupool.model.claim import Shape
from gpupool.model.tenant import Role
from gpupool.scheduling.knowledge import ENDING, FILLING, FIRST
from gpupool.wire.jobs import ShapeIn
from gpupool.wire.reservations import ReservationIn, ReservationOut
from tests.support.house import House

NS = 10**9
HOUR = 3600 * NS
WHOLE = ShapeIn(gpu_milli=1000)


def reserve(house: House, name: str = "night", *, inside: int = 1, hours: int = 4, **more: Any) -> ReservationOut:
    """So many whole cards, from some hours from now on."""
    start = house.store.clock.now_ns() + inside * HOUR
    body = ReservationIn(name=name, shape=WHOLE, start_ns=start, end_ns=start + hours * HOUR, **more)
    return house.allocations.reserve(body, house.admin)


def names(house: House, **which: Any) -> list[tuple[str, str]]:
    found = house.allocations.list_reservations(house.admin, everything=which.get("everything", False))
    return [(one.name, one.state) for one in found]


def test_a_reservation_is_made_listed_and_ended(house: House) -> None:
    made = reserve(house)
    assert (made.state, made.tenant, made.share[:8]) == ("planned", "default", "1.00 GPU")
    assert names(house) == [("night", "planned")]
    assert house.allocations.end_reservation("night", None, house.admin).state == "ended"
    assert names(house) == []
    assert names(house, everything=True) == [("night", "ended")]
    with pytest.raises(NotFound):
        house.allocations.end_reservation("night", None, house.admin)


def test_its_cards_are_kept_from_whoever_would_still_be_there_when_it_begins(house: House) -> None:
    reserve(house, "now", replicas=2, hours=1)
    long = house.submit(1000, None, name="long", max_seconds=7200)
    short = house.submit(1000, None, name="short", max_seconds=600)
    mine = house.submit(1000, None, name="mine", max_seconds=7200, reservation="now")
    assert [one.state for one in (long, short, mine)] == ["pending", "starting", "starting"]
    assert "kept for reservation now" in long.reason


@pytest.mark.parametrize(
    ("seconds", "run"), [(7200, "this claim may run for 2:00:00"), (None, "this claim has no known end")]
)
def test_explain_names_a_reservation_of_the_own_tenant_with_what_helps(
    house: House, seconds: int | None, run: str
) -> None:
    made = reserve(house, "night", replicas=2, hours=1)
    house.submit(1000, None, name="waits", max_seconds=seconds)
    answer = house.allocations.explain("waits", house.admin)
    begins = format_instant(made.start_ns)
    assert answer.sentence == f"what is free is kept for reservation night from {begins} on, and {run}"
    assert answer.hints[0] == "a --max-time that ends before then lets it start now"
    house.submit(1000, None, name="short", max_seconds=600)
    assert house.job("short").state == "starting"
    house.allocations.end_reservation("night", None, house.admin)
    house.allocations.placer.run_once()
    assert house.job("waits").state == "starting"


def test_explain_keeps_the_name_of_a_reservation_of_another_tenant(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "team", None)
    mate = house.member("mate", "team", Role.USER)
    made = reserve(house, "secret", replicas=2, hours=1)
    house.submit(1000, None, name="waits", max_seconds=7200, principal=mate)
    answer = house.allocations.explain("waits", mate)
    assert answer.sentence.startswith(
        f"what is free is kept for a reservation of another tenant from {format_instant(made.start_ns)} on"
    )
    assert "secret" not in str(answer)
    assert answer.hints[0] == "a --max-time that ends before then lets it start now"


def test_jobs_name_a_reservation_of_their_tenant_or_are_refused(house: House) -> None:
    with pytest.raises(NotFound, match="there is no reservation 'nights' of default"):
        house.submit(name="a", reservation="nights")
    reserve(house)
    house.submit(name="a", reservation="night")
    assert house.job("a").reservation == "night"


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"inside": -1}, BadDuration, "is in the past"),
        ({"hours": -1}, BadDuration, "is not after the start"),
        ({"every_seconds": 3600}, BadDuration, "it would meet itself"),
        ({"replicas": 3}, TooManyCards, "the whole pool, with nothing running, has room for 2"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_numbers(
    house: House, more: dict[str, Any], error: type[GpupoolError], message: str
) -> None:
    with pytest.raises(error, match=message):
        reserve(house, **more)
    assert names(house) == []


def test_two_that_collide_and_two_of_one_name_are_refused(house: House) -> None:
    reserve(house, replicas=2)
    with pytest.raises(GpupoolError, match="collides with reservation night"):
        reserve(house, "other", inside=2)
    reserve(house, "other", inside=6)
    with pytest.raises(NameTaken):
        reserve(house, "other", inside=12)


def test_a_reservation_survives_a_server_that_starts_anew(house: House) -> None:
    reserve(house, every_seconds=86400)
    house.allocations.placer.load()
    (kept,) = house.allocations.mirror.reservations()
    assert (kept.name, kept.every_ns, kept.replicas) == ("night", 86400 * NS, 1)


# The queue ------------------------------------------------------------------------------------------------


def test_the_queue_is_shown_in_the_order_of_its_turns(house: House) -> None:
    house.submit(1000, None, name="holder", count=2)
    house.submit(1000, None, name="late")
    house.submit(1000, None, name="urgent", priority="high")
    house.submit(1000, None, name="many", array=3, priority="low")
    house.allocations.placer.run_once()
    rows = house.allocations.queue(house.admin, 10)
    assert [(row.place, row.job, row.count) for row in rows] == [
        (1, "urgent", 1), (2, "late", 1), (3, "many.0", 1), (4, "many.1", 1), (5, "many.2", 1),
    ]  # fmt: skip
    assert rows[0].reason == "not a whole card free"
    assert rows[0].waited_seconds is not None


def test_of_other_tenants_only_the_number_of_jobs_is_told(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "team", None)
    house.allocations.placer.load()
    mate = house.member("mate", "team", Role.USER)
    house.submit(1000, None, name="holder", count=2)
    house.submit(1000, None, name="theirs", array=3)
    house.submit(1000, None, name="mine", principal=mate, priority="low")
    rows = house.allocations.queue(mate, 10)
    assert [(row.place, row.count, row.job, row.tenant) for row in rows] == [
        (1, 3, None, None), (4, 1, "mine", "team"),
    ]  # fmt: skip


def test_explain_tells_the_start_where_the_holders_limit_does(house: House) -> None:
    house.submit(1000, None, name="holder", count=2, max_seconds=3600)
    house.submit(1000, None, name="next", max_seconds=60)
    house.allocations.placer.run_once()
    answer = house.allocations.explain("next", house.admin)
    assert answer.start_ns is not None
    assert 3560 < (answer.start_ns - house.store.clock.now_ns()) / NS <= 3660, "with what the end of the holder takes"
    assert answer.start_promised
    (row,) = house.allocations.queue(house.admin, 10)
    assert row.start_ns == answer.start_ns


# What is learnt -------------------------------------------------------------------------------------------

HALF, EIGHTH, SHARE = Shape(500), Shape(125), Shape(300, 8 << 30)


def test_what_was_asked_for_is_expected_and_fades(house: House) -> None:
    for _ in range(FIRST - 1):
        house.submit(200, 4, name=None)
    assert house.allocations.mirror.snapshot().expected.shapes == ()
    house.submit(200, 4, name=None)
    expected = house.allocations.mirror.snapshot().expected
    assert [shape.gpu_milli for shape in expected.shapes] == [200]
    assert expected.counts[0] > FIRST * 0.99


def test_a_pool_that_starts_again_expects_the_same_as_before(house: House) -> None:
    for number in range(3 * FIRST):
        house.submit(200 if number % 3 else 1000, 4 if number % 3 else None, name=f"j{number}")
    for item in house.work():
        house.finish(item.job_name)
    before = house.allocations.mirror.snapshot().expected
    house.restart()
    after = house.allocations.mirror.snapshot().expected
    assert (after.shapes, after.returned_pct) == (before.shapes, before.returned_pct)
    assert sum(after.counts) > 3 * FIRST * 0.95


def test_a_pool_notices_that_claims_end_also_after_a_restart(house: House) -> None:
    def returned() -> int:
        return house.allocations.mirror.snapshot().expected.returned_pct

    for number in range(FIRST):
        house.submit(1000, None, name=f"keeps{number}")
    assert returned() == FILLING, "whatever waits or runs, nothing has come back"
    while house.work():
        for item in house.work():
            house.finish(item.job_name)
        house.allocations.placer.run_once()
    assert returned() == ENDING
    house.restart()
    assert returned() == ENDING


def test_what_no_note_told_of_is_learnt_at_the_next_look_at_the_ledger(house: House) -> None:
    for number in range(FIRST):
        house.submit(1000, None, name=f"j{number}")
    mirror, learnt = house.allocations.mirror, Learnt()
    held = dict(mirror._held)
    learnt.set_capacity(1000 * len(mirror.snapshot().cards))
    for _ in range(FIRST):
        learnt.claimed(Shape(1000), 1)
    learnt.compare({}, held)
    assert (len(held) > 0, learnt.expected.returned_pct) == (True, FILLING)
    learnt.compare(held, held)
    assert learnt.expected.returned_pct == FILLING
    learnt.compare(held, {})
    assert learnt.expected.returned_pct == ENDING


def test_a_second_look_at_the_ledger_teaches_nothing_that_is_known(house: House) -> None:
    for number in range(FIRST):
        house.submit(1000, None, name=f"j{number}")
    for item in house.work():
        house.finish(item.job_name)
    mirror = house.allocations.mirror
    before = mirror._learnt._knowledge.returned_pct
    with house.store.read() as connection:
        mirror.load(connection, house.store.clock.now_ns())
    assert mirror._learnt._knowledge.returned_pct == before > 0


def test_jobs_without_a_limit_are_expected_to_run_as_long_as_before(house: House) -> None:
    learnt = Learnt()
    for _ in range(3):
        learnt.ran("default", "train", HALF, 1000)
    assert learnt.seconds("default", "train", HALF, None) == coarse(1000) == 1024
    assert learnt.seconds("default", "train", HALF, 60) == 60
    assert learnt.seconds("default", "other", EIGHTH, None) is None
    for _ in range(FIRST):
        house.submit(name="train")
        item = house.work()[0]
        house.report(item, "running", started_ns=5)
        house.finish("train")
    assert house.allocations.mirror.seconds("default", "train", SHARE, None) == coarse(60)
    anew = Learnt()
    with house.store.read() as connection:
        anew.load(connection, house.store.clock.now_ns())
    assert anew.seconds("default", "train", SHARE, None) == coarse(60)
    assert anew.expected.shapes == (SHARE,)
