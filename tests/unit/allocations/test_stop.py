"""Stopping many jobs is many short transactions, and repeating it goes on where a crash left it."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.allocations.stop import JOBS_AT_ONCE
from gpupool.allocations.store.tables import jobs
from gpupool.store import idempotency
from gpupool.store.tables import idempotency as keys_table
from tests.support.house import House
from tests.support.written_rows import written_rows

ROWS_A_JOB = 5


def queued(house: House, count: int) -> None:
    """So many jobs of one tenant that wait."""
    house.submit(1000, None, name="holder", count=2)
    for number in range(count):
        house.submit(1000, None, name=f"job-{number}")


def test_many_jobs_are_stopped_in_transactions_of_a_bounded_size(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupool.allocations.stop.JOBS_AT_ONCE", 10)
    queued(house, 35)
    with written_rows(house.store.engine) as written:
        assert house.allocations.stops.stop_all(house.admin, "down", 0) == 36
    assert len(written) == 4
    assert max(written) <= 10 * ROWS_A_JOB
    assert house.count_jobs()["pending"] == 0


def test_the_bound_is_a_thousand_rows_or_so() -> None:
    assert JOBS_AT_ONCE * ROWS_A_JOB <= 1250


def test_the_key_of_a_request_is_recorded_with_the_last_of_its_transactions(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupool.allocations.stop.JOBS_AT_ONCE", 10)
    queued(house, 25)
    seen = list[tuple[int, int]]()

    def look(_step: str, _subjects: object) -> None:
        with house.store.engine.connect() as connection:
            keys = connection.execute(
                sa.select(sa.func.count()).select_from(keys_table)
            ).scalar_one()
            live = sa.select(sa.func.count()).where(jobs.c.state == "pending")
            seen.append((keys, connection.execute(live).scalar_one()))

    monkeypatch.setattr(house.store, "_fault", look)
    token = idempotency.current.set(
        idempotency.IdempotentRequest(house.admin.user_id, "key", "0" * 64)
    )
    try:
        house.allocations.stops.stop_all(house.admin, "down", 0)
    finally:
        idempotency.current.reset(token)
    assert [keys for keys, _ in seen[1::2]] == [0, 0, 1]
    assert seen[-1] == (1, 0)
