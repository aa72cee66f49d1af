"""One reader of the event log serves every watcher."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool

from gpupool.allocations.views.events import (
    EventEntry,
    can_see_event,
    read_entries,
    read_events,
    read_last_event,
)
from gpupool.model.tenant import Principal
from gpupool.store.database import Store
from gpupool.wire.common import Event

logger = logging.getLogger(__name__)

#: Events kept for watchers: about 2 MB, and the lag that a watcher may have without a query of its
#: own.
BUFFER_EVENTS = 4096
#: Events of one query and of one piece of an answer.
EVENTS_AT_ONCE = 500
#: Watchers that may read the log by themselves at the same time; each takes a thread and a
#: connection.
CATCHING_UP_AT_ONCE = 4
#: Seconds between two wake-ups of all watchers, for each that waits: what they send takes about a
#: third of it, and commits that come faster share a wake-up. A few watchers are woken at once.
SECONDS_PER_WATCHER = 0.0004

#: Makes the text of one event from its number and its JSON.
EventFormat = Callable[[int, str], str]


def format_line(_seq: int, text: str) -> str:
    """Format an event for NDJSON."""
    return f"{text}\n"


def format_frame(seq: int, text: str) -> str:
    """Format an event for `text/event-stream`; JSON has no line breaks that would end it."""
    return f"id: {seq}\nevent: message\ndata: {text}\n\n"


class EventBatch(NamedTuple):
    """Events for one watcher as text, and its position; `behind` if more are ready."""

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
    def of(cls, entry: EventEntry) -> _Line:
        return cls(entry.tenant_id, entry.event.kind, entry.seq, entry.event.model_dump_json())


class EventFeed:
    """What `GET /watch` answers from."""

    def __init__(self, store: Store, *, buffer_events: int = BUFFER_EVENTS) -> None:
        self._store = store
        self._buffer: deque[_Line] = deque()
        self._buffer_events = buffer_events
        #: The buffer holds every event above `_floor` and up to `_head`; None before the first
        #: read.
        self._floor: int | None = None
        self._head = 0
        self._lock = threading.Lock()
        self._commits = 0
        self._read_commits = -1
        self._reading: asyncio.Task[None] | None = None
        self._catching_up = asyncio.Semaphore(CATCHING_UP_AT_ONCE)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._next_events = asyncio.Event()
        self._waking: asyncio.Task[None] | None = None
        self._woken_at = -math.inf
        #: Watchers that have read everything and wait.
        self.waiting = 0
        store.notifier.add_listener(self._on_commit)

    async def read_batch(
        self, seq: int, principal: Principal, form: EventFormat = format_line
    ) -> EventBatch:
        """Read the next events above `seq` that the caller may see, at most `EVENTS_AT_ONCE`."""
        if self._floor is None or not self._is_waking():
            await self._refresh_buffer()
        assert self._floor is not None
        if seq < self._floor:
            return await self._read_from_log(seq, principal, form)
        found: list[str] = []
        for line in self._list_lines_after(seq):
            if len(found) == EVENTS_AT_ONCE:
                return EventBatch(found, seq, behind=True)
            if can_see_event(principal, line.tenant_id, line.kind):
                found.append(form(line.seq, line.text))
            seq = line.seq
        return EventBatch(found, seq, behind=False)

    async def wait_for_events(self, after: int, seconds: float) -> bool:
        """Wait for events above `after`, the position of the last batch; False after `seconds`."""
        self._loop = asyncio.get_running_loop()
        if self._head > after:
            return True
        self._wake_watchers()
        self.waiting += 1
        try:
            async with asyncio.timeout(seconds):
                await self._next_events.wait()
        except TimeoutError:
            return False
        finally:
            self.waiting -= 1
        return True

    def _list_lines_after(self, seq: int) -> list[_Line]:
        """Lines of the buffer above `seq`, oldest first; costs what it returns."""
        found = list(takewhile(lambda line: line.seq > seq, reversed(self._buffer)))
        found.reverse()
        return found

    async def _refresh_buffer(self) -> None:
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
            last = await run_in_threadpool(self._read_last)
            self._floor = self._head = max(0, last - self._buffer_events)
        await self._read_on()
        self._read_commits = commits

    async def _read_on(self) -> None:
        while True:
            found = await run_in_threadpool(self._read_entries, self._head)
            self._buffer.extend(map(_Line.of, found))
            self._head = found[-1].seq if found else self._head
            while len(self._buffer) > self._buffer_events:
                self._floor = self._buffer.popleft().seq
            if len(found) < EVENTS_AT_ONCE:
                return

    async def _read_from_log(self, seq: int, principal: Principal, form: EventFormat) -> EventBatch:
        """Read a piece of the log for a watcher that is behind the buffer."""
        head = self._head
        async with self._catching_up:
            found = await run_in_threadpool(self._read_events, seq, principal)
        lines = [form(event.seq, event.model_dump_json()) for event in found]
        if len(found) == EVENTS_AT_ONCE:
            return EventBatch(lines, found[-1].seq, behind=True)
        # Every event up to `head` was committed before this read: what is missing is not for this
        # caller.
        return EventBatch(lines, max(head, found[-1].seq if found else 0), behind=True)

    def _on_commit(self, topics: frozenset[Hashable]) -> None:
        # In the committing thread, which must not wait: it counts and wakes, and reads nothing.
        if "events" not in topics:
            return
        with self._lock:
            self._commits += 1
        loop = self._loop
        if loop is not None:
            # The loop may have closed: then no watcher is left.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._wake_watchers)

    def _is_waking(self) -> bool:
        return self._waking is not None and not self._waking.done()

    def _wake_watchers(self) -> None:
        """Have the watchers woken once the buffer has what was committed."""
        if self._is_stale() and not self._is_waking():
            self._waking = asyncio.create_task(self._read_and_wake())

    async def _read_and_wake(self) -> None:
        loop = asyncio.get_running_loop()
        while self._is_stale():
            pause = self.waiting * SECONDS_PER_WATCHER
            await asyncio.sleep(max(0.0, self._woken_at + pause - loop.time()))
            try:
                await self._refresh_buffer()
            except Exception:
                # The watchers, woken, read by themselves and are told.
                logger.warning("the event log cannot be read", exc_info=True)
                return
            finally:
                self._woken_at = loop.time()
                # Who waits now is woken; later ones wait on the new event.
                self._next_events.set()
                self._next_events = asyncio.Event()

    def _read_last(self) -> int:
        with self._store.read() as connection:
            return read_last_event(connection)

    def _read_entries(self, after: int) -> list[EventEntry]:
        with self._store.read() as connection:
            return list(read_entries(connection, after, EVENTS_AT_ONCE))

    def _read_events(self, after: int, principal: Principal) -> list[Event]:
        with self._store.read() as connection:
            return read_events(connection, principal, after, EVENTS_AT_ONCE)
