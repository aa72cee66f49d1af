"""Ports in security groups. Everything runs in the caller's transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import UnknownNetwork
from gpupool.network.security.tables import port_groups, security_groups, security_rules
from gpupool.store.write_transaction import WriteTransaction


def find_group(connection: sa.Connection, network_id: int, network: str, name: str) -> Any:
    """Return the row of a group of a network. Raises UnknownNetwork.

    Args:
        network: name of the network, for the error.
    """
    query = sa.select(security_groups).where(
        security_groups.c.network_id == network_id, security_groups.c.name == name
    )
    row = connection.execute(query).one_or_none()
    if row is None:
        raise UnknownNetwork(
            f"network {network} has no security group {name[:80]!r}",
            hint=f"gpupool network group-list {network}",
        )
    return row


def find_group_ids(
    connection: sa.Connection, network_id: int, network: str, names: Iterable[str]
) -> list[int]:
    """Return the row ids of groups of a network, sorted. Raises UnknownNetwork."""
    return sorted(find_group(connection, network_id, network, name).id for name in set(names))


def find_group_names(
    connection: sa.Connection, network_id: int | None, group_ids: Sequence[int]
) -> list[str]:
    """Return the names of groups of a network by their row ids, without those that are gone."""
    query = sa.select(security_groups.c.name).where(
        security_groups.c.network_id == network_id, security_groups.c.id.in_(group_ids)
    )
    return list(connection.execute(query.order_by(security_groups.c.name)).scalars())


def join_groups(write: WriteTransaction, port_id: int, group_ids: Sequence[int]) -> None:
    """Put a new port into groups."""
    for group_id in group_ids:
        write.execute(port_groups.insert().values(port_id=port_id, group_id=group_id))


def leave_groups(write: WriteTransaction, port_ids: Sequence[int]) -> None:
    """Take ports that are about to go out of their groups. Idempotent."""
    write.execute(port_groups.delete().where(port_groups.c.port_id.in_(port_ids)))


def delete_groups(write: WriteTransaction, network_id: int) -> None:
    """Delete the groups of a network that is deleted."""
    ours = sa.select(security_groups.c.id).where(security_groups.c.network_id == network_id)
    write.execute(security_rules.delete().where(security_rules.c.group_id.in_(ours)))
    write.execute(security_groups.delete().where(security_groups.c.network_id == network_id))
