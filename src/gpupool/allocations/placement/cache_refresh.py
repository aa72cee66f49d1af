"""Reads into the cache what other packages changed: cards, tenants, reservations."""

from __future__ import annotations

import threading
from collections.abc import Collection, Hashable

import sqlalchemy as sa

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.ledger.cards import read_all_cards, read_cards
from gpupool.allocations.ledger.hosts import read_all_hosts
from gpupool.store.database import Store


class CacheRefresh:
    """Knows which parts of the cache are outdated. Thread-safe."""

    def __init__(self, store: Store, cache: LedgerCache) -> None:
        self._store = store
        self._cache = cache
        self._lock = threading.Lock()
        self._cards = False
        self._planes = False
        self._tenants = False
        self._reservations = False
        self._queue = False
        #: Whether cards may have become unhealthy since jobs were last moved away from them.
        self.has_new_cards = True

    def mark_topics(self, topics: Collection[Hashable]) -> None:
        """Mark the parts that a commit with these topics has changed."""
        # Without the lock: this runs in the thread of every commit, and must not wait for a
        # reading. Several commit at once, so a mark is only ever set here: written back as it was
        # read, it would clear the one that another thread has set meanwhile.
        planes = self._cache.planes
        if "fleet" in topics:
            self._cards = True
        # Peerings, gateways and subnets decide whether the management plane is in force.
        if planes.has_guests or (planes.is_used and any(map(_is_network, topics))):
            self._planes = True
        if "quota" in topics:
            self._tenants = True
        if "reservations" in topics:
            self._reservations = True
        if "budget-holds" in topics:
            self._queue = True

    def refresh(self) -> None:
        """Read the marked parts. What fails stays marked.

        Concurrent callers share one reading; it is done for all when the call returns.
        """
        with self._lock:
            self._release_due()
            # Each mark is cleared before its part is read: a commit meanwhile sets it again.
            cards = self._cards
            self._cards = False
            planes = self._planes
            self._planes = False
            tenants = self._tenants
            self._tenants = False
            reservations = self._reservations
            self._reservations = False
            queue = self._queue
            self._queue = False
            self.has_new_cards |= cards
            if not (cards or planes or tenants or reservations or queue):
                return
            try:
                self._read_parts(
                    cards=cards, planes=planes, tenants=tenants, reservations=reservations
                )
                if queue:
                    self._read_queue()
            except BaseException:
                self._cards |= cards
                self._planes |= planes
                self._tenants |= tenants
                self._reservations |= reservations
                self._queue |= queue
                raise

    def _release_due(self) -> None:
        """Let entries whose time has come take their turns."""
        with self._cache.lock:
            due = self._cache.waits.take_due(self._store.clock.now_ns())
            if due:
                self._cache.enqueue_jobs(due)

    def _read_queue(self) -> None:
        with self._store.read() as connection, self._cache.lock:
            self._cache.load_queue(connection)

    def _read_cards(self, connection: sa.Connection) -> None:
        needs = self._cache.planes.needs
        self._cache.load_cards(connection)
        if self._cache.planes.needs != needs:
            # The claims that wait need other labels than before.
            self._cache.load_queue(connection)

    def _read_parts(self, *, cards: bool, planes: bool, tenants: bool, reservations: bool) -> None:
        # The cache is locked while it is read: an older view must not replace a newer update.
        with self._store.read() as connection, self._cache.lock:
            if reservations:
                self._cache.load_reservations(connection)
            if cards or (planes and self._cache.planes.has_changed(connection)):
                self._read_cards(connection)
            if tenants:
                self._cache.load_tenants(connection)

    def read_allocated_amounts(self) -> None:
        """Read what is allocated of all cards and hosts; far less than all that is known of them.

        Tenants are read with the next refresh.
        """
        # Sums of tenants are not needed to see a free card, and reading them builds the quota tree.
        self._tenants = True
        with self._store.read() as connection:
            cards = read_all_cards(connection)
            hosts = read_all_hosts(connection)
        self._cache.record_cards(cards)
        self._cache.record_hosts(hosts)

    def read_cards(self, uuids: Collection[str]) -> None:
        """Read what is allocated of these cards."""
        with self._store.read() as connection:
            self._cache.record_cards(read_cards(connection, uuids))


def _is_network(topic: Hashable) -> bool:
    return topic == "network-engine" or (isinstance(topic, tuple) and topic[0] == "network")
