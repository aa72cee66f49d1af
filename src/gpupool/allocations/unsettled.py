"""Gangs that the ledger says are to end or were not written to their end: settled part by part (decision 0025).

Whoever writes such a row settles it at once. What a server leaves that is killed meanwhile is settled by the next one
when it starts, and what a failure leaves is settled with the next look for jobs that make no progress.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from gpupool.allocations import gang_parts, progress
from gpupool.allocations.mirror import Mirror
from gpupool.base.errors import GpupoolError
from gpupool.store import replay
from gpupool.store.database import Store, Write

logger = logging.getLogger(__name__)


class UnsettledGangs:
    """Thread-safe. Every transaction concerns `together.MEMBERS_AT_ONCE` members at most."""

    def __init__(self, store: Store, mirror: Mirror) -> None:
        self._store, self._mirror = store, mirror
        self._lock = threading.Lock()
        self._writing = set[int]()
        """Gangs whose members are being written."""

    @contextmanager
    def begin(self) -> Iterator[Callable[[int], None]]:
        """Around the transaction that writes a gang's first members; it tells the gang's number."""
        with self._lock:
            yield self._writing.add

    @contextmanager
    def written(self, gang: int) -> Iterator[None]:
        """Around the writing of its other members: what is there of the gang is removed where that fails."""
        try:
            yield
        except BaseException:
            self._give_up(gang)
            raise
        finally:
            with self._lock:
                self._writing.discard(gang)

    def _give_up(self, gang: int) -> None:
        try:
            self.remove(gang)
        except GpupoolError as error:
            logger.warning("gang %s was not written to its end and is removed later: %s", gang, error)

    def settle(self) -> None:
        """Remove what was not written to its end, and stop what is to end. Idempotent."""
        with self._lock, self._store.read() as connection:
            writing = set(self._writing)
            rows = gang_parts.read_unsettled(connection)
        for row in rows:
            if row.missing and row.id not in writing:
                self.remove(row.id)
            elif row.ending is not None:
                self.stop_members(row.id)

    def remove(self, gang: int) -> None:
        """Nobody was told of it: nothing of it stays."""
        more = True
        while more:
            with replay.aside(), self._store.write(freeing=True) as write:
                more = gang_parts.remove_some(write, gang)

    def stop_members(self, gang: int) -> None:
        """Stop the members of a gang whose row says that they are to end."""
        for some in self.parts(gang, asked=False):
            with replay.aside(), self._store.write(freeing=True) as write:
                self.stop_some(gang, some, write)

    def parts(self, gang: int, *, asked: bool) -> Iterator[list[int]]:
        """The members that are to be stopped, as many at once as one transaction stops; see `members_to_stop`."""
        after = 0
        while True:
            with self._store.read() as connection:
                some = gang_parts.members_to_stop(connection, gang, after, asked=asked)
            if not some:
                return
            yield some
            after = some[-1]

    def stop_some(self, gang: int, members: list[int], write: Write) -> None:
        """Stop these members for the reason of their gang."""
        why, grace_s = gang_parts.why_it_ends(write.connection, gang)
        gone, asked = progress.stop_these(write, members, why, grace_s)
        write.note(partial(self._mirror.dequeue, gone))
        write.note(partial(self._mirror.note_leaving, asked))
