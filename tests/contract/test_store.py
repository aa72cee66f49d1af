"""What every store promises, on SQLite and on a real PostgreSQL: one suite, run on both."""

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from gpupool.base.clock import LedgerClock
from gpupool.base.errors import StateUnusable, StoreBusy, WriteConflict
from gpupool.store import idempotency
from gpupool.store.database import Store, WriteTransaction, connect, open_store, sqlite_url
from gpupool.store.tables import events, pool
from gpupool.store.tables import idempotency as keys
from gpupool.tenancy.tables import tenants
from tests.support.empty_databases import prepare_copy

BUSY_SECONDS = 0.3
Rows = list[tuple[int, str, str]]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return sqlite_url(tmp_path / "gpupool.db")
    found: str = request.getfixturevalue("postgres_pool_url")
    return found


@pytest.fixture
def engine(url: str) -> Iterator[sa.Engine]:
    engine = connect(url, busy_seconds=BUSY_SECONDS)
    prepare_copy(engine, time.time_ns(), "p-test")
    yield engine
    engine.dispose()


@pytest.fixture
def store(engine: sa.Engine) -> Store:
    return open_store(engine, "first", busy_seconds=BUSY_SECONDS)


@pytest.fixture
def patient(engine: sa.Engine) -> Store:
    """For many writers at once: where the machine is busy, the last of the queue waits long."""
    return open_store(engine, "first", busy_seconds=60)


def log(store: Store) -> Rows:
    with store.read() as connection:
        found = connection.execute(sa.select(events).order_by(events.c.seq))
        return [(row.seq, row.kind, row.subject) for row in found]


def names(store: Store) -> list[str]:
    with store.read() as connection:
        return list(
            connection.execute(sa.select(tenants.c.name).order_by(tenants.c.name)).scalars()
        )


def add_tenant(write: WriteTransaction, name: str) -> None:
    write.insert(tenants, name=name, created_ns=write.now_ns)


def heard(store: Store) -> list[frozenset[object]]:
    topics: list[frozenset[object]] = []
    store.notifier.add_listener(topics.append)
    return topics


def test_what_is_written_is_read(store: Store) -> None:
    with store.write() as write:
        add_tenant(write, "blue")
    assert names(store) == ["blue"]


def test_a_write_that_fails_leaves_nothing_and_wakes_nobody(store: Store) -> None:
    topics, before = heard(store), log(store)
    with pytest.raises(RuntimeError, match="in the middle"):
        _write_half(store)
    assert (names(store), log(store), topics) == ([], before, [])


def _write_half(store: Store) -> None:
    with store.write() as write:
        add_tenant(write, "blue")
        write.event("tenant.created", "blue")
        write.announce("quota")
        write.touch_ledger()
        raise RuntimeError("in the middle")


def test_a_write_that_the_database_refuses_leaves_nothing_and_wakes_nobody(store: Store) -> None:
    topics = heard(store)
    with pytest.raises(IntegrityError):
        _write_twice(store)
    assert (names(store), log(store), topics) == ([], [], [])


def _write_twice(store: Store) -> None:
    with store.write() as write:
        write.event("tenant.created", "blue")
        add_tenant(write, "blue")
        add_tenant(write, "blue")


def test_the_store_works_on_after_a_failure(store: Store) -> None:
    for _ in range(60):  # more often than there are connections
        with pytest.raises(RuntimeError), store.write():
            raise RuntimeError
    with store.write() as write:
        add_tenant(write, "blue")
    assert names(store) == ["blue"]


def test_waiters_are_woken_after_the_commit_and_find_it(store: Store) -> None:
    found: list[list[str]] = []
    store.notifier.add_listener(lambda _topics: found.append(names(store)))
    with store.write() as write:
        add_tenant(write, "blue")
        write.announce("quota")
        assert found == []
    assert found == [["blue"]]


def test_whoever_writes_an_event_wakes_its_readers(store: Store) -> None:
    topics = heard(store)
    with store.write() as write:
        write.event("job.ended", "j-1")
        write.announce(("job", "j-1"))
    assert topics == [frozenset({"events", ("job", "j-1")})]


def test_many_writers_lose_nothing_and_number_events_without_gaps(patient: Store) -> None:
    def work(worker: int) -> None:
        for n in range(12):
            with patient.write() as write:
                add_tenant(write, f"t-{worker}-{n}")
                write.event("tenant.created", f"t-{worker}-{n}.first")
                write.event("tenant.created", f"t-{worker}-{n}.second")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    rows = log(patient)
    assert [seq for seq, _, _ in rows] == list(range(1, 2 * 96 + 1))
    assert len(names(patient)) == 96
    assert all(
        a[2].removesuffix("first") == b[2].removesuffix("second")
        for a, b in zip(rows[::2], rows[1::2], strict=True)
    )


def test_whoever_follows_the_log_sees_every_event_once_and_none_appear_before_another(
    patient: Store,
) -> None:
    """A reader that goes on after the last number it saw misses nothing: commits come in the order
    of numbers."""
    done = threading.Event()
    seen: list[int] = []

    def follow() -> None:
        while not done.is_set() or _behind(patient, seen):
            with patient.read() as connection:
                after = seen[-1] if seen else 0
                query = sa.select(events.c.seq).where(events.c.seq > after).order_by(events.c.seq)
                seen.extend(connection.execute(query).scalars())

    def work(worker: int) -> None:
        for n in range(10):
            with patient.write() as write:
                write.event("job.ended", f"{worker}.{n}")

    follower = threading.Thread(target=follow)
    follower.start()
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(work, range(6)))
    done.set()
    follower.join()
    assert seen == list(range(1, 61))


def _behind(store: Store, seen: list[int]) -> bool:
    return len(seen) < len(log(store))


def test_a_reader_sees_one_instant_however_often_it_looks(store: Store) -> None:
    with store.read() as connection:
        count = sa.select(sa.func.count()).select_from(tenants)
        before = connection.execute(count).scalar_one()
        with store.write() as write:
            add_tenant(write, "blue")
        assert connection.execute(count).scalar_one() == before == 0
    assert names(store) == ["blue"]


def test_a_reader_does_not_wait_for_a_writer_nor_see_what_is_not_committed(store: Store) -> None:
    with store.write() as write:
        add_tenant(write, "blue")
        with ThreadPoolExecutor(1) as other:
            assert other.submit(names, store).result(timeout=10) == []
    assert names(store) == ["blue"]


def test_what_a_reader_writes_is_refused_or_not_kept(store: Store) -> None:
    with suppress(StateUnusable), store.read() as connection:
        connection.execute(tenants.insert().values(name="blue", created_ns=1))
    assert names(store) == []


def test_a_server_that_lost_the_pool_to_another_writes_nothing_more(
    engine: sa.Engine, url: str, store: Store
) -> None:
    second = connect(url, busy_seconds=BUSY_SECONDS)
    try:
        newer = open_store(second, "second", busy_seconds=BUSY_SECONDS)
        with (
            pytest.raises(WriteConflict, match="another server has taken this pool"),
            store.write() as write,
        ):
            add_tenant(write, "old")
        with newer.write() as write:
            add_tenant(write, "new")
        assert names(store) == ["new"]
    finally:
        second.dispose()


def test_the_pool_is_not_taken_in_the_middle_of_a_write(url: str, store: Store) -> None:
    second = connect(url, busy_seconds=30)
    try:
        with ThreadPoolExecutor(1) as other:
            with store.write() as write:
                taken = other.submit(open_store, second, "second")
                add_tenant(write, "before")
            taken.result(timeout=30)
        assert names(store) == ["before"]
    finally:
        second.dispose()


def test_ledger_time_never_goes_back_also_for_a_server_whose_clock_is_behind(
    engine: sa.Engine, store: Store
) -> None:
    with store.write() as write:
        late = write.now_ns
    behind = Store(
        engine, LedgerClock(0, wall=lambda: 1, boot=lambda: 0), busy_seconds=BUSY_SECONDS
    )
    behind.take("second")
    with behind.write() as write:
        assert write.now_ns == late
    reopened = open_store(engine, "third", busy_seconds=BUSY_SECONDS)
    assert reopened.clock.now_ns() >= late


def test_ledger_time_is_kept_with_every_write(store: Store) -> None:
    with store.write() as write:
        pass
    with store.read() as connection:
        assert connection.execute(sa.select(pool.c.ledger_ns)).scalar_one() == write.now_ns


def test_the_ledgers_generation_grows_only_when_the_ledger_changed(store: Store) -> None:
    def generation() -> int:
        with store.read() as connection:
            return connection.execute(sa.select(pool.c.generation)).scalar_one()

    first = generation()
    with store.write() as write:
        assert write.touch_ledger() == write.touch_ledger() == first + 1
    with store.write():
        pass
    assert generation() == first + 1


def test_a_write_inside_a_write_is_a_defect_and_no_deadlock(store: Store) -> None:
    with store.write(), pytest.raises(RuntimeError, match="wait for itself"), store.write():
        pass


def test_a_writer_behind_a_slow_one_is_told_that_the_store_is_busy(store: Store) -> None:
    with store.write(), ThreadPoolExecutor(1) as other, pytest.raises(StoreBusy) as refusal:
        other.submit(_write_nothing, store).result(timeout=30)
    assert refusal.value.code == "GP-5005"


def _write_nothing(store: Store) -> None:
    with store.write():
        pass


LOCK_SQLITE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""
LOCK_POSTGRES = """
import psycopg, sys
connection = psycopg.connect(sys.argv[1])
connection.execute("SELECT * FROM pool FOR UPDATE")
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def locked(url: str) -> Iterator[Callable[[], None]]:
    """Another process holds the database; calling the value makes it let go."""
    is_sqlite = url.startswith("sqlite")
    place = (
        url.removeprefix("sqlite:///")
        if is_sqlite
        else url.replace("postgresql+psycopg", "postgresql")
    )
    script = LOCK_SQLITE if is_sqlite else LOCK_POSTGRES
    process = subprocess.Popen(
        [sys.executable, "-c", script, place],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def release() -> None:
        process.communicate()

    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield release
    finally:
        process.kill()
        process.communicate()


def test_it_waits_for_a_locked_database_as_long_as_it_was_told_and_not_as_long_as_by_default(
    store: Store,
) -> None:
    """Read from the database itself, since a busy machine takes longer over any wait."""
    ask = "PRAGMA busy_timeout" if store.engine.dialect.name == "sqlite" else "SHOW lock_timeout"
    with store.engine.connect() as connection:
        assert str(connection.exec_driver_sql(ask).scalar_one()).removesuffix("ms") == str(
            int(BUSY_SECONDS * 1000)
        )


def test_a_database_that_another_program_locked_is_busy_and_works_when_it_lets_go(
    store: Store, locked: Callable[[], None]
) -> None:
    began = time.monotonic()
    with pytest.raises(StoreBusy, match="stayed locked") as refusal, store.write() as write:
        add_tenant(write, "blue")
    assert time.monotonic() - began >= BUSY_SECONDS * 0.9
    assert "nothing was changed" in refusal.value.message
    assert names(store) == []
    locked()
    with store.write() as write:
        add_tenant(write, "blue")
    assert names(store) == ["blue"]


def test_a_key_that_is_old_is_used_again(engine: sa.Engine, store: Store) -> None:
    row = {"user_id": 1, "key": "mine", "status": 0, "response": {}}
    with engine.begin() as connection:
        old_ns = store.running_ns(store.clock.now_ns()) - idempotency.KEEP_NS
        connection.execute(keys.insert().values(**row, request_sha256="1" * 64, created_ns=old_ns))
    token = idempotency.current.set(idempotency.IdempotentRequest(1, "mine", "0" * 64))
    try:
        with store.write() as write:
            add_tenant(write, "blue")
    finally:
        idempotency.current.reset(token)
    with store.read() as connection:
        assert connection.execute(sa.select(keys.c.request_sha256)).scalars().all() == ["0" * 64]
