"""Puts networks into zones, and moves them. Everything runs in the caller's transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import (
    NetworkingUnavailable,
    TooManyNetworks,
    UnknownNetwork,
    WrongState,
)
from gpupool.network.balancing.proxy_reading import has_proxies
from gpupool.network.engine_row import renew_work
from gpupool.network.external.membership import read_ovn, require_own_databases
from gpupool.network.lines.tables import network_lines
from gpupool.network.machines.service import read_machines
from gpupool.network.tables import network_engine, network_peerings, network_ports, networks
from gpupool.network.verification.tables import network_verifications
from gpupool.network.zones.placement import (
    MOST_TIMES,
    USUAL_SIZE,
    choose_zone,
    group_networks,
    place_groups,
)
from gpupool.store.write_transaction import WriteTransaction

_accepter = networks.alias("accepter")
_ACCEPTED = (
    sa.select(network_peerings.c.requester_id, _accepter.c.id)
    .join(_accepter, _accepter.c.public_id == network_peerings.c.accepter)
    .where(network_peerings.c.accepted_ns.is_not(None))
)


def count_networks(connection: sa.Connection) -> Counter[int]:
    """Count the networks of each zone that has some."""
    query = sa.select(networks.c.zone, sa.func.count()).group_by(networks.c.zone)
    return Counter({row[0]: row[1] for row in connection.execute(query)})


def list_zones(connection: sa.Connection) -> list[int]:
    """List the zones above 0 that have networks: the agent runs an engine for each."""
    return sorted(zone for zone in count_networks(connection) if zone)


def read_zone_size(connection: sa.Connection) -> int:
    """Read how many networks a zone has at most; peerings may exceed it."""
    found = connection.execute(sa.select(network_engine.c.zone_size)).scalar()
    return USUAL_SIZE if found is None else int(found)


def write_zone_size(write: WriteTransaction, size: int | None) -> None:
    """Change how many networks a zone has at most; None: as before. Networks stay where they are."""
    if size is not None:
        write.execute(network_engine.update().values(zone_size=size))


def place_network(write: WriteTransaction, wanted: int | None) -> int:
    """Choose the zone of a network that is about to be created; the agent begins a new zone.

    Args:
        wanted: what its owner asks for; None: any.

    Raises:
        NetworkingUnavailable: a zone above 0, and the engine has several machines.
        WrongState: a zone above 0, and the pool is in an OVN of others.
        UnknownNetwork: no network is in the zone that is asked for.
        TooManyNetworks: it has as many networks as it can take.
    """
    machines = len(read_machines(write.connection))
    counts = count_networks(write.connection)
    size = read_zone_size(write.connection)
    if wanted:
        require_own_databases(write.connection, f"zone {wanted} needs databases of its own")
    if wanted is not None:
        _require_usable(counts, wanted, size, machines)
        return wanted
    has_one = machines > 1 or read_ovn(write.connection) is not None
    zone = 0 if has_one else choose_zone(counts, size)
    if zone and not counts[zone]:
        _renew_zones(write)
    return zone


def _require_usable(counts: Counter[int], wanted: int, size: int, machines: int) -> None:
    if wanted and machines > 1:
        raise NetworkingUnavailable(
            f"zone {wanted} needs networks on one machine; they are on {machines}",
            hint="without --zone: networks on several machines are in zone 0",
        )
    if wanted and not counts[wanted]:
        used = ", ".join(str(zone) for zone in sorted({0, *counts}))
        raise UnknownNetwork(
            f"no network is in zone {wanted}; zones that are used: {used}",
            hint="without --zone the pool chooses one",
        )
    if not _has_room(counts, wanted, size):
        raise TooManyNetworks(
            f"zone {wanted} has {counts[wanted]} networks; {MOST_TIMES * size} is the most",
            hint="without --zone the pool chooses another one",
            limit=MOST_TIMES * size,
        )


def place_all(write: WriteTransaction, machines: int) -> None:
    """Place all networks when networking is enabled: no job is in one, so each can move.

    Args:
        machines: of the engine; several have zone 0 alone, and so has an OVN of others.
    """
    query = sa.select(networks.c.id, networks.c.zone)
    zones = {row.id: row.zone for row in write.execute(query)}
    if machines > 1 or read_ovn(write.connection) is not None:
        placed = dict.fromkeys(zones, 0)
    else:
        lines = write.execute(sa.select(network_lines.c.network_id)).scalars()
        peerings = [(row.requester_id, row.id) for row in write.execute(_ACCEPTED)]
        groups = group_networks(zones, peerings, frozenset(lines))
        placed = place_groups(groups, read_zone_size(write.connection))
    for network_id, zone in placed.items():
        if zones[network_id] != zone:
            _write_zone(write, network_id, zone)


def renew_without(write: WriteTransaction, network: Any) -> None:
    """Give agents their work again where a network that was deleted had its gateway or its zone."""
    if network.zone and not count_networks(write.connection)[network.zone]:
        _renew_zones(write)
    elif network.has_gateway:
        renew_work(write)


def join_zones(write: WriteTransaction, ours: Any, other_id: int) -> None:
    """Put two networks that are about to be peered into one zone; one that has no jobs moves.

    Args:
        ours: the row of the network whose owner asks.

    Raises:
        WrongState: neither can move.
    """
    other = write.execute(sa.select(networks).where(networks.c.id == other_id)).one()
    if ours.zone == other.zone:
        return
    obstacle = _find_obstacle(write.connection, ours, other.zone)
    if not obstacle:
        _move(write, ours, other.zone)
        return
    if not _find_obstacle(write.connection, other, ours.zone):
        _move(write, other, ours.zone)
        return
    raise WrongState(
        f"network {ours.name} is in zone {ours.zone} and the other one in zone {other.zone}; peered "
        f"networks share a zone, and neither can move: {ours.name} has {obstacle}",
        hint=f"gpupool network create NAME --cidr PREFIX --zone {other.zone}  makes a network beside "
        "the other one",
    )


def require_first_zone(network: Any, what: str) -> None:
    """Raise WrongState for what zone 0 alone can carry.

    Args:
        network: a row of `networks`.
        what: in the plural, as the message begins.
    """
    if network.zone:
        raise WrongState(
            f"{what} need a network of zone 0; {network.name} is in zone {network.zone}",
            hint="gpupool network create NAME --cidr PREFIX --zone 0",
        )


def refuse_machines(connection: sa.Connection, centre: str, agents: Sequence[str]) -> list[str]:
    """List the agents that cannot be machines of the engine, because it has zones."""
    if not list_zones(connection):
        return []
    return [agent for agent in agents if agent != centre]


def _renew_zones(write: WriteTransaction) -> None:
    renew_work(write)
    write.announce("network-engine")


def refuse_elsewhere(
    connection: sa.Connection, engine: Any, centre: str, databases: Collection[str] | None
) -> None:
    """Raise WrongState for a centre or databases elsewhere, where networks are in several zones.

    Args:
        engine: the row of the engine; None where it is off.
    """
    zones = [] if engine is None else list_zones(connection)
    if zones and {centre, *(databases or ())} != {engine.agent}:
        raise WrongState(
            f"networks are in {len(zones) + 1} zones, which need one machine: {engine.agent}",
            hint="without jobs in networks: gpupool network disable, then enable with the others; "
            "all networks are in zone 0 then",
        )


def _has_room(counts: Mapping[int, int], zone: int, size: int) -> bool:
    return counts.get(zone, 0) < MOST_TIMES * size


def _move(write: WriteTransaction, network: Any, zone: int) -> None:
    _write_zone(write, network.id, zone)
    data = {"network": network.public_id, "from": network.zone, "to": zone}
    write.event("network.moved", network.name, tenant_id=network.tenant_id, data=data)
    write.announce(("network", network.id))
    # Its gateway and its limits are of another zone now, and its zone may have lost its last network.
    _renew_zones(write)


def _write_zone(write: WriteTransaction, network_id: int, zone: int) -> None:
    changed = networks.update().where(networks.c.id == network_id)
    write.execute(changed.values(zone=zone))


def _find_obstacle(connection: sa.Connection, network: Any, zone: int) -> str:
    """Say what keeps a network from moving to a zone; empty: nothing."""
    counts = count_networks(connection)
    size = read_zone_size(connection)
    if not _has_room(counts, zone, size):
        return f"no room in zone {zone} ({counts[zone]} networks, {MOST_TIMES * size} at most)"
    if _count(connection, network_ports, network_ports.c.network_id == network.id):
        return "jobs"
    if has_proxies(connection, network.id):
        return "a load balancer of HTTP"
    if zone and _count(connection, network_lines, network_lines.c.network_id == network.id):
        return "a dedicated line, which zone 0 alone can carry"
    verified = sa.and_(
        network_verifications.c.network_id == network.id, network_verifications.c.state == "running"
    )
    if _count(connection, network_verifications, verified):
        return "a verification that runs"
    ends = sa.or_(network_peerings.c.requester_id == network.id, _accepter.c.id == network.id)
    if connection.execute(_ACCEPTED.where(ends)).first() is not None:
        return "another peering"
    return ""


def _count(connection: sa.Connection, table: sa.Table, condition: Any) -> int:
    query = sa.select(sa.func.count()).select_from(table).where(condition)
    return int(connection.execute(query).scalar_one())
