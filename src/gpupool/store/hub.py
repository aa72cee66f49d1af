"""Wake-ups inside one server: who waits for a topic is told when a commit touched it.

A topic is any hashable (`("job", id)`, `("node", name)`, `"events"`). A wake-up says only
"look again": the truth is in the database, so a spurious one is harmless and none is lost
when the waiter registers before it reads.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress

logger = logging.getLogger(__name__)


class Ticket:
    """One waiter's registration; `wait` returns True when a topic was published, False after the time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    async def wait(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True

    def ring(self) -> None:
        with suppress(RuntimeError):  # the loop has closed, with its waiters
            self._loop.call_soon_threadsafe(self._event.set)


class Hub:
    """Thread-safe: published from any thread, awaited on any event loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tickets: dict[Hashable, set[Ticket]] = defaultdict(set)
        self._listeners: list[Callable[[frozenset[Hashable]], None]] = []

    def listen(self, callback: Callable[[frozenset[Hashable]], None]) -> None:
        """Call back after every commit, in the committing thread; must not block."""
        self._listeners.append(callback)

    @contextmanager
    def ticket(self, *topics: Hashable) -> Iterator[Ticket]:
        """Register on the running loop; read the state inside, then wait, then read again."""
        ticket = Ticket()
        with self._lock:
            for topic in topics:
                self._tickets[topic].add(ticket)
        try:
            yield ticket
        finally:
            with self._lock:
                for topic in topics:
                    self._tickets[topic].discard(ticket)
                    if not self._tickets[topic]:
                        del self._tickets[topic]

    def publish(self, topics: Iterable[Hashable]) -> None:
        told = frozenset(topics)
        with self._lock:
            tickets = {ticket for topic in told for ticket in self._tickets.get(topic, ())}
        for ticket in tickets:
            ticket.ring()
        for callback in self._listeners:
            try:
                callback(told)
            except Exception:
                logger.exception("a listener failed on %s", sorted(map(str, told)))
