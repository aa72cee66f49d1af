"""A large gang is written and stopped in parts: counted in rows, and whole or gone after a kill at
any step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import pytest
import sqlalchemy as sa

from gpupool.allocations.store.tables import claims, gangs, jobs
from gpupool.base.errors import NameTaken, StoreBusy, WrongState
from gpupool.store.tables import events, idempotency
from gpupool.wire.submissions import GroupIn, RoleIn
from tests.support.house import House
from tests.support.keyed import with_a_key
from tests.support.killed import killed_at
from tests.support.written_rows import written_rows

PART = 5
ROWS_A_MEMBER = 6
ROWS_BESIDE = 8


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("ledger.gang_lifecycle", "submission.gang_parts"):
        monkeypatch.setattr(f"gpupool.allocations.{module}.MEMBERS_AT_ONCE", PART)


def submit(house: House, members: int = 23, **options: object) -> None:
    parts = [RoleIn(name="head", count=1), RoleIn(name="worker", count=members - 1)]
    house.submit(10, None, name="train", gang=GroupIn(name="all", parts=parts), **options)


def stuck(house: House) -> None:
    """Every card is taken."""
    house.submit(1000, None, name="holder", count=2)


def states(house: House) -> dict[str, int]:
    query = (
        sa.select(jobs.c.state, sa.func.count())
        .where(jobs.c.gang_id.is_not(None))
        .group_by(jobs.c.state)
    )
    with house.store.read() as connection:
        return {row[0]: row[1] for row in connection.execute(query)}


def counted(house: House, *tables: sa.Table) -> list[int]:
    with house.store.read() as connection:
        return [
            connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in tables
        ]


def test_a_gang_is_written_in_transactions_of_a_bounded_size(house: House) -> None:
    stuck(house)
    with written_rows(house.store.engine) as written:
        submit(house)
    assert max(written) <= PART + ROWS_BESIDE
    assert states(house) == {"pending": 23}
    assert house.allocations.cache.count_waiting() == 23


def test_a_gang_is_stopped_in_transactions_of_a_bounded_size(house: House) -> None:
    stuck(house)
    submit(house)
    with written_rows(house.store.engine) as written:
        stopped = house.allocations.jobs.stop_job("train", house.admin, 0)
    assert max(written) <= PART * ROWS_A_MEMBER + ROWS_BESIDE
    assert {job.state for job in stopped} == {"stopped"}
    assert states(house) == {"stopped": 23}
    assert house.allocations.cache.count_waiting() == 0


def test_a_gang_of_many_roles_is_written_in_transactions_of_a_bounded_size(house: House) -> None:
    stuck(house)
    roles = [RoleIn(name=f"r{n}", count=1) for n in range(12)]
    with written_rows(house.store.engine) as written:
        house.submit(10, None, name="train", gang=GroupIn(name="all", parts=roles))
    assert max(written) <= 2 * PART + ROWS_BESIDE


def test_a_submission_killed_at_any_step_leaves_all_of_the_gang_or_nothing(house: House) -> None:
    stuck(house)
    before = counted(house, jobs, claims, gangs, events)
    for number in count(1):
        with killed_at(house, number), with_a_key(house):
            submit(house)
        if counted(house, idempotency) == [1]:
            break
        assert counted(house, jobs, claims, gangs, events) == before
        assert house.allocations.cache.count_waiting() == 0
    assert number == 2 * 5  # the second step of the last of its transactions
    assert states(house) == {"pending": 23}
    assert house.allocations.cache.count_waiting() == 23


def test_a_submission_that_fails_in_the_middle_leaves_nothing_and_its_name(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck(house)
    before, seen = counted(house, jobs, claims, gangs, events), count(1)

    def busy(step: str, _subjects: object) -> None:
        if step == "before-commit" and next(seen) == 3:
            raise StoreBusy("another change to the pool took too long")

    monkeypatch.setattr(house.store, "_fault", busy)
    with pytest.raises(StoreBusy):
        submit(house)
    assert counted(house, jobs, claims, gangs, events) == before
    submit(house)
    assert states(house) == {"pending": 23}
    with pytest.raises(NameTaken):
        submit(house)


def test_a_gang_that_is_being_written_is_not_placed_and_is_not_removed_by_a_look_for_leftovers(
    house: House,
) -> None:
    seen = list[tuple[int, int]]()

    def look(step: str, _subjects: object) -> None:
        if step == "after-commit":
            house.store._fault = lambda _step, _subjects: None
            seen.append((house.allocations.cache.count_waiting(), sum(states(house).values())))
            house.store._fault = look

    house.store._fault = look
    parts = [RoleIn(name="worker", count=12)]
    house.submit(1, None, name="train", gang=GroupIn(name="all", parts=parts))
    assert seen[:3] == [(0, 5), (0, 10), (0, 12)]
    assert states(house) == {"starting": 12}


def test_what_is_stopped_while_it_is_being_written_is_not_written_on(house: House) -> None:
    stuck(house)
    stop = house.allocations.jobs.stop_job

    written = house.allocations.unsettled.remove_on_failure

    @contextmanager
    def stopped(gang: int) -> Iterator[None]:
        stop("train", house.admin, 0)
        with written(gang):
            yield

    house.allocations.unsettled.remove_on_failure = stopped  # type: ignore[method-assign]
    with pytest.raises(WrongState, match="stopped while it was being submitted"):
        submit(house)
    assert states(house) == {"stopped": PART}
    house.allocations.unsettled.settle_all()
    assert states(house) == {"stopped": PART}


@pytest.mark.parametrize("works", [False, True])
def test_a_stop_killed_at_any_step_is_finished_by_the_next_server_or_was_never_asked(
    house: House, works: bool
) -> None:
    for number in count(1):
        if not works:
            stuck(house)
        parts = [RoleIn(name="worker", count=12)]
        house.submit(1, None, name="train", gang=GroupIn(name="all", parts=parts))
        with killed_at(house, number) as seen:
            house.allocations.jobs.stop_job("train", house.admin, 7)
        wants = [item.want for item in house.work() if item.job_name.startswith("train")]
        if number == 1:  # before the first commit
            assert states(house) == {"starting" if works else "pending": 12}
            house.allocations.jobs.stop_job("train", house.admin, 7)
        else:
            assert wants == (["stop"] * 12 if works else [])
        for item in house.work():
            house.report(item, "ended", reason="stopped", signal=15)
        house.allocations.stops.stop_all(house.admin, "user", 0)
        for item in house.work():
            house.report(item, "ended", reason="stopped", signal=15)
        assert set(states(house)) == {"stopped"}
        if len(seen) < number:
            break
    assert number > 6


def test_a_second_stop_changes_the_grace_of_all_members(house: House) -> None:
    parts = [RoleIn(name="worker", count=12)]
    house.submit(1, None, name="train", gang=GroupIn(name="all", parts=parts))
    house.allocations.jobs.stop_job("train", house.admin, 60)
    house.allocations.jobs.stop_job("train", house.admin, 0)
    assert [(item.want, item.grace_seconds) for item in house.work()] == [("stop", 0)] * 12


@pytest.mark.parametrize(
    ("end", "reason"), [({"exit_code": 3}, "its gang ended with another member")]
)
def test_a_member_that_fails_ends_a_large_gang_in_transactions_of_a_bounded_size(
    house: House, end: dict[str, int], reason: str
) -> None:
    parts = [RoleIn(name="worker", count=23)]
    house.submit(1, None, name="train", gang=GroupIn(name="all", parts=parts))
    first, *others = house.work()
    with written_rows(house.store.engine) as written:
        house.report(first, "ended", **end)
    assert max(written) <= PART * ROWS_A_MEMBER + 2 * ROWS_BESIDE
    assert [(item.want, item.stop_reason) for item in house.work()] == [("stop", "gang")] * 22
    for item in others:
        house.report(item, "ended", reason="stopped", signal=15)
    assert states(house) == {"failed": 1, "stopped": 22}
    assert house.job("train.1").reason == reason


def test_the_end_of_a_member_stops_those_of_a_large_gang_that_wait_and_nobody_who_works(
    house: House,
) -> None:
    parts = [RoleIn(name="worker", count=12, minimum=2)]
    house.submit(1000, None, name="train", gang=GroupIn(name="all", parts=parts))
    assert states(house) == {"starting": 2, "pending": 10}
    first, second = house.work()
    house.report(first, "ended", exit_code=0)
    assert states(house) == {"done": 1, "starting": 1, "stopped": 10}
    assert [item.want for item in house.work()] == ["run"]
    house.report(second, "ended", exit_code=3)
    assert states(house) == {"done": 1, "failed": 1, "stopped": 10}
    with house.store.read() as connection:
        assert connection.execute(sa.select(gangs.c.launch)).scalar_one() is None
