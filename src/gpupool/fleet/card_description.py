"""Cards as a caller sees them: their rows, latest samples, mode switches and MPS owners."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.fleet import modes
from gpupool.fleet.lookup import select_cards
from gpupool.fleet.tables import devices
from gpupool.fleet.views import DeviceObservation, device_out
from gpupool.model.claim import describe_owner
from gpupool.model.tenant import Principal
from gpupool.wire.fleet import DeviceOut

#: Returns the owner of each card that serves MPS clients, by uuid.
OwnerLookup = Callable[[], Mapping[str, str]]


class CardDescriber:
    """Describes cards for answers. Thread-safe."""

    def __init__(self, get_usage: Callable[[str], DeviceObservation | None]) -> None:
        self._get_usage = get_usage
        #: The package that holds the ledger sets it: which card has which owner follows from jobs.
        self.list_owners: OwnerLookup = dict

    def describe_cards(
        self, connection: sa.Connection, rows: Sequence[Any], principal: Principal
    ) -> list[DeviceOut]:
        """Describe rows of `lookup.select_cards`."""
        switches = modes.read_switches(connection)
        owners = self.list_owners()
        return [self._describe(row, principal, switches, owners) for row in rows]

    def read_cards(
        self, connection: sa.Connection, rows: Sequence[Any], principal: Principal
    ) -> list[DeviceOut]:
        """Read the cards of these rows again and describe them, in the same order."""
        ids = [row.id for row in rows]
        found = connection.execute(select_cards().where(devices.c.id.in_(ids))).all()
        shown = self.describe_cards(connection, found, principal)
        by_id = {row.id: one for row, one in zip(found, shown, strict=True)}
        return [by_id[row_id] for row_id in ids]

    def _describe(
        self,
        row: Any,
        principal: Principal,
        switches: Mapping[int, Any],
        owners: Mapping[str, str],
    ) -> DeviceOut:
        owner = None
        # The owner of an empty card means nothing.
        if row.uuid in owners and (row.used_milli or row.used_bytes):
            everything = principal.sees_all
            owner = describe_owner(owners[row.uuid], principal.tenant, everything=everything)
        return device_out(
            row,
            row.node_name,
            self._get_usage(row.uuid),
            names_shown=principal.sees_all,
            switch=modes.describe_switch(row, switches.get(row.id)),
            owner=owner,
        )
