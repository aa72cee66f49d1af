"""Reads floating IPs for the compiler, for tenants, and for agents that translate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import StillInUse, TooManyNetworks
from gpupool.network.addresses import choose_number
from gpupool.network.engine_row import read_engine_row
from gpupool.network.floating.model import INNER_NUMBERS, FloatingIp, make_inner_address
from gpupool.network.floating.tables import floating_ips
from gpupool.network.gateways.reading import read_pair_row
from gpupool.network.tables import network_ports, networks
from gpupool.wire.network.floating_ips import FloatingIpOut, FloatingIpWork

_ALL = sa.select(floating_ips).order_by(floating_ips.c.id)


def read_floating(
    connection: sa.Connection, network_ids: Sequence[int] | None, uplink: IPv4Network | None
) -> dict[int, list[FloatingIp]]:
    """Read the floating IPs of networks, or of all of them, by the network's row id.

    Args:
        uplink: None: no machine has one, so there are none to translate.
    """
    found: dict[int, list[FloatingIp]] = defaultdict(list)
    if uplink is None:
        return found
    query = _ALL
    if network_ids is not None:
        query = query.where(floating_ips.c.network_id.in_(network_ids))
    for row in connection.execute(query):
        address = IPv4Address(row.address)
        inner = make_inner_address(row.inner_number, uplink)
        found[row.network_id].append(FloatingIp(row.public_id, address, inner, row.target))
    return found


def read_floating_work(
    connection: sa.Connection, uplink: IPv4Network | None
) -> list[FloatingIpWork]:
    """Read what a machine with the gateways translates; nothing while it has no uplink."""
    work = list[FloatingIpWork]()
    for found in read_floating(connection, None, uplink).values():
        for one in found:
            work.append(FloatingIpWork(id=one.key, address=str(one.address), inner=str(one.inner)))
    return sorted(work, key=lambda one: one.id)


def read_taken(connection: sa.Connection) -> set[IPv4Address]:
    """Read the addresses that no new floating IP may have."""
    taken = set(map(IPv4Address, connection.execute(sa.select(floating_ips.c.address)).scalars()))
    pair = read_pair_row(connection)
    if pair is not None:
        taken |= {IPv4Address(one) for one in (pair.address, pair.upstream) if one}
    return taken


def choose_inner(connection: sa.Connection) -> int:
    """Choose the number of a new floating IP on the uplink. Raises TooManyNetworks."""
    taken = set(connection.execute(sa.select(floating_ips.c.inner_number)).scalars())
    number = choose_number(taken, INNER_NUMBERS)
    if number is None:
        raise TooManyNetworks(
            f"the pool has {len(taken)} floating IPs, the most that its uplink can carry",
            hint="release one: gpupool network floating-ip-delete NETWORK ADDRESS",
            limit=len(taken),
        )
    return number


def count_floating(connection: sa.Connection, tenant_id: int) -> int:
    """Count the floating IPs of a tenant."""
    query = (
        sa.select(sa.func.count())
        .select_from(floating_ips)
        .join(networks, networks.c.id == floating_ips.c.network_id)
        .where(networks.c.tenant_id == tenant_id)
    )
    return int(connection.execute(query).scalar_one())


def refuse_floating(connection: sa.Connection, network: Any) -> None:
    """Raise StillInUse while a network has floating IPs, which need its gateway."""
    query = _ALL.where(floating_ips.c.network_id == network.id)
    addresses = [row.address for row in connection.execute(query)]
    if addresses:
        raise StillInUse(
            f"floating IPs lead through the gateway of {network.name}: {', '.join(addresses[:5])}",
            hint=f"gpupool network floating-ip-list {network.name}",
        )


def select_job_floating() -> sa.ScalarSelect[Any]:
    """Select the floating IP of the port of an outer query on `network_ports`; null: it has none.

    As `model.bind_ports`: of several jobs with one name the first one has it.
    """
    other = network_ports.alias("earlier_port")
    is_first = ~(
        sa.exists()
        .where(other.c.network_id == network_ports.c.network_id)
        .where(other.c.name == floating_ips.c.target)
        .where(other.c.id < network_ports.c.id)
        .correlate(network_ports, floating_ips)
    )
    is_named = sa.and_(floating_ips.c.target == network_ports.c.name, is_first)
    return (
        sa.select(floating_ips.c.address)
        .where(floating_ips.c.network_id == network_ports.c.network_id)
        .where(sa.or_(is_named, floating_ips.c.target == network_ports.c.address))
        .order_by(floating_ips.c.id)
        .limit(1)
        .correlate(network_ports)
        .scalar_subquery()
    )


def describe_floating(connection: sa.Connection, network: Any) -> list[FloatingIpOut]:
    """Describe the floating IPs of a network, by address."""
    is_off = read_engine_row(connection) is None
    rows = connection.execute(_ALL.where(floating_ips.c.network_id == network.id)).all()
    bound = _read_bound(connection, network.id)
    found = list[FloatingIpOut]()
    for row in sorted(rows, key=lambda row: IPv4Address(row.address)):
        port = bound.get(row.address)
        state = row.state
        reason = row.reason
        if is_off:
            state = "off"
            reason = "networking is not enabled"
        elif port is None and state not in ("starting", "taken"):
            state = "waiting"
            reason = f"no job {row.target} is in the network now, or it has another floating IP"
        found.append(
            FloatingIpOut(
                id=row.public_id,
                network=network.name,
                address=row.address,
                target=row.target,
                job=None if port is None else port.job,
                job_address=None if port is None else port.address,
                state=state,
                reason=reason,
                probed_ns=row.probed_ns,
                created_ns=row.created_ns,
            )
        )
    return found


def _read_bound(connection: sa.Connection, network_id: int) -> dict[str, Any]:
    """Read the ports of a network that have a floating IP now, by that."""
    query = sa.select(
        network_ports.c.address,
        network_ports.c.name.label("job"),
        select_job_floating().label("floating_ip"),
    ).where(network_ports.c.network_id == network_id)
    return {row.floating_ip: row for row in connection.execute(query) if row.floating_ip}
