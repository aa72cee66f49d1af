"""Reads mirrors for agents and for tenants, and ends those of jobs that end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.network.machines.tables import network_machines
from gpupool.network.mirroring.mirror_states import MirrorStates
from gpupool.network.mirroring.tables import network_mirrors
from gpupool.network.mirroring.tunnel_keys import find_tunnel_key
from gpupool.network.tables import network_ports
from gpupool.store.write_transaction import WriteTransaction
from gpupool.wire.network.mirrors import MirrorOut, MirrorWork

_source = network_ports.alias("source")
_target = network_ports.alias("target")
_MIRRORS = (
    sa.select(
        network_mirrors,
        _source.c.public_id.label("source_key"),
        _source.c.name.label("source_name"),
        _target.c.public_id.label("target_key"),
        _target.c.name.label("target_name"),
    )
    .join(_source, _source.c.id == network_mirrors.c.source_id)
    .join(_target, _target.c.id == network_mirrors.c.target_id)
    .order_by(network_mirrors.c.id)
)
# These belong to packages above this one, so their tables are named and not imported.
_NODES = sa.table("nodes", sa.column("id"), sa.column("agent"))
_ALLOCATIONS = sa.table("allocations", sa.column("id"), sa.column("node_id"))
#: The agent of each port of a mirror, with the address of its machine's tunnels.
_PLACES = (
    sa.select(network_ports.c.public_id, _NODES.c.agent, network_machines.c.tunnel)
    .select_from(network_ports)
    .join(
        network_mirrors,
        sa.or_(
            network_mirrors.c.source_id == network_ports.c.id,
            network_mirrors.c.target_id == network_ports.c.id,
        ),
    )
    .join(_ALLOCATIONS, _ALLOCATIONS.c.id == network_ports.c.allocation_id)
    .join(_NODES, _NODES.c.id == _ALLOCATIONS.c.node_id)
    .outerjoin(network_machines, network_machines.c.agent == _NODES.c.agent)
    .distinct()
)
_UNCONFIRMED = "the machine has not confirmed it yet"


def read_mirror_work(connection: sa.Connection) -> list[MirrorWork]:
    """Read every mirror of the pool; agents make those whose jobs they have."""
    rows = connection.execute(_MIRRORS).all()
    if not rows:
        return []
    places = {row.public_id: row for row in connection.execute(_PLACES)}
    found = list[MirrorWork]()
    for row in rows:
        work = MirrorWork(
            key=row.public_id,
            interface=row.name,
            source=row.source_key,
            target=row.target_key,
            direction=row.direction,
        )
        source = places[row.source_key]
        target = places[row.target_key]
        if source.agent != target.agent:
            work.source_tunnel = source.tunnel or ""
            work.target_tunnel = target.tunnel or ""
            work.tunnel_key = find_tunnel_key(row.public_id)
        found.append(work)
    return found


def describe_mirrors(
    connection: sa.Connection, network: Any, states: MirrorStates
) -> list[MirrorOut]:
    """Describe the mirrors of a network, the oldest first."""
    query = _MIRRORS.where(network_mirrors.c.network_id == network.id)
    found = list[MirrorOut]()
    for row in connection.execute(query):
        reading = states.get(row.public_id)
        out = MirrorOut(
            id=row.public_id,
            name=row.name,
            network=network.name,
            source=row.source_name,
            target=row.target_name,
            direction=row.direction,
            state="not enforced",
            reason=_UNCONFIRMED,
            created_ns=row.created_ns,
        )
        if reading is not None and reading.reason:
            out.reason = reading.reason
        elif reading is not None:
            out.state = "verified" if reading.packets else "set"
            out.reason = ""
            out.packets = reading.packets
            out.bytes = reading.bytes
        found.append(out)
    return found


def delete_port_mirrors(write: WriteTransaction, port_ids: Sequence[int]) -> bool:
    """Delete the mirrors of ports that are about to go, and say whether there were some."""
    ours = sa.or_(
        network_mirrors.c.source_id.in_(port_ids), network_mirrors.c.target_id.in_(port_ids)
    )
    return bool(write.execute(network_mirrors.delete().where(ours)).rowcount)
