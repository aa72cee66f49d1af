"""Group commit for SQLite: which commits are on disk.

A transaction commits into the write-ahead log without a flush, and gives its turn to the next at
once. One thread flushes the log; every commit that was written before a flush began is on disk when
it ends, so a flush serves all that wait. Commits are a prefix of the log: none is on disk without
those before it. Nothing is acknowledged before its commit is on disk:
`server.middleware.acknowledge` holds answers back. Decision 0017.

The same thread looks after each flush whether the database's files are still those that were
opened. PostgreSQL flushes at commit by itself and needs none of this.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from gpupool.base.durable import sync_directory
from gpupool.base.errors import GpupoolError, ReplacedStore, StateUnusable
from gpupool.base.supervision import supervised_step

logger = logging.getLogger(__name__)

#: A disk that flushes for so long is said to be in trouble; nothing is acknowledged meanwhile.
FLUSH_SECONDS: Final = 20.0

OnLost = Callable[[GpupoolError], None]


class CommitLog(Protocol):
    """What is flushed.

    `check` raises ReplacedStore where the files are not those that were opened.
    """

    def flush(self) -> None: ...

    def check(self) -> None: ...

    def close(self) -> None: ...


class CommitDurability:
    """Counts commits and knows how many of them are on disk. Thread-safe.

    After a failed flush nothing is known of the pages it was for (the kernel may call them clean),
    so no later one is believed: every waiter gets the error, and `on_lost` is called once, to end
    the process.
    """

    def __init__(self, log: CommitLog | None) -> None:
        self.on_lost: OnLost = _log_loss
        self._log = log
        self._changed = threading.Condition()
        self._committed = 0
        self._under_way = 0
        self._durable = 0
        self._closing = False
        self._lost: GpupoolError | None = None
        self._waiters: list[tuple[int, asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._thread: threading.Thread | None = None
        if log is not None:
            self._thread = threading.Thread(
                target=self._flush_commits, name="store-flush", daemon=True
            )
            self._thread.start()

    @contextmanager
    def count_commit(self) -> Iterator[None]:
        """Count the commit that the block makes; one at a time, in the order of the commits.

        It counts from before it is made: a reader may see it a moment before the block ends, and
        must wait for it. Blocks for nothing.
        """
        if self._log is None:
            yield
            return
        with self._changed:
            self._committed += 1
            self._under_way = 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way = 0
                self._changed.notify_all()

    def wait(self, seconds: float) -> None:
        """Block until every commit until now is on disk.

        Raises the failure; StateUnusable after the time.
        """
        with self._changed:
            target = self._committed
            self._changed.wait_for(
                lambda: self._durable >= target or self._lost is not None, seconds
            )
            self.check()
            if self._durable < target:
                raise StateUnusable(
                    f"the disk did not flush the database's log within {seconds:g} s",
                    hint="df, dmesg",
                )

    async def await_durable(self) -> None:
        """Return once every commit until now is on disk. Raises the failure of a flush."""
        waiter: asyncio.Future[None] | None = None
        with self._changed:
            self.check()
            if self._durable < self._committed:
                loop = asyncio.get_running_loop()
                waiter = loop.create_future()
                self._waiters.append((self._committed, loop, waiter))
        if waiter is not None:
            await waiter
            self.check()

    def check(self) -> None:
        """Raise what went wrong with the files, if anything has."""
        if self._lost is not None:
            raise self._lost

    def look(self) -> None:
        """Look now whether the files are still those that were opened.

        What is found is the failure from here on.
        """
        if self._log is None:
            return
        try:
            self._log.check()
        except GpupoolError as error:
            self._note_loss(error)

    def close(self) -> None:
        """Flush what is left and stop."""
        if self._thread is None or self._log is None:
            return
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self._log.close()
        self._thread = None

    def _flush_commits(self) -> None:
        assert self._log is not None
        while (target := self._await_commit()) is not None:
            try:
                with supervised_step("store-flush", FLUSH_SECONDS):
                    self._log.flush()
                    self._log.check()
            except GpupoolError as error:
                self._note_loss(error)
                return
            except Exception as error:  # noqa: BLE001  # whatever it is, no later flush is believed
                hint = "mend the disk (dmesg), then  gpupool up"
                self._note_loss(
                    StateUnusable(f"the database's log could not be flushed: {error}", hint=hint)
                )
                return
            with self._changed:
                self._durable = target
                self._wake_waiters()

    def _await_commit(self) -> int | None:
        """Return the newest commit, once there is one that is not on disk; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._written_commits > self._durable)
            return self._written_commits if self._written_commits > self._durable else None

    @property
    def _written_commits(self) -> int:
        """Commits that are in the log. One that is under way may not be."""
        return self._committed - self._under_way

    def _note_loss(self, error: GpupoolError) -> None:
        with self._changed:
            if self._lost is not None:
                return
            self._lost = error
            self._wake_waiters()
        self.on_lost(error)

    def _wake_waiters(self) -> None:
        """Wake the waiters whose commits are on disk, all when nothing will be any more.

        Under the lock.
        """
        self._changed.notify_all()
        ready = [
            waiter
            for waiter in self._waiters
            if self._lost is not None or waiter[0] <= self._durable
        ]
        if not ready:
            return
        self._waiters = [waiter for waiter in self._waiters if waiter not in ready]
        for loop in {loop for _, loop, _ in ready}:
            mine = [future for _, its, future in ready if its is loop]
            with suppress(RuntimeError):  # the loop has closed, with its waiters
                loop.call_soon_threadsafe(_resolve_futures, mine)


class SqliteLog:
    """The write-ahead log of an SQLite database, held open for as long as this lives."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._log = database.with_name(f"{database.name}-wal")
        self._files = {path: os.open(path, os.O_RDONLY | os.O_CLOEXEC) for path in (self._log,)}
        # Device and number: a name that was moved away and back is the same file.
        self._known = {path: _read_inode(path) for path in (self._database, self._log)}
        sync_directory(database.parent)

    def flush(self) -> None:
        # Not fsync: the size is part of what fdatasync(2) writes, times are not needed.
        os.fdatasync(self._files[self._log])

    def check(self) -> None:
        for path, inode in self._known.items():
            found = _read_inode(path)
            if found != inode:
                what = "was removed" if found is None else "was replaced by another file"
                raise ReplacedStore(
                    f"{path} {what} while the pool had it open; nothing more is written",
                    hint="put a saved copy in its place (gpupool restore), then  gpupool up",
                )

    def close(self) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files = {}


def _read_inode(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _resolve_futures(futures: list[asyncio.Future[None]]) -> None:
    for future in futures:
        if not future.done():  # its request may have been cancelled meanwhile
            future.set_result(None)


def _log_loss(error: GpupoolError) -> None:
    logger.critical("%s", error)
