"""Reads and writes the rows of one pool in an OVN northbound database.

Each row of ours names its pool, network and key in `external_ids`. Rows without these are neither
read nor changed, so the database may have other users. One thread at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final

from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.ovn.session import OvsdbSession
from gpupool.network.rows import ChangeSet, NorthboundRow, RowUpdate, Value

#: Keys in `external_ids`.
POOL: Final = "gpupool-pool"
NETWORK: Final = "gpupool-network"
KEY: Final = "gpupool-key"

#: By table, the columns with values that are ours (ovn-nb(5)).
_COLUMNS: Final[Mapping[str, tuple[str, ...]]] = {
    "Logical_Router": ("name",),
    "Logical_Router_Port": ("name", "mac", "networks", "peer", "options", "ipv6_ra_configs"),
    "Logical_Switch": ("name",),
    "Logical_Switch_Port": ("name", "type", "addresses", "port_security", "options", "tag"),
    "DHCP_Options": ("cidr", "options"),
    "DNS": ("records",),
    "Logical_Router_Static_Route": ("ip_prefix", "nexthop"),
    "Logical_Router_Policy": ("priority", "match", "action", "nexthops"),
    "Gateway_Chassis": ("name", "chassis_name", "priority"),
    "HA_Chassis_Group": ("name",),
    "HA_Chassis": ("chassis_name",),
    "Port_Group": ("name",),
    "Load_Balancer": ("name", "protocol", "vips", "ip_port_mappings", "options"),
    "Load_Balancer_Health_Check": ("vip", "options"),
    "ACL": ("direction", "priority", "match", "action", "log", "severity", "meter", "name"),
    "Meter": ("name", "unit"),
    "Meter_Band": ("action", "rate", "burst_size"),
    "QoS": ("direction", "priority", "match", "bandwidth"),
    "NAT": ("type", "external_ip", "logical_ip"),
}
#: By table, the columns that refer to other rows.
_REFERENCES: Final[Mapping[str, tuple[str, ...]]] = {
    "Logical_Router": ("ports", "static_routes", "nat", "load_balancer", "policies"),
    "Logical_Router_Port": ("gateway_chassis", "ha_chassis_group"),
    "HA_Chassis_Group": ("ha_chassis",),
    "Logical_Switch": ("ports", "dns_records", "load_balancer", "qos_rules"),
    "Load_Balancer": ("health_check",),
    "Logical_Switch_Port": ("dhcpv4_options", "dhcpv6_options"),
    "Port_Group": ("ports", "acls"),
    "Meter": ("bands",),
}
#: By table, the columns that are written with a row and are others' from then on: watchdogs of
#: gateways write priorities without the server.
_INITIAL: Final[Mapping[str, tuple[str, ...]]] = {"HA_Chassis": ("priority",)}


class NorthboundDatabase:
    """The rows of one pool, followed as they change."""

    def __init__(self, remote: str, pool: str) -> None:
        """Connect and read. Raises NetworkingUnavailable."""
        self._pool = pool
        self._rows: dict[str, Any] = {}
        self._keys: dict[str, set[str]] = defaultdict(set)
        self._owners: dict[Any, tuple[str, str]] = {}
        self._changed = set[str]()
        columns = {
            table: (
                *_COLUMNS[table],
                *_REFERENCES.get(table, ()),
                *_INITIAL.get(table, ()),
                "external_ids",
            )
            for table in _COLUMNS
        }
        self._session = OvsdbSession(remote, "OVN_Northbound", columns, self._note_row)

    @property
    def session(self) -> OvsdbSession:
        return self._session

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._session.close()

    def list_networks(self) -> list[str]:
        """List the networks that have rows."""
        return sorted(self._keys)

    def take_changed(self) -> set[str]:
        """Return the networks whose rows have changed since the last call, by any client."""
        changed = self._changed
        self._changed = set()
        return changed

    def observe(self, network: str) -> dict[str, NorthboundRow]:
        """Return the rows of a network by key, as the server has them now."""
        self._session.refresh()
        return {key: self._read_row(self._rows[key]) for key in self._keys.get(network, ())}

    def apply(self, changes: Mapping[str, ChangeSet]) -> None:
        """Make the changes of some networks in one transaction.

        Raises NetworkingUnavailable; then nothing was changed, or all of it. With `is_refused` in
        `details` the database takes none of it.
        """
        if any(changes.values()):
            self._session.commit(lambda transaction: self._write(transaction, changes))

    def _write(self, transaction: Any, changes: Mapping[str, ChangeSet]) -> None:
        made = dict[str, Any]()
        for network, change in changes.items():
            for row in change.created:
                made[row.key] = self._find_written(row) or self._insert(transaction, network, row)
        for change in changes.values():
            for row in change.created:
                for column, keys in row.references.items():
                    setattr(made[row.key], column, self._resolve(keys, made))
            for update in change.updated:
                self._update(update, made)
            for row in change.deleted:
                if row.key in self._rows:
                    self._rows[row.key].delete()

    def _find_written(self, wanted: NorthboundRow) -> Any:
        """Find a row that an attempt before has written whose answer was lost; None: there is none."""
        present = self._rows.get(wanted.key)
        is_written = present is not None and present._table.name == wanted.table
        return present if is_written else None

    def _insert(self, transaction: Any, network: str, wanted: NorthboundRow) -> Any:
        row = transaction.insert(self._session.get_table(wanted.table))
        row.external_ids = {POOL: self._pool, NETWORK: network, KEY: wanted.key}
        for column, value in (*wanted.columns.items(), *wanted.initial.items()):
            setattr(row, column, _encode(value))
        return row

    def _update(self, update: RowUpdate, made: Mapping[str, Any]) -> None:
        row = self._find_row(update.key)
        for column, value in update.columns.items():
            setattr(row, column, _encode(value))
        # Added and removed one by one: what others have put into the set stays.
        for column, keys in update.removed.items():
            for key in keys & self._rows.keys():
                row.delvalue(column, self._rows[key])
        for column, keys in update.added.items():
            for other in self._resolve(keys, made):
                row.addvalue(column, other)

    def _resolve(self, keys: Iterable[str], made: Mapping[str, Any]) -> list[Any]:
        return [made[key] if key in made else self._find_row(key) for key in sorted(keys)]

    def _find_row(self, key: str) -> Any:
        """Find a row of ours. Refuses where a client deleted it, or it was refused itself."""
        if key not in self._rows:
            raise NetworkingUnavailable(
                f"the database has no row {key}, which a change needs", is_refused=True
            )
        return self._rows[key]

    def _note_row(self, event: str, row: Any) -> None:
        """Follow a row of ours: the copy calls it with each change."""
        known = self._owners.pop(row.uuid, None)
        if known is not None:
            network, key = known
            self._changed.add(network)
            self._rows.pop(key, None)
            self._keys[network].discard(key)
            if not self._keys[network]:
                del self._keys[network]
        if event == "delete":
            return
        marks = row.external_ids
        if marks.get(POOL) != self._pool or KEY not in marks:
            return
        network = marks.get(NETWORK, "")
        self._changed.add(network)
        self._owners[row.uuid] = (network, marks[KEY])
        self._rows[marks[KEY]] = row
        self._keys[network].add(marks[KEY])

    def _read_row(self, row: Any) -> NorthboundRow:
        table = row._table.name
        columns = {name: _decode(getattr(row, name)) for name in _COLUMNS[table]}
        references = dict[str, frozenset[str]]()
        for name in _REFERENCES.get(table, ()):
            references[name] = self._list_keys(getattr(row, name))
        return NorthboundRow(table, row.external_ids[KEY], columns, references)

    def _list_keys(self, rows: Iterable[Any]) -> frozenset[str]:
        """Return the keys of those rows that are ours."""
        found = (self._owners.get(row.uuid) for row in rows)
        return frozenset(owner[1] for owner in found if owner is not None)


def _encode(value: Value) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _decode(value: Any) -> Value:
    if isinstance(value, list):
        return tuple(sorted(value))
    return dict(value) if isinstance(value, Mapping) else value
