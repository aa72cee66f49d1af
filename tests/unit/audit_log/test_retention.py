"""Retention cuts whole months, attests the cut, and leaves a log that holds."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpupool.audit_log.retention import cut_old_records, find_cut
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.store.acts import AuditEntry
from gpupool.store.database import Store
from tests.support.api import RunningApp, running_app
from tests.support.audit_logs import read_log, verify_log

DAY = 86_400 * NANOS_PER_SECOND


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RunningApp]:
    with running_app(tmp_path) as pool:
        yield pool


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * NANOS_PER_SECOND


def write_days(store: Store, days: int, step: int = 1) -> None:
    """Write a record a day, by a clock that the test sets."""
    begin = store.clock.now_ns()
    for day in range(0, days, step):
        store.clock.begin_at(begin + day * DAY)
        with store.write() as write:
            write.audit(AuditEntry({"kind": "change", "user": f"day-{day}"}))


@pytest.mark.parametrize(
    ("now", "days", "cut"),
    [
        ("2026-11-29T10:00:00", 400, "2025-10-01T00:00:00"),
        ("2026-03-01T00:00:00", 31, "2026-01-01T00:00:00"),
        ("2026-03-04T00:00:00", 31, "2026-02-01T00:00:00"),
    ],
)
def test_the_cut_is_the_begin_of_a_month(now: str, days: int, cut: str) -> None:
    assert find_cut(at(now), days) == at(cut)


def test_a_log_that_was_cut_holds_by_its_checkpoint(pool: RunningApp) -> None:
    write_days(pool.store, 200, step=10)
    assert cut_old_records(pool.store, 60) > 10
    records = read_log(pool.store)
    cut_ns = find_cut(pool.store.clock.now_ns(), 60)
    assert all(one["at_ns"] >= cut_ns for one in records)
    assert records[-1]["kind"] == "checkpoint"
    assert records[-1]["data"]["cut_seq"] == records[0]["seq"] - 1
    found = verify_log(pool.store)
    assert (found.fault, found.is_whole) == (None, True)
    assert cut_old_records(pool.store, 60) == 0


def test_a_cut_in_many_steps_holds_after_each(pool: RunningApp) -> None:
    write_days(pool.store, 200, step=10)
    before = len(read_log(pool.store))
    cut = cut_old_records(pool.store, 60, most=3)
    records = read_log(pool.store)
    checkpoints = [one for one in records if one["kind"] == "checkpoint"]
    assert len(checkpoints) == -(-cut // 3) or len(checkpoints) == cut // 3
    assert len(records) == before - cut + len(checkpoints)
    assert verify_log(pool.store).is_whole


def test_a_begin_that_was_cut_by_hand_is_no_whole_log(pool: RunningApp) -> None:
    write_days(pool.store, 5)
    with pool.store.write() as write:
        write.connection.exec_driver_sql("DELETE FROM audit_records WHERE seq <= 2")
    found = verify_log(pool.store)
    assert (found.fault, found.is_whole) == (None, False)
