"""Group commit: a flush serves all who wait, nothing is told before it, a failed one is the end."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from gpupool.base.errors import DiskFull, ReplacedStore, StateUnusable
from gpupool.server.middleware.acknowledge import DurableAnswerMiddleware
from gpupool.store.database import Store, connect, open_store, sqlite_url
from gpupool.store.durability import CommitDurability
from tests.support.empty_databases import prepare_copy


class Disk:
    """A log whose flushes end when the test says so."""

    def __init__(self) -> None:
        self.flushes = 0
        self.begun, self.may_end = threading.Semaphore(0), threading.Semaphore(0)
        self.error: Exception | None = None

    def flush(self) -> None:
        self.flushes += 1
        self.begun.release()
        assert self.may_end.acquire(timeout=30)
        if self.error is not None:
            raise self.error

    def check(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def durability(disk: Disk) -> Iterator[CommitDurability]:
    made = CommitDurability(disk)
    yield made
    disk.may_end.release(1000)
    made.close()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    engine = connect(sqlite_url(tmp_path / "gpupool.db"), busy_seconds=1)
    prepare_copy(engine, 1, "p-test")
    store = open_store(engine, "here", busy_seconds=1)
    yield store
    engine.dispose()


def commit(durability: CommitDurability) -> None:
    with durability.count_commit():
        pass


async def answers(durability: CommitDurability, count: int) -> list[str]:
    """The order in which commits and flushes become known to so many requests at once."""
    told: list[str] = []

    async def app(_scope: object, _receive: object, send: object) -> None:
        commit(durability)
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]

    async def heard(message: dict[str, object]) -> None:
        if "status" in message:
            told.append(str(message["status"]))

    layer = DurableAnswerMiddleware(app, durability)  # type: ignore[arg-type]
    await asyncio.gather(*(layer({"type": "http"}, None, heard) for _ in range(count)))  # type: ignore[arg-type]
    return told


def test_answers_wait_for_the_flush_and_share_it(disk: Disk, durability: CommitDurability) -> None:
    async def scene() -> None:
        commit(durability)
        await asyncio.to_thread(disk.begun.acquire, timeout=30)
        asking = asyncio.create_task(answers(durability, 40))
        # First they are made; then all of them commit behind the flush that is under way.
        for _ in range(2):
            await asyncio.sleep(0)
        disk.may_end.release()
        assert await asyncio.to_thread(disk.begun.acquire, timeout=30)
        assert not asking.done()
        disk.may_end.release()
        assert await asking == ["200"] * 40

    asyncio.run(scene())
    assert disk.flushes == 2


class Caller:
    """Of one request that commits before its answer; another commit is made when the head of the
    answer is out."""

    def __init__(self, durability: CommitDurability, headers: list[tuple[bytes, bytes]]) -> None:
        self.told: list[str] = []
        self._durability, self._headers = durability, headers

    async def ask(self) -> None:
        await DurableAnswerMiddleware(self._app, self._durability)(
            {"type": "http"}, None, self._heard
        )  # type: ignore[arg-type]

    async def _app(self, _scope: object, _receive: object, send: object) -> None:
        commit(self._durability)
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"ok"})  # type: ignore[operator]

    async def _heard(self, message: Mapping[str, object]) -> None:
        self.told.append(str(message.get("status", "body")))
        if message.get("status") == 200:
            commit(self._durability)


def test_head_and_body_of_an_answer_wait_for_one_flush(
    disk: Disk, durability: CommitDurability
) -> None:
    caller = Caller(durability, [(b"content-length", b"2")])
    disk.may_end.release()
    asyncio.run(asyncio.wait_for(caller.ask(), 30))  # the flush of the other commit does not end
    assert caller.told == ["200", "body"]


def test_a_body_that_may_tell_of_a_later_commit_waits_for_it(
    disk: Disk, durability: CommitDurability
) -> None:
    async def scene() -> None:
        caller = Caller(durability, [])
        asking = asyncio.create_task(caller.ask())
        for begun in (1, 2):
            assert await asyncio.to_thread(disk.begun.acquire, timeout=30)
            assert caller.told == ["200"][: begun - 1]
            disk.may_end.release()
        await asking
        assert caller.told == ["200", "body"]

    asyncio.run(scene())


def test_a_head_that_waits_for_a_flush_that_fails_is_replaced(
    disk: Disk, durability: CommitDurability
) -> None:
    caller = Caller(durability, [(b"content-length", b"2")])
    disk.error = OSError(5, "Input/output error")
    disk.may_end.release()
    asyncio.run(caller.ask())
    assert caller.told == ["503", "body"]


def test_an_answer_waits_for_a_commit_that_is_still_being_made(
    disk: Disk, durability: CommitDurability
) -> None:
    """Its transaction is seen by readers a moment before the commit returns."""

    async def scene() -> None:
        with durability.count_commit():
            reader = asyncio.create_task(durability.await_durable())
            await asyncio.sleep(0)
            assert not reader.done()
            assert disk.flushes == 0
        await asyncio.to_thread(disk.begun.acquire, timeout=30)
        assert not reader.done()
        disk.may_end.release()
        await reader

    asyncio.run(scene())


def test_nothing_waits_where_nothing_was_written(disk: Disk, durability: CommitDurability) -> None:
    asyncio.run(durability.await_durable())
    durability.wait(0)
    assert disk.flushes == 0


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), DiskFull("full")])
def test_a_failed_flush_is_told_to_all_who_wait_and_to_the_owner(
    disk: Disk, durability: CommitDurability, error: Exception
) -> None:
    lost: list[str] = []
    durability.on_lost = lambda failure: lost.append(failure.code)
    disk.error = error
    disk.may_end.release()
    assert (
        asyncio.run(answers(durability, 3)) == ["503" if isinstance(error, OSError) else "507"] * 3
    )
    with pytest.raises((StateUnusable, DiskFull)):
        durability.wait(30)
    with pytest.raises((StateUnusable, DiskFull)):
        durability.check()
    assert len(lost) == 1


def test_a_write_is_refused_once_the_database_was_removed(store: Store, tmp_path: Path) -> None:
    with store.write() as write:
        write.event("tenant.created", "blue")
    os.rename(tmp_path / "gpupool.db", tmp_path / "elsewhere.db")
    store.durability.look()
    with pytest.raises(ReplacedStore, match="was removed"), store.write():
        pass


@pytest.mark.parametrize("name", ["gpupool.db", "gpupool.db-wal"])
def test_a_commit_beside_a_replaced_file_is_not_acknowledged(
    store: Store, tmp_path: Path, name: str
) -> None:
    lost = threading.Event()
    store.durability.on_lost = lambda _failure: lost.set()
    other = tmp_path / "other"
    other.write_bytes((tmp_path / name).read_bytes())
    other.replace(tmp_path / name)
    with store.write() as write:
        write.event("tenant.created", "blue")
    with pytest.raises(ReplacedStore, match="was replaced by another file"):
        store.durability.wait(30)
    assert lost.wait(30)


def test_connections_that_all_close_leave_the_log_in_its_place(
    store: Store, tmp_path: Path
) -> None:
    with store.write() as write:
        write.event("tenant.created", "blue")
    store.durability.wait(30)
    store.engine.pool.dispose()
    store.durability.look()
    store.durability.check()
    assert (tmp_path / "gpupool.db-wal").exists()
