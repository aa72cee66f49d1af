"""Transactions of the one writer: whole or nothing, in turn, and refused once it is another."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from gpupool.base.clock import LedgerClock
from gpupool.base.errors import LostLeadership, StoreBusy
from gpupool.base.supervision import register
from gpupool.store.database import Store, connect, open_store, sqlite_url
from gpupool.store.tables import events, metadata, pool


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    engine = connect(sqlite_url(tmp_path / "pool.db"))
    metadata.create_all(engine)
    row = {"id": 1, "pool_id": "p-1", "holder": "", "event_seq": 0, "generation": 0}
    with engine.begin() as connection:
        connection.execute(pool.insert(), {**row, "ledger_ns": 5})
    opened = open_store(engine, "here")
    yield opened
    opened.close()


def count_events(store: Store) -> int:
    with store.read() as connection:
        return int(connection.execute(sa.select(sa.func.count()).select_from(events)).scalar_one())


def test_a_write_that_fails_leaves_nothing_and_wakes_no_waiter(store: Store) -> None:
    heard = list[frozenset[Hashable]]()
    notes = list[str]()
    store.notifier.add_listener(heard.append)

    def fail() -> None:
        with store.write() as write:
            write.event("job.placed", "j-1")
            write.announce("queue")
            write.note(lambda: notes.append("committed"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (count_events(store), heard, notes) == (0, [], [])


@pytest.mark.parametrize("kind", ["note", "listener"])
def test_a_copy_that_misses_a_commit_for_want_of_memory_ends_the_process(
    store: Store, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It would differ from the ledger until the next start."""
    ended = list[str]()
    monkeypatch.setattr(register, "end_process", ended.append)

    def lack_memory(*_: object) -> None:
        raise MemoryError

    def commit() -> None:
        with store.write() as write:
            write.event("test.happened", "one")
            if kind == "note":
                write.note(lack_memory)
            else:
                store.notifier.add_listener(lack_memory)

    with pytest.raises(MemoryError):
        commit()
    assert (ended, count_events(store)) == (["store"], 1)


@pytest.mark.parametrize("kind", ["read", "write"])
def test_a_transaction_that_cannot_be_ended_ends_the_process(
    store: Store, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It would keep the database locked, or its log growing."""
    ended = list[str]()
    monkeypatch.setattr(register, "end_process", ended.append)

    def lack_memory(_connection: sa.Connection) -> None:
        raise MemoryError

    def fail() -> None:
        with store.read() if kind == "read" else store.write():
            monkeypatch.setattr(sa.Connection, "rollback", lack_memory)
            raise ZeroDivisionError

    with pytest.raises(MemoryError):
        fail()
    assert ended == ["store"]


def test_a_commit_is_noted_before_its_topics_are_published(store: Store) -> None:
    order = list[object]()
    store.notifier.add_listener(order.append)
    with store.write() as write:
        write.event("job.placed", "j-1")
        write.announce("queue")
        write.note(lambda: order.append(count_events(store)))
    assert order == [1, frozenset({"queue", "events"})]


def test_a_write_inside_a_write_of_the_same_thread_is_an_error(store: Store) -> None:
    with store.write(), pytest.raises(RuntimeError, match="would wait for itself"), store.write():
        pass
    with store.write() as write:
        write.event("job.placed", "j-1")
    assert count_events(store) == 1


def test_a_write_that_gets_no_turn_in_time_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Set here alone: the same seconds bound the flush at the start, which a busy disk exceeds.
    monkeypatch.setattr(store, "_busy_seconds", 0.01)
    refused = list[StoreBusy]()

    def write() -> None:
        try:
            with store.write():
                pass
        except StoreBusy as error:
            refused.append(error)

    with store.write():
        thread = threading.Thread(target=write)
        thread.start()
        thread.join()
    assert [error.message for error in refused] == [
        "another change to the pool took longer than 0.01 s; nothing was changed"
    ]


def test_a_server_that_another_has_replaced_writes_nothing_more(store: Store) -> None:
    other = Store(store.engine, LedgerClock())
    other.take("there")
    with pytest.raises(LostLeadership, match="another server has taken this pool"), store.write():
        pass
    with other.write() as write:
        write.event("job.placed", "j-1")
    assert count_events(store) == 1


def test_a_reader_sees_one_instant_whatever_is_written_meanwhile(store: Store) -> None:
    count = sa.select(sa.func.count()).select_from(events)
    with store.read() as connection:
        assert connection.execute(count).scalar_one() == 0
        with store.write() as write:
            write.event("job.placed", "j-1")
        assert connection.execute(count).scalar_one() == 0
    assert count_events(store) == 1


def test_time_in_which_no_server_ran_is_left_out_of_running_time(store: Store) -> None:
    with store.read() as connection:
        row = connection.execute(sa.select(pool)).one()
    # The ledger stood at 5 ns: everything since then is time without a server.
    assert row.idle_ns == row.ledger_ns - 5
    assert store.running_ns(row.ledger_ns) == 5
    assert store.pool_id == "p-1"


def test_the_noted_event_follows_the_notes_of_its_commit(store: Store) -> None:
    before = store.noted_seq
    during = list[int]()
    with store.write() as write:
        write.event("node.ready", "node-1")
        write.event("node.silent", "node-1")
        write.note(lambda: during.append(store.noted_seq))
    # While a copy in memory is corrected, its readers still go by the event before.
    assert during == [before]
    assert store.noted_seq == before + 2

    def fail() -> None:
        with store.write() as write:
            write.event("node.ready", "node-1")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert store.noted_seq == before + 2
