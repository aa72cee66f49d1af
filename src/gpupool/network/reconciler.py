"""Keeps the northbound database equal to the pool's networks.

The pool's database is the truth. A commit that touches a network, and any change of our rows by
others, makes that network be compared again; after a start and after each new connection all of
them are. An unchanged network costs no write, so a restart changes nothing on the wire.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from typing import Final

import sqlalchemy as sa

from gpupool.base.errors import NetworkingUnavailable
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.network.model import Network
from gpupool.network.northbound import compile_network
from gpupool.network.ovn.northbound_database import NorthboundDatabase
from gpupool.network.reading import read_networks
from gpupool.network.rows import ChangeSet, plan_changes
from gpupool.network.tables import networks
from gpupool.network.verification.twins import read_twins
from gpupool.store.database import Store

#: Networks in one transaction: a large one holds the database for long.
_AT_ONCE: Final = 100
#: Seconds between two looks at an idle connection, and between attempts to connect.
_LOOK_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


class NetworkReconciler:
    """A thread that writes networks to the engine: `start`, then `close`."""

    def __init__(self, store: Store, read_northbound: Callable[[], str | None]) -> None:
        self._store = store
        self._read_northbound = read_northbound
        self._lock = threading.Lock()
        #: Row ids of networks that were touched since they were compared.
        self._touched = set[int]()
        self._database: NorthboundDatabase | None = None
        self._closing = threading.Event()
        self._changed = threading.Event()
        self._thread = SupervisedThread("networks", self._run)
        store.notifier.add_listener(self._note_commit)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop; nothing on the wire changes. Idempotent."""
        self._closing.set()
        self._thread.stop()
        self._wake()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    def _note_commit(self, topics: frozenset[Hashable]) -> None:
        touched = {
            topic[1] for topic in topics if isinstance(topic, tuple) and topic[0] == "network"
        }
        if touched or "network-engine" in topics:
            with self._lock:
                self._touched |= touched
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        database = self._database
        if database is not None:
            database.session.wake()

    def _run(self) -> None:
        while not self._closing.is_set():
            remote = self._read_northbound()
            if remote is None:
                self._changed.wait(_LOOK_SECONDS)
                self._changed.clear()
                continue
            try:
                self._follow(remote)
            except NetworkingUnavailable as error:
                log.warning("networks wait for their engine: %s", error.message)
                self._closing.wait(_RETRY_SECONDS)

    def _follow(self, remote: str) -> None:
        """Write changes as they come, until the engine is at another place or off."""
        database = NorthboundDatabase(remote, self._store.pool_id)
        self._database = database
        try:
            self._compare_all(database)
            self._thread.mark_well()
            while not self._closing.is_set() and self._read_northbound() == remote:
                database.session.wait(_LOOK_SECONDS)
                with mark_busy():
                    self._compare_touched(database)
        finally:
            self._database = None
            database.close()

    def _compare_all(self, database: NorthboundDatabase) -> None:
        with self._lock:
            self._touched.clear()
        with self._store.read() as connection:
            wanted = _read_wanted(connection, None)
        keys = sorted(wanted.keys() | set(database.list_networks()))
        for first in range(0, len(keys), _AT_ONCE):
            changes = dict[str, ChangeSet]()
            for key in keys[first : first + _AT_ONCE]:
                network = wanted.get(key)
                rows = () if network is None else compile_network(network)
                changes[key] = plan_changes(rows, database.observe(key))
            database.apply(changes)

    def _compare_touched(self, database: NorthboundDatabase) -> None:
        database.session.refresh()
        keys = database.take_changed()
        with self._lock:
            touched = self._touched
            self._touched = set()
        with self._store.read() as connection:
            query = sa.select(networks.c.public_id).where(networks.c.id.in_(touched))
            keys |= set(connection.execute(query).scalars()) if touched else set()
            # Verifications have negative ids here: their networks are no rows of the table.
            keys |= set(read_twins(connection)) if min(touched, default=0) < 0 else set()
            # The key of a network that was deleted is known to the engine alone.
            gone = set(database.list_networks()) - _read_keys(connection) if touched else set()
            wanted = _read_wanted(connection, keys) if keys else {}
        changes = dict[str, ChangeSet]()
        for key in sorted(keys | gone):
            network = wanted.get(key)
            rows = () if network is None else compile_network(network)
            changes[key] = plan_changes(rows, database.observe(key))
        try:
            database.apply(changes)
        except NetworkingUnavailable:
            with self._lock:
                self._touched |= touched
            raise


def _read_keys(connection: sa.Connection) -> set[str]:
    keys = set(connection.execute(sa.select(networks.c.public_id)).scalars())
    return keys | set(read_twins(connection))


def _read_wanted(connection: sa.Connection, keys: set[str] | None) -> dict[str, Network]:
    """Read networks of tenants, and those that are made for verifications."""
    return {**read_networks(connection, keys), **read_twins(connection, keys)}
