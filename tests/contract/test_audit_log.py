"""What the audit log promises on every store: order under many writers, restarts, restores, cuts."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from gpupool.audit_log.service import AuditService
from gpupool.store.acts import AuditEntry
from gpupool.store.database import Store, connect, open_store, sqlite_url
from gpupool.store.tables import audit_records, pool
from tests.support.audit_logs import read_log, verify_log
from tests.support.empty_databases import prepare_copy


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    url = (
        sqlite_url(tmp_path / "gpupool.db")
        if request.param == "sqlite"
        else request.getfixturevalue("postgres_pool_url")
    )
    engine = connect(url)
    prepare_copy(engine, 1, "p-test")
    store = open_store(engine, "first", busy_seconds=60)
    yield store
    store.close()


def write_records(store: Store, user: str, count: int) -> None:
    for _ in range(count):
        with store.write() as write:
            write.audit(AuditEntry({"kind": "change", "user": user, "objects": ["zoë", "\n\x7f"]}))


def test_many_writers_make_one_chain_without_gaps(store: Store) -> None:
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: write_records(store, f"u-{number}", 5), range(4)))
    assert [one["seq"] for one in read_log(store)] == list(range(1, 21))
    found = verify_log(store)
    assert (found.fault, found.is_whole, found.records) == (None, True, 20)


def test_what_rolls_back_leaves_no_record_and_no_gap(store: Store) -> None:
    write_records(store, "ada", 1)
    with pytest.raises(RuntimeError, match="in the middle"):
        _write_half(store)
    write_records(store, "ada", 1)
    assert [one["seq"] for one in read_log(store)] == [1, 2]
    assert verify_log(store).fault is None


def _write_half(store: Store) -> None:
    with store.write() as write:
        write.audit(AuditEntry({"kind": "change"}))
        raise RuntimeError("in the middle")


def test_a_changed_row_is_found_by_its_number(store: Store) -> None:
    write_records(store, "ada", 5)
    with store.write() as write:
        body = sa.func.replace(audit_records.c.body, "ada", "eve")
        write.execute(audit_records.update().where(audit_records.c.seq == 3).values(body=body))
    fault = verify_log(store).fault
    assert fault is not None
    assert fault.seq == 3


def test_a_start_says_whether_the_server_before_ended_in_order(store: Store) -> None:
    for is_clean in (True, False, True):
        service = AuditService(store)
        service.begin()
        if is_clean:
            service.close()
        else:
            service.recorder.close()
    starts = [one["data"]["clean"] for one in read_log(store) if one["kind"] == "start"]
    assert starts == [True, True, False]
    assert verify_log(store).fault is None


def test_a_restored_log_goes_on_behind_the_old_head_and_says_so(store: Store) -> None:
    first = AuditService(store)
    first.begin()
    first.close()
    head = verify_log(store).head
    with store.write() as write:  # what `gpupool restore` does to the copy
        write.execute(pool.update().values(event_epoch="e-restored"))
    again = AuditService(store)
    again.begin()
    again.close()
    record = read_log(store)[-2]
    assert record["kind"] == "restore"
    assert (record["data"]["head_seq"], record["data"]["head_hash"]) == (head.seq, head.hash)
    assert record["data"]["epoch"] == "e-restored"
    found = verify_log(store, head.hash)
    assert (found.fault, found.expected_seq) == (None, head.seq)
