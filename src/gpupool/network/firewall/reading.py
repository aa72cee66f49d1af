"""Reads the boundary's rules for the engine and for people, in the order in which they decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any

import sqlalchemy as sa

from gpupool.network.firewall.tables import firewall_rules
from gpupool.network.floating.model import FloatingIp
from gpupool.network.floating.reading import read_floating
from gpupool.network.model import make_gateway
from gpupool.network.tables import networks
from gpupool.tenancy.tables import tenants
from gpupool.wire.network.firewall import FirewallRuleOut, FirewallWork

_RULES = (
    sa.select(
        firewall_rules,
        networks.c.name.label("network"),
        networks.c.has_gateway,
        networks.c.gateway_number,
        networks.c.tenant_id,
        tenants.c.name.label("tenant"),
    )
    .select_from(firewall_rules)
    .outerjoin(networks, networks.c.id == firewall_rules.c.network_id)
    .outerjoin(tenants, tenants.c.id == networks.c.tenant_id)
    .order_by(firewall_rules.c.number)
)


def read_firewall_work(connection: sa.Connection, uplink: IPv4Network | None) -> list[FirewallWork]:
    """Read what the machine of the pool filters; nothing while it has no uplink."""
    if uplink is None:
        return []
    work = list[FirewallWork]()
    floating = read_floating(connection, None, uplink)
    for row in connection.execute(_RULES):
        if row.network_id is not None and not row.has_gateway:
            continue
        gateway = None
        if row.network_id is not None:
            gateway = _find_address(row, uplink)
        work.append(
            FirewallWork(
                action=row.action,
                direction=row.direction,
                prefix=row.prefix,
                protocol=row.protocol,
                first_port=row.first_port,
                last_port=row.last_port,
                gateway=gateway,
                # Packets of jobs with a floating IP have its address in place of the gateway's.
                others=_list_others(row, floating),
            )
        )
    return work


def _find_address(row: Any, uplink: IPv4Network) -> str:
    """Find the address of a gateway in the family of a rule, also where it carries IPv4 alone."""
    gateway = make_gateway(row.gateway_number, uplink, has_ipv6=True)
    return str(gateway.address6 if ":" in row.prefix else gateway.address)


def _list_others(row: Any, floating: Mapping[int, Sequence[FloatingIp]]) -> list[str]:
    """List the addresses of floating IPs for a rule of IPv4; they have no others."""
    if row.network_id is None or ":" in row.prefix:
        return []
    return [str(one.inner) for one in floating.get(row.network_id, ())]


def describe_rules(
    connection: sa.Connection, is_visible: sa.ColumnElement[bool]
) -> list[FirewallRuleOut]:
    """Describe the rules of every network, and those of networks that match a condition."""
    of_all = firewall_rules.c.network_id.is_(None)
    return [_describe(row) for row in connection.execute(_RULES.where(sa.or_(of_all, is_visible)))]


def _describe(row: Any) -> FirewallRuleOut:
    return FirewallRuleOut(
        id=row.public_id,
        number=row.number,
        action=row.action,
        direction=row.direction,
        prefix=row.prefix,
        protocol=row.protocol,
        first_port=row.first_port,
        last_port=row.last_port,
        network=row.network,
        tenant=row.tenant,
        created_ns=row.created_ns,
    )
