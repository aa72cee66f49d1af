"""The event log for its readers: pages of events, and the id of the log."""

from __future__ import annotations

from gpupool.allocations.views import events
from gpupool.model.tenant import Principal
from gpupool.store.database import Store
from gpupool.wire.common import Event


class EventService:
    """Reads the event log in short transactions. Thread-safe."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read_events(
        self, principal: Principal, after: int, limit: int, epoch: str | None = None
    ) -> list[Event]:
        """Read events of the pool and of the caller's tenant, in order.

        Args:
            principal: The caller; an admin reads the events of all tenants.
            after: The number of the last event that the caller has.
            limit: Events at most.
            epoch: The id of the log that `after` belongs to; None if the caller has none.

        Raises:
            EventsReset: `after` belongs to another log.
        """
        with self._store.read() as connection:
            events.check_resumable(connection, after, epoch)
            return events.read_events(connection, principal, after, limit)

    def read_event_epoch(self) -> str:
        """Return the id of the event log; it changes only while no server has the pool."""
        with self._store.read() as connection:
            return events.read_event_epoch(connection)
