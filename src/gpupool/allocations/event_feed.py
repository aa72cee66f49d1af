"""One reader of the event log for every watcher.

A commit that adds events costs one query, however many callers watch: the first watcher that looks reads what is new
into a bounded buffer, those that look meanwhile wait for the same read, and all of them take their lines from the
buffer. A watcher that is further behind than the buffer reaches reads the log by itself, a few watchers at a time.
Knows no HTTP. Used on one event loop; commits may come from any thread.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool

from gpupool.allocations.event_log import Entry, last_event, may_see, read_entries, read_events
from gpupool.model.tenant import Principal
from gpupool.store.database import Store
from gpupool.wire.common import Event

#: Events kept for watchers: about 2 MB, and the lag that a watcher may have without a query of its own.
BUFFER_EVENTS = 4096
#: Events of one query and of one piece of an answer.
EVENTS_AT_ONCE = 500
#: Watchers that may read the log by themselves at the same time; each takes a thread and a connection.
CATCHING_UP_AT_ONCE = 4


class Batch(NamedTuple):
    """Lines for one watcher, and where it has come to; `behind` when there is more already."""

    lines: list[str]
    after: int
    behind: bool


@dataclass(frozen=True)
class _Line:
    tenant_id: int | None
    kind: str
    seq: int
    text: str

    @classmethod
    def of(cls, entry: Entry) -> _Line:
        return cls(entry.tenant_id, entry.event.kind, entry.seq, entry.event.model_dump_json() + "\n")


class EventFeed:
    """What `GET /watch` answers from."""

    def __init__(self, store: Store, *, buffer_events: int = BUFFER_EVENTS) -> None:
        self._store = store
        self._buffer: deque[_Line] = deque()
        self._buffer_events = buffer_events
        #: The buffer holds every event above `_floor` and up to `_head`; None before the first read.
        self._floor: int | None = None
        self._head = 0
        self._lock = threading.Lock()
        self._commits = 0
        self._read_commits = -1
        self._reading: asyncio.Task[None] | None = None
        self._catching_up = asyncio.Semaphore(CATCHING_UP_AT_ONCE)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next_commit = asyncio.Event()
        #: Watchers that have read everything and wait.
        self.waiting = 0
        store.hub.listen(self._committed)

    async def after(self, seq: int, principal: Principal) -> Batch:
        """The next events above `seq` that the caller may see; at most `EVENTS_AT_ONCE`."""
        await self._refresh()
        assert self._floor is not None
        if seq < self._floor:
            return await self._from_log(seq, principal)
        found: list[str] = []
        for line in self._above(seq):
            if len(found) == EVENTS_AT_ONCE:
                return Batch(found, seq, behind=True)
            if may_see(principal, line.tenant_id, line.kind):
                found.append(line.text)
            seq = line.seq
        return Batch(found, seq, behind=False)

    async def wait(self, seconds: float) -> bool:
        """True as soon as there is something that `after` has not read, False when the time is over."""
        self._loop = asyncio.get_running_loop()
        if self._is_stale():
            return True
        self.waiting += 1
        try:
            async with asyncio.timeout(seconds):
                await self._next_commit.wait()
        except TimeoutError:
            return False
        finally:
            self.waiting -= 1
        return True

    def _above(self, seq: int) -> list[_Line]:
        """Lines of the buffer above `seq`, oldest first; costs what it returns."""
        found = list(takewhile(lambda line: line.seq > seq, reversed(self._buffer)))
        found.reverse()
        return found

    async def _refresh(self) -> None:
        """Have the buffer reach the commits made so far; callers of one moment share one read."""
        self._loop = asyncio.get_running_loop()
        while self._is_stale():
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read_new())
            await asyncio.shield(self._reading)

    def _is_stale(self) -> bool:
        return self._read_commits < self._commits

    async def _read_new(self) -> None:
        commits = self._commits
        if self._floor is None:
            last = await run_in_threadpool(self._last)
            self._floor = self._head = max(0, last - self._buffer_events)
        await self._read_on()
        self._read_commits = commits

    async def _read_on(self) -> None:
        while True:
            found = await run_in_threadpool(self._entries, self._head)
            self._buffer.extend(map(_Line.of, found))
            self._head = found[-1].seq if found else self._head
            while len(self._buffer) > self._buffer_events:
                self._floor = self._buffer.popleft().seq
            if len(found) < EVENTS_AT_ONCE:
                return

    async def _from_log(self, seq: int, principal: Principal) -> Batch:
        """A piece of the log for a watcher that the buffer does not reach back to."""
        head = self._head
        async with self._catching_up:
            found = await run_in_threadpool(self._events, seq, principal)
        lines = [event.model_dump_json() + "\n" for event in found]
        if len(found) == EVENTS_AT_ONCE:
            return Batch(lines, found[-1].seq, behind=True)
        # Every event up to `head` was committed before this read: what is missing is not for this caller.
        return Batch(lines, max(head, found[-1].seq if found else 0), behind=True)

    def _committed(self, topics: frozenset[Hashable]) -> None:
        """Called in the committing thread."""
        if "events" not in topics:
            return
        with self._lock:
            self._commits += 1
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop closed: nobody watches any more
                loop.call_soon_threadsafe(self._ring)

    def _ring(self) -> None:
        """Wake who waits now; who waits from here on waits for the next commit."""
        self._next_commit.set()
        self._next_commit = asyncio.Event()

    def _last(self) -> int:
        with self._store.read() as connection:
            return last_event(connection)

    def _entries(self, after: int) -> list[Entry]:
        with self._store.read() as connection:
            return list(read_entries(connection, after, EVENTS_AT_ONCE))

    def _events(self, after: int, principal: Principal) -> list[Event]:
        with self._store.read() as connection:
            return read_events(connection, principal, after, EVENTS_AT_ONCE)
