"""Wakes requests and threads of one server when a commit has changed their topic."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress

from gpupool.base.supervision import register

logger = logging.getLogger(__name__)


class TopicSubscription:
    """One waiter of some topics, registered by `CommitNotifier.subscribe`."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    async def wait_for_commit(self, seconds: float) -> bool:
        """Wait until a commit touches one of the topics.

        Args:
            seconds: Seconds to wait at most.

        Returns:
            True after a commit, False after the time.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._event.wait()
        except TimeoutError:
            return False
        self._event.clear()
        return True

    def wake(self) -> None:
        """Wake the waiter. May be called from any thread."""
        with suppress(RuntimeError):  # the loop has closed, with its waiters
            self._loop.call_soon_threadsafe(self._event.set)


class CommitNotifier:
    """Publishes topics of commits. Thread-safe: any thread publishes, any event loop waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscriptions: dict[Hashable, set[TopicSubscription]] = defaultdict(set)
        self._listeners: list[Callable[[frozenset[Hashable]], None]] = []

    def add_listener(self, callback: Callable[[frozenset[Hashable]], None]) -> None:
        """Call `callback` after every commit, in the committing thread. It must not block."""
        self._listeners.append(callback)

    @contextmanager
    def subscribe(self, *topics: Hashable) -> Iterator[TopicSubscription]:
        """Subscribe the running event loop to topics while the block runs.

        Read the state inside the block, then wait, then read again: no commit is missed.
        """
        subscription = TopicSubscription()
        with self._lock:
            for topic in topics:
                self._subscriptions[topic].add(subscription)
        try:
            yield subscription
        finally:
            with self._lock:
                for topic in topics:
                    self._subscriptions[topic].discard(subscription)
                    if not self._subscriptions[topic]:
                        del self._subscriptions[topic]

    def publish_topics(self, topics: Iterable[Hashable]) -> None:
        """Wake the waiters of these topics and call all listeners, whose errors are logged."""
        told = frozenset(topics)
        with self._lock:
            subscriptions = {
                subscription
                for topic in told
                for subscription in self._subscriptions.get(topic, ())
            }
        for subscription in subscriptions:
            subscription.wake()
        for callback in self._listeners:
            try:
                callback(told)
            except MemoryError:
                # It may have missed a mark that no later commit repeats.
                register.end_process("store")
                raise
            except Exception:
                logger.exception("a listener failed on %s", sorted(map(str, told)))
