"""Reservations in the ledger: made, kept, named by jobs, and ended."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from gpupool.allocations.cache import reservations
from gpupool.base.errors import (
    BadDuration,
    GpupoolError,
    NameTaken,
    NotFound,
    RequestRejection,
    StillInUse,
    TooManyCards,
    UnknownTenant,
)
from gpupool.base.units import format_instant
from gpupool.model.tenant import UserRole
from gpupool.tenancy.tables import tenants
from gpupool.wire.reservations import ReservationIn, ReservationOut
from gpupool.wire.submissions import ShapeIn
from tests.support.budget_house import BudgetHouse
from tests.support.house import House

NS = 10**9


HOUR = 3600 * NS


WHOLE = ShapeIn(gpu_milli=1000)


def reserve(
    house: House, name: str = "night", *, inside: int = 1, hours: int = 4, **more: Any
) -> ReservationOut:
    """So many whole cards, from some hours from now on."""
    start = house.store.clock.now_ns() + inside * HOUR
    body = ReservationIn(
        name=name, shape=WHOLE, start_ns=start, end_ns=start + hours * HOUR, **more
    )
    return house.allocations.reservations.create_reservation(body, house.admin)


def names(house: House, **which: Any) -> list[tuple[str, str]]:
    found = house.allocations.reservations.list_reservations(
        house.admin, everything=which.get("everything", False)
    )
    return [(one.name, one.state) for one in found]


def test_a_reservation_is_made_listed_and_ended(house: House) -> None:
    made = reserve(house)
    assert (made.state, made.tenant, made.share[:8]) == ("planned", "default", "1.00 GPU")
    assert names(house) == [("night", "planned")]
    assert (
        house.allocations.reservations.end_reservation("night", None, house.admin).state == "ended"
    )
    assert names(house) == []
    assert names(house, everything=True) == [("night", "ended")]
    with pytest.raises(NotFound):
        house.allocations.reservations.end_reservation("night", None, house.admin)


def test_its_cards_are_kept_from_whoever_would_still_be_there_when_it_begins(house: House) -> None:
    reserve(house, "now", replicas=2, hours=1)
    long = house.submit(1000, None, name="long", max_seconds=7200)
    short = house.submit(1000, None, name="short", max_seconds=600)
    mine = house.submit(1000, None, name="mine", max_seconds=7200, reservation="now")
    assert [one.state for one in (long, short, mine)] == ["pending", "starting", "starting"]
    assert "kept for reservation now" in long.reason


@pytest.mark.parametrize(
    ("seconds", "run"),
    [(7200, "this claim may run for 2:00:00"), (None, "this claim has no known end")],
)
def test_explain_names_a_reservation_of_the_own_tenant_with_what_helps(
    house: House, seconds: int | None, run: str
) -> None:
    made = reserve(house, "night", replicas=2, hours=1)
    house.submit(1000, None, name="waits", max_seconds=seconds)
    answer = house.allocations.jobs.explain_job("waits", house.admin)
    begins = format_instant(made.start_ns)
    assert (
        answer.sentence == f"what is free is kept for reservation night from {begins} on, and {run}"
    )
    assert answer.hints[0] == "with --max-time 59m it starts now"
    house.submit(1000, None, name="short", max_seconds=600)
    assert house.job("short").state == "starting"
    house.allocations.reservations.end_reservation("night", None, house.admin)
    house.allocations.placer.run_cycle()
    assert house.job("waits").state == "starting"


def test_explain_keeps_the_name_of_a_reservation_of_another_tenant(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "team", None)
    mate = house.member("mate", "team", UserRole.USER)
    made = reserve(house, "secret", replicas=2, hours=1)
    house.submit(1000, None, name="waits", max_seconds=7200, principal=mate)
    answer = house.allocations.jobs.explain_job("waits", mate)
    assert answer.sentence.startswith(
        f"what is free is kept for a reservation of another tenant from {format_instant(made.start_ns)} on"
    )
    assert "secret" not in str(answer)
    assert answer.hints[0] == "with --max-time 59m it starts now"


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


def test_two_reservations_at_once_do_not_get_the_same_cards(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = reservations.check_reservation
    refused = list[str]()

    def reserve_beside() -> None:
        try:
            reserve(house, "second", replicas=2)
        except RequestRejection as error:
            refused.append(error.message)

    other = threading.Thread(target=reserve_beside)

    def judge_while_the_other_asks(*args: Any) -> Any:
        found = judge(*args)
        if other.ident is None:
            other.start()
            # It ends within this time only where both are judged before either is written.
            other.join(0.3)
        return found

    monkeypatch.setattr(reservations, "check_reservation", judge_while_the_other_asks)
    reserve(house, "first", replicas=2)
    other.join()
    assert names(house) == [("first", "planned")]
    assert "collides with reservation first" in refused[0]


def test_a_tenant_that_is_deleted_meanwhile_gets_no_reservation(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = reservations.check_reservation
    house.tenancy.tenants.create(house.admin, "blue", None)

    def judge_before_the_deletion(*args: Any) -> Any:
        found = judge(*args)
        house.tenancy.tenants.delete(house.admin, "blue")
        return found

    monkeypatch.setattr(reservations, "check_reservation", judge_before_the_deletion)
    with pytest.raises(UnknownTenant):
        reserve(house, tenant="blue")
    assert names(house, everything=True) == []


def test_a_reservation_survives_a_server_that_starts_anew(house: House) -> None:
    reserve(house, every_seconds=86400)
    house.allocations.placer.load()
    (kept,) = house.allocations.cache.list_reservations()
    assert (kept.name, kept.every_ns, kept.replicas) == ("night", 86400 * NS, 1)


def test_explain_tells_the_start_where_the_holders_limit_does(house: House) -> None:
    house.submit(1000, None, name="holder", count=2, max_seconds=3600)
    house.submit(1000, None, name="next", max_seconds=60)
    house.allocations.placer.run_cycle()
    answer = house.allocations.jobs.explain_job("next", house.admin)
    assert answer.start_ns is not None
    assert 3560 < (answer.start_ns - house.store.clock.now_ns()) / NS <= 3660, (
        "with what the end of the holder takes"
    )
    assert answer.start_promised
    (row,) = house.allocations.quotas.list_queue(house.admin, 10)
    assert row.start_ns == answer.start_ns


def test_the_end_of_a_name_that_was_used_before_is_of_the_living_one(tmp_path: Path) -> None:
    house = BudgetHouse(tmp_path)
    reserve(house, inside=0, hours=1)
    house.pass_hours(2)
    with pytest.raises(NotFound, match="there is no reservation 'night' of default"):
        house.submit(name="late", reservation="night")
    second = reserve(house, inside=0)
    assert house.submit(name="inside", reservation="night").state == "starting"
    ended = house.allocations.reservations.end_reservation("night", None, house.admin)
    assert ended.id == second.id
    assert names(house) == []
    house.close()


def test_a_tenant_whose_repetitions_are_over_is_deleted(tmp_path: Path) -> None:
    house = BudgetHouse(tmp_path)
    # The last of two begins after 24 hours.
    until_ns = house.store.clock.now_ns() + 30 * HOUR
    house.tenancy.tenants.create(house.admin, "team", None)
    reserve(house, tenant="team", inside=0, hours=1, every_seconds=86400, until_ns=until_ns)
    house.pass_hours(24.5)
    with pytest.raises(StillInUse):
        house.tenancy.tenants.delete(house.admin, "team")
    house.pass_hours(1)
    house.tenancy.tenants.delete(house.admin, "team")
    house.close()


def test_a_tenant_with_a_reservation_is_not_deleted(tmp_path: Path) -> None:
    house = House(tmp_path)
    house.tenancy.tenants.create(house.admin, "team", None)
    reserve(house, tenant="team")
    with pytest.raises(StillInUse, match="1 reservation"):
        house.tenancy.tenants.delete(house.admin, "team")
    house.allocations.reservations.end_reservation("night", "team", house.admin)
    reserve(house, tenant="team")
    # As before this was refused: the tenant is gone, and its reservation keeps cards.
    with house.store.write() as write:
        gone = tenants.update().where(tenants.c.name == "team")
        write.execute(gone.values(retired_ns=write.now_ns))
    ended = house.allocations.reservations.end_reservation("night", "team", house.admin)
    assert ended.state == "ended"
    house.close()
