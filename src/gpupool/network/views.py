"""Networks as they are shown."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from ipaddress import IPv4Network
from typing import Any

import sqlalchemy as sa

from gpupool.network.ipv6.gateways import list_networks6
from gpupool.network.model import make_domain, make_gateway, make_port_mac
from gpupool.network.ports import count_subnet_addresses
from gpupool.network.reading import make_subnet, read_uplink
from gpupool.network.security.reading import read_members
from gpupool.network.tables import network_ports, subnets
from gpupool.tenancy.tables import tenants
from gpupool.wire.network.networks import GatewayOut, NetworkOut, NetworkPortOut, SubnetOut


def describe_networks(
    connection: sa.Connection, rows: Sequence[Any], *, with_ports: bool = False
) -> list[NetworkOut]:
    """Describe rows of `networks`, in their order."""
    ids = [row.id for row in rows]
    uplink = read_uplink(connection)
    networks6 = list_networks6(connection)
    owners = _read_tenants(connection, {row.tenant_id for row in rows})
    parts = _read_subnets(connection, ids)
    ports = _read_ports(connection, ids) if with_ports else {}
    return [
        NetworkOut(
            id=row.public_id,
            name=row.name,
            tenant=owners[row.tenant_id],
            mtu=row.mtu,
            domain=make_domain(row.name),
            subnets=parts[row.id],
            ports=ports.get(row.id, []),
            gateway=_describe_gateway(row, uplink, networks6) if row.has_gateway else None,
            is_default=row.is_default,
            zone=row.zone,
            created_ns=row.created_ns,
        )
        for row in rows
    ]


def _describe_gateway(
    row: Any, uplink: IPv4Network | None, networks6: Collection[int]
) -> GatewayOut:
    if uplink is None:
        return GatewayOut(state="starting")
    made = make_gateway(row.gateway_number, uplink, has_ipv6=row.id in networks6)
    address6 = None if made.address6 is None else str(made.address6)
    return GatewayOut(state="ready", address=str(made.address), address6=address6)


def _read_tenants(connection: sa.Connection, ids: set[int]) -> dict[int, str]:
    query = sa.select(tenants.c.id, tenants.c.name).where(tenants.c.id.in_(ids))
    return {row.id: row.name for row in connection.execute(query)}


def _read_subnets(connection: sa.Connection, ids: Sequence[int]) -> dict[int, list[SubnetOut]]:
    used = _count_ports(connection, ids)
    found: dict[int, list[SubnetOut]] = defaultdict(list)
    query = sa.select(subnets).where(subnets.c.network_id.in_(ids)).order_by(subnets.c.id)
    for row in connection.execute(query).all():
        subnet = make_subnet(row)
        found[row.network_id].append(
            SubnetOut(
                id=row.public_id,
                name=row.name,
                cidr=row.cidr,
                gateway=str(subnet.gateway),
                used=used[row.id],
                free=count_subnet_addresses(connection, row) - used[row.id],
                cidr6=row.cidr6,
                gateway6=str(subnet.gateway6) if subnet.gateway6 else None,
            )
        )
    return found


def _count_ports(connection: sa.Connection, ids: Sequence[int]) -> Counter[int]:
    query = (
        sa.select(network_ports.c.subnet_id, sa.func.count())
        .where(network_ports.c.network_id.in_(ids))
        .group_by(network_ports.c.subnet_id)
    )
    return Counter({row[0]: row[1] for row in connection.execute(query)})


# Jobs belong to a package above this one, so their tables are named and not imported.
_ALLOCATIONS = sa.table("allocations", sa.column("id"), sa.column("job_id"))
_JOBS = sa.table("jobs", sa.column("id"), sa.column("public_id"), sa.column("name"))


def _read_ports(connection: sa.Connection, ids: Sequence[int]) -> dict[int, list[NetworkPortOut]]:
    query = (
        sa.select(
            network_ports,
            subnets.c.name.label("subnet"),
            _JOBS.c.public_id.label("job"),
            _JOBS.c.name.label("job_name"),
        )
        .join(subnets, subnets.c.id == network_ports.c.subnet_id)
        .join(_ALLOCATIONS, _ALLOCATIONS.c.id == network_ports.c.allocation_id)
        .join(_JOBS, _JOBS.c.id == _ALLOCATIONS.c.job_id)
        .where(network_ports.c.network_id.in_(ids))
        .order_by(network_ports.c.id)
    )
    members = read_members(connection, ids)
    found: dict[int, list[NetworkPortOut]] = defaultdict(list)
    for row in connection.execute(query):
        found[row.network_id].append(
            NetworkPortOut(
                job=row.job,
                job_name=row.job_name,
                address=row.address,
                mac=make_port_mac(row.id, row.mac),
                subnet=row.subnet,
                dns_name=row.name,
                security_groups=[name for _, name in members[row.id]],
                address6=row.address6,
            )
        )
    return found
