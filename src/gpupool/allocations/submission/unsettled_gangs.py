"""Settles gangs that are to end or were not written to their end, part by part.

The writer of such a row settles it at once. The next server settles what a killed one left, and the
search for overdue jobs what a failure left (decision 0025).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.lifecycle import stop_requests
from gpupool.allocations.submission import gang_parts
from gpupool.base.errors import GpupoolError
from gpupool.store import idempotency
from gpupool.store.database import Store, WriteTransaction

logger = logging.getLogger(__name__)


class UnsettledGangs:
    """Gangs being written, removed or stopped. Thread-safe.

    A transaction concerns at most `gang_lifecycle.MEMBERS_AT_ONCE` members.
    """

    def __init__(self, store: Store, cache: LedgerCache) -> None:
        self._store = store
        self._cache = cache
        self._lock = threading.Lock()
        #: Gangs whose members are being written.
        #: Without it `settle_all` would remove them as left over from a failed writing.
        self._writing = set[int]()

    @contextmanager
    def begin_writing(self) -> Iterator[Callable[[int], None]]:
        """Guard the transaction that writes a gang's first members; yields a callback."""
        # The callback is called at the commit. The lock keeps `settle_all` from reading between
        # the commit and the call.
        with self._lock:
            yield self._writing.add

    @contextmanager
    def remove_on_failure(self, gang: int) -> Iterator[None]:
        """Guard the writing of the other members: a failure removes the gang."""
        try:
            yield
        except BaseException:
            self._try_remove(gang)
            raise
        finally:
            with self._lock:
                self._writing.discard(gang)

    def _try_remove(self, gang: int) -> None:
        try:
            self.remove_gang(gang)
        except GpupoolError as error:
            logger.warning(
                "gang %s was not written to its end and is removed later: %s", gang, error
            )

    def settle_all(self) -> None:
        """Remove gangs that were written in part, and stop those that are to end. Idempotent."""
        with self._lock, self._store.read() as connection:
            writing = set(self._writing)
            rows = gang_parts.read_unsettled(connection)
        for row in rows:
            if row.missing and row.id not in writing:
                self.remove_gang(row.id)
            elif row.ending is not None:
                self.stop_members(row.id)

    def remove_gang(self, gang: int) -> None:
        """Remove all of a gang that no client was told of."""
        more = True
        while more:
            with idempotency.defer_key(), self._store.write(freeing=True) as write:
                more = gang_parts.remove_members(write, gang)

    def stop_members(self, gang: int) -> None:
        """Stop the members of a gang whose row says that they are to end."""
        for some in self.list_parts_to_stop(gang, asked=False):
            with idempotency.defer_key(), self._store.write(freeing=True) as write:
                self.stop_part(gang, some, write)

    def list_parts_to_stop(self, gang: int, *, asked: bool) -> Iterator[list[int]]:
        """Yield the members to stop, as many as one transaction stops."""
        # By the last id and not by what is left: with `asked`, members that were stopped are still
        # live and would be found again for ever.
        after = 0
        while True:
            with self._store.read() as connection:
                some = gang_parts.read_members_to_stop(connection, gang, after, asked=asked)
            if not some:
                return
            yield some
            after = some[-1]

    def stop_part(self, gang: int, members: list[int], write: WriteTransaction) -> int:
        """Stop these members for the reason of their gang; return how many were not stopped yet."""
        why, grace_s = gang_parts.read_end_reason(write.connection, gang)
        gone, asked = stop_requests.stop_jobs(write, members, why, grace_s)
        write.note(partial(self._cache.dequeue_jobs, gone))
        write.note(partial(self._cache.record_leaving_jobs, asked))
        return len(gone) + len(asked)
