"""The map of the pool, ready to be sent: built once for all callers of a tenant, until it changes.

A caller that has an earlier answer gets the cards that differ.
"""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from gpupool.allocations.cache.ledger_cache import LedgerCache
from gpupool.allocations.placement.placer import Placer
from gpupool.allocations.views.card_shares import list_card_shares
from gpupool.allocations.views.map_changes import MapHistory
from gpupool.allocations.views.pool_map import (
    CardRoster,
    build_map,
    read_cluster_use,
    read_roster,
)
from gpupool.base.ids import new_id
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.fleet.service import FleetService
from gpupool.metering.service import MeteringService
from gpupool.model.tenant import Principal
from gpupool.store.database import Store
from gpupool.wire.views.pool_map import CardShareOut, MapChangesOut, MapOut

#: Seconds for which the map shows the same use of cards: agents send samples all the time, and
#: each other map is sent to every console.
USE_SECONDS = 5
#: Maps that are stored, one for each tenant; each is 100 KB for 10,000 cards.
MOST_MAPS = 64
#: Of gzip: level 6 takes twice the time for 5 % fewer bytes.
_LEVEL = 4


@dataclass(frozen=True)
class EncodedMap:
    """A map as it is sent. The tag is that of its content, so equal maps have equal tags."""

    tag: str
    body: bytes
    compressed: bytes


class _MapState(NamedTuple):
    """What a stored map was built from; another state may be another map."""

    seq: int
    generation: int
    roster: int
    period: int


class _KnownMap:
    """The map of one tenant's callers, and its changes until now."""

    def __init__(self, history: MapHistory) -> None:
        self.history = history
        self.state: _MapState | None = None
        self.found: MapOut | None = None
        #: Made for the first caller that asks for all of it.
        self.encoded: EncodedMap | None = None


class PoolMapService:
    """Serves the map. Thread-safe; callers at the same time share one building."""

    def __init__(
        self,
        store: Store,
        fleet: FleetService,
        metering: MeteringService,
        cache: LedgerCache,
        placer: Placer,
    ) -> None:
        self._store = store
        self._fleet = fleet
        self._metering = metering
        self._cache = cache
        self._placer = placer
        self._lock = threading.Lock()
        self._maps: OrderedDict[str | None, _KnownMap] = OrderedDict()
        self._roster: tuple[int, CardRoster] | None = None
        #: Commits that changed cards or nodes.
        self._changes = 0
        store.notifier.add_listener(self._count_change)

    def read_map(self, principal: Principal) -> EncodedMap:
        """Return the map as the caller may see it; no query where nothing has changed."""
        self._placer.refresh_cache()
        with self._lock:
            known = self._refresh(principal)
            if known.encoded is None:
                assert known.found is not None
                known.encoded = _encode(known.found)
            return known.encoded

    def read_changes(self, principal: Principal, cursor: str) -> MapChangesOut | None:
        """Return what has changed since the answer of a cursor; None: ask for the whole map."""
        self._placer.refresh_cache()
        with self._lock:
            return self._refresh(principal).history.list_changes(cursor)

    def _refresh(self, principal: Principal) -> _KnownMap:
        """Return the map of now. Under the lock."""
        tenant = None if principal.sees_all else principal.tenant
        # Read before the snapshot: the map may contain more than its number says, never less.
        seq = self._store.noted_seq
        changes = self._changes
        period = self._store.clock.now_ns() // (USE_SECONDS * NANOS_PER_SECOND)
        state = _MapState(seq, self._cache.generation, changes, period)
        known = self._maps.get(tenant)
        if known is None:
            known = self._maps[tenant] = _KnownMap(MapHistory(new_id("m")))
        if known.state != state:
            known.found = known.history.note(self._build(seq, changes, tenant))
            known.state = state
            known.encoded = None
        self._maps.move_to_end(tenant)
        while len(self._maps) > MOST_MAPS:
            self._maps.popitem(last=False)
        return known

    def _build(self, seq: int, changes: int, tenant: str | None) -> MapOut:
        with self._store.read() as connection:
            if self._roster is None or self._roster[0] != changes:
                self._roster = changes, read_roster(connection)
            roster = self._roster[1]
            clusters = read_cluster_use(connection, roster)
        busy = self._fleet.list_busy_percent()
        return build_map(seq, roster, self._cache.build_snapshot(), clusters, busy, tenant)

    def _count_change(self, topics: frozenset[Hashable]) -> None:
        # In the committing thread, which must not wait.
        if "fleet" in topics:
            self._changes += 1

    def list_card_shares(self, device: str, principal: Principal) -> list[CardShareOut]:
        """List the shares of one card, in the order of the map.

        Raises:
            NotFound: The pool has no such card.
        """
        with self._store.read() as connection:
            return list_card_shares(connection, device, principal, self._metering.compute_use)


def _encode(found: MapOut) -> EncodedMap:
    body = found.model_dump_json().encode()
    # Without the time in the header of gzip, equal maps are equal bytes.
    compressed = gzip.compress(body, _LEVEL, mtime=0)
    digest = hashlib.blake2b(body, digest_size=8).hexdigest()
    return EncodedMap(f"{found.seq}-{digest}", body, compressed)
