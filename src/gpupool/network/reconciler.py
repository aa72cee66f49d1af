"""Keeps the northbound database equal to the pool's networks.

The pool's database is the truth. A commit that touches a network, and any change of our rows by
others, makes that network be compared again; after a start and after each new connection all of
them are. An unchanged network costs no write, so a restart changes nothing on the wire.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Hashable
from typing import Final

import sqlalchemy as sa

from gpupool.base.errors import NetworkingUnavailable
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.network.external.departure import Departure
from gpupool.network.gateways.model import GatewayPair
from gpupool.network.gateways.reading import read_pair
from gpupool.network.gateways.rows import PAIR_KEY, compile_pair
from gpupool.network.model import Network
from gpupool.network.northbound import compile_network
from gpupool.network.ovn.northbound_database import NorthboundDatabase
from gpupool.network.reading import read_networks
from gpupool.network.rows import ChangeSet, NorthboundRow, plan_changes
from gpupool.network.tables import networks
from gpupool.network.verification.twins import read_twins
from gpupool.network.zones.service import list_zones
from gpupool.store.database import Store

#: Networks in one transaction: a large one holds the database for long.
_AT_ONCE: Final = 100
#: Seconds between two looks at an idle connection, and between attempts to connect.
_LOOK_SECONDS: Final = 30.0
_RETRY_SECONDS: Final = 1.0

log = logging.getLogger(__name__)


class NetworkReconciler:
    """A thread that writes the networks of a zone to its database: `start`, then `close`."""

    def __init__(
        self,
        store: Store,
        read_northbound: Callable[[int], str | None],
        zone: int = 0,
        departure: Departure | None = None,
    ) -> None:
        """Make the thread.

        Args:
            read_northbound: returns where the database of a zone is; None while it is not ready.
            departure: says where rows are to be deleted meanwhile; None: they end with the engine.
        """
        self._store = store
        self._zone = zone
        self._read_northbound = read_northbound
        self._departure = departure
        self._lock = threading.Lock()
        #: Row ids of networks that were touched since they were compared.
        self._touched = set[int]()
        #: Networks whose rows the database refused, by public id.
        self._refused = set[str]()
        self._database: NorthboundDatabase | None = None
        self._closing = threading.Event()
        self._changed = threading.Event()
        name = f"networks-{zone}" if zone else "networks"
        self._thread = SupervisedThread(name, self._run)
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
            remote = self._read_northbound(self._zone)
            if remote is None:
                is_done = self._delete_rows()
                self._changed.wait(_LOOK_SECONDS if is_done else _RETRY_SECONDS)
                self._changed.clear()
                continue
            try:
                self._follow(remote)
            except NetworkingUnavailable as error:
                log.warning("networks wait for their engine: %s", error.message)
                self._closing.wait(_RETRY_SECONDS)

    def _delete_rows(self) -> bool:
        """Delete the pool's rows where it leaves an OVN of others; false: not yet."""
        departure = self._departure
        remote = None if departure is None else departure.read_remote()
        if departure is None or remote is None:
            return True
        try:
            database = NorthboundDatabase(remote, self._store.pool_id)
            try:
                keys = database.list_networks()
                # What networks refer to goes last.
                keys.sort(key=lambda key: (key == PAIR_KEY, key))
                for first in range(0, len(keys), _AT_ONCE):
                    database.apply(
                        {
                            key: plan_changes((), database.observe(key))
                            for key in keys[first : first + _AT_ONCE]
                        }
                    )
            finally:
                database.close()
        except NetworkingUnavailable as error:
            departure.note(f"the pool's rows are not deleted yet: {error.message}")
            return False
        departure.note("")
        return True

    def _follow(self, remote: str) -> None:
        """Write changes as they come, until the engine is at another place or off."""
        database = NorthboundDatabase(remote, self._store.pool_id)
        self._database = database
        try:
            self._compare_all(database)
            self._thread.mark_well()
            while not self._closing.is_set() and self._read_northbound(self._zone) == remote:
                database.session.wait(_RETRY_SECONDS if self._refused else _LOOK_SECONDS)
                with mark_busy():
                    self._compare_touched(database)
        finally:
            self._database = None
            database.close()

    def _compare_all(self, database: NorthboundDatabase) -> None:
        with self._lock:
            self._touched.clear()
        with self._store.read() as connection:
            wanted = _read_wanted(connection, None, self._zone)
        keys = sorted((wanted.keys() | set(database.list_networks())) - {PAIR_KEY})
        # The rows that networks refer to come first, and go last.
        keys.insert(0 if PAIR_KEY in wanted else len(keys), PAIR_KEY)
        for first in range(0, len(keys), _AT_ONCE):
            changes = dict[str, ChangeSet]()
            for key in keys[first : first + _AT_ONCE]:
                changes[key] = plan_changes(_compile(wanted.get(key)), database.observe(key))
            self._apply(database, changes)

    def _apply(self, database: NorthboundDatabase, changes: dict[str, ChangeSet]) -> None:
        """Make changes; what the database refuses of one network keeps no other one waiting."""
        try:
            database.apply(changes)
            self._refused -= changes.keys()
            return
        except NetworkingUnavailable as error:
            if not error.details.get("is_refused"):
                raise
            if len(changes) == 1:
                (key,) = changes
                if key not in self._refused:
                    log.warning("the rows of %s are not as they should be: %s", key, error.message)
                self._refused.add(key)
                return
        for key, change in changes.items():
            self._apply(database, {key: change})

    def _compare_touched(self, database: NorthboundDatabase) -> None:
        database.session.refresh()
        keys = database.take_changed()
        with self._lock:
            touched = self._touched
            self._touched = set()
        with self._store.read() as connection:
            query = sa.select(networks.c.id, networks.c.public_id, networks.c.zone).where(
                networks.c.id.in_(touched)
            )
            present = {row.id: row for row in connection.execute(query)}
            keys |= {row.public_id for row in present.values() if row.zone == self._zone}
            # Verifications have negative ids here: their networks are no rows of the table.
            is_verifying = min(touched, default=0) < 0
            keys |= set(read_twins(connection, zone=self._zone)) if is_verifying else set()
            # Nor is this the id of a network: it is the pair's of gateways.
            keys |= {PAIR_KEY} if 0 in touched and not self._zone else set()
            known = set(database.list_networks())
            keys |= self._refused
            # One that moved to another zone leaves this one.
            gone = {row.public_id for row in present.values() if row.zone != self._zone} & known
            if touched - present.keys():
                # The key of a network that was deleted is known to the engine alone.
                gone |= known - _read_keys(connection, self._zone)
            wanted = _read_wanted(connection, keys, self._zone) if keys else {}
        changes = dict[str, ChangeSet]()
        for key in sorted(keys | gone):
            changes[key] = plan_changes(_compile(wanted.get(key)), database.observe(key))
        try:
            self._apply(database, changes)
        except NetworkingUnavailable:
            with self._lock:
                self._touched |= touched
            raise


def _read_keys(
    connection: sa.Connection, zone: int, keys: Collection[str] | None = None
) -> set[str]:
    """Read the keys of all that may have rows in the database of a zone.

    Args:
        keys: what is chosen from; None: all.
    """
    query = sa.select(networks.c.public_id).where(networks.c.zone == zone)
    if keys is not None:
        query = query.where(networks.c.public_id.in_(keys))
    found = set(connection.execute(query).scalars())
    found |= set(read_twins(connection, keys, zone))
    if zone == 0 and (keys is None or PAIR_KEY in keys):
        found.add(PAIR_KEY)
    return found


def _read_wanted(
    connection: sa.Connection, keys: set[str] | None, zone: int
) -> dict[str, Network | GatewayPair]:
    """Read networks of tenants, those made for verifications, and the pair of gateways.

    Args:
        keys: what is read, as far as it is of the zone; None: all of the zone.
    """
    if zone or list_zones(connection):
        # Rows of a network that has moved away may change once more here.
        keys = _read_keys(connection, zone, keys)
    found: dict[str, Network | GatewayPair] = {
        **read_networks(connection, keys),
        **read_twins(connection, keys),
    }
    pair = read_pair(connection) if keys is None or PAIR_KEY in keys else None
    return found if pair is None else {**found, PAIR_KEY: pair}


def _compile(wanted: Network | GatewayPair | None) -> tuple[NorthboundRow, ...]:
    if wanted is None:
        return ()
    return compile_pair(wanted) if isinstance(wanted, GatewayPair) else compile_network(wanted)
