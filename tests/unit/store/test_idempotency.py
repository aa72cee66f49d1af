"""What Idempotency-Keys cost a transaction does not grow with how many there are."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from gpupool.store import idempotency
from gpupool.store.database import Store, connect, open_store, sqlite_url
from gpupool.store.tables import idempotency as keys_table
from gpupool.store.tables import metadata, pool
from tests.support.written_rows import written_rows

MANY = 450


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """With many keys, all older than they are kept."""
    engine = connect(sqlite_url(tmp_path / "pool.db"))
    metadata.create_all(engine)
    row = {"user_id": 1, "request_sha256": "0" * 64, "status": 0, "response": {}, "created_ns": 5}
    with engine.begin() as connection:
        values = {
            "id": 1,
            "pool_id": "p",
            "holder": "",
            "event_seq": 0,
            "generation": 1,
            "ledger_ns": 7,
        }
        connection.execute(pool.insert().values(**values))
        connection.execute(keys_table.insert(), [{**row, "key": f"k{n}"} for n in range(MANY)])
    return open_store(engine, "here")


def asked(store: Store, key: str) -> None:
    token = idempotency.current.set(idempotency.IdempotentRequest(1, key, "0" * 64))
    try:
        with store.write():
            pass
    finally:
        idempotency.current.reset(token)


def keys(store: Store) -> int:
    with store.read() as connection:
        return int(
            connection.execute(sa.select(sa.func.count()).select_from(keys_table)).scalar_one()
        )


def test_old_keys_are_cleared_a_bounded_number_at_a_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "_idle_ns", -idempotency.KEEP_NS)  # a day in which a server ran
    with written_rows(store.engine) as written:
        for number in range(6):
            asked(store, f"new-{number}")
    assert max(written) <= idempotency.FORGOTTEN_AT_ONCE + 2
    assert keys(store) == 6


def test_a_server_that_starts_writes_one_row_however_many_keys_there_are(store: Store) -> None:
    with written_rows(store.engine) as written:
        store.take("there")
    assert written == [1]
    asked(store, "new")
    assert keys(store) == MANY + 1


def test_a_key_that_is_old_is_used_again_beside_many_older_ones(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, it was refused again and again: each refusal undid the removal of older keys."""
    monkeypatch.setattr(store, "_idle_ns", -idempotency.KEEP_NS)
    newest = keys_table.c.key == "mine"
    with store.engine.begin() as connection:
        row = {"user_id": 1, "request_sha256": "1" * 64, "status": 0, "response": {}}
        connection.execute(keys_table.insert().values(**row, key="mine", created_ns=6))
    asked(store, "mine")
    with store.read() as connection:
        found = connection.execute(sa.select(keys_table).where(newest)).one()
    assert (found.request_sha256, found.created_ns > 6) == ("0" * 64, True)
