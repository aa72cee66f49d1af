"""Runs a reconciler for each zone of networks, from when the zone is first reported."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Final

from gpupool.base.supervision import SupervisedThread
from gpupool.network.external.departure import Departure
from gpupool.network.reconciler import NetworkReconciler
from gpupool.network.zones.reports import list_reported
from gpupool.store.database import Store

#: Seconds between two looks without news.
_LOOK_SECONDS: Final = 30.0


class ZoneReconcilers:
    """The reconcilers of all zones: `start`, then `close`.

    That of a zone that has ended waits; the next network of that zone uses it again.
    """

    def __init__(
        self,
        store: Store,
        read_northbound: Callable[[int], str | None],
        departure: Departure | None = None,
    ) -> None:
        """Make the reconcilers.

        Args:
            departure: of an OVN that the pool joins, which carries zone 0 alone.
        """
        self._store = store
        self._read_northbound = read_northbound
        self._reconcilers = {0: NetworkReconciler(store, read_northbound, departure=departure)}
        self._closing = threading.Event()
        self._changed = threading.Event()
        self._thread = SupervisedThread("network-zones", self._run)
        store.notifier.add_listener(self._note_commit)

    def start(self) -> None:
        self._reconcilers[0].start()
        self._thread.start()

    def close(self) -> None:
        """Stop; nothing on the wire changes. Idempotent."""
        self._closing.set()
        self._thread.stop()
        self._changed.set()
        for one in list(self._reconcilers.values()):
            one.close()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)
        for one in list(self._reconcilers.values()):
            one.join(seconds)

    def _note_commit(self, topics: frozenset[Hashable]) -> None:
        if "network-engine" in topics:
            self._changed.set()

    def _run(self) -> None:
        while not self._closing.is_set():
            with self._store.read() as connection:
                zones = list_reported(connection)
            for zone in zones:
                if zone not in self._reconcilers:
                    self._begin(zone)
            self._thread.mark_well()
            self._changed.wait(_LOOK_SECONDS)
            self._changed.clear()

    def _begin(self, zone: int) -> None:
        made = NetworkReconciler(self._store, self._read_northbound, zone)
        self._reconcilers[zone] = made
        made.start()
        if self._closing.is_set():
            # It was closed meanwhile, without this one.
            made.close()
