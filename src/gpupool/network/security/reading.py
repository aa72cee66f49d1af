"""Reads security groups for the engine and for tenants."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from ipaddress import ip_network
from typing import Any

import sqlalchemy as sa

from gpupool.network.security.model import SecurityGroup, SecurityRule
from gpupool.network.security.tables import port_groups, security_groups, security_rules
from gpupool.network.tables import network_ports
from gpupool.wire.network.security_groups import SecurityGroupOut, SecurityRuleOut

_source = security_groups.alias("source")
_RULES = (
    sa.select(
        security_rules,
        _source.c.public_id.label("source_key"),
        _source.c.name.label("source_name"),
    )
    .outerjoin(_source, _source.c.id == security_rules.c.source_id)
    .join(security_groups, security_groups.c.id == security_rules.c.group_id)
    .order_by(security_rules.c.id)
)


def read_groups(
    connection: sa.Connection, network_ids: Sequence[int] | None
) -> dict[int, list[SecurityGroup]]:
    """Read the groups of networks, or of all of them, by the network's row id."""
    query = sa.select(security_groups).order_by(security_groups.c.id)
    rules: dict[int, list[SecurityRule]] = defaultdict(list)
    for row in _read_rules(connection, network_ids):
        prefix = None if row.prefix is None else ip_network(row.prefix)
        rules[row.group_id].append(
            SecurityRule(
                row.public_id, row.protocol, row.first_port, row.last_port, prefix, row.source_key
            )
        )
    if network_ids is not None:
        query = query.where(security_groups.c.network_id.in_(network_ids))
    found: dict[int, list[SecurityGroup]] = defaultdict(list)
    for row in connection.execute(query):
        group = SecurityGroup(row.public_id, row.name, tuple(rules[row.id]))
        found[row.network_id].append(group)
    return found


def read_members(
    connection: sa.Connection, network_ids: Sequence[int] | None
) -> dict[int, list[tuple[str, str]]]:
    """Read which groups ports are in: id and name of each group, by the port's row id."""
    query = (
        sa.select(port_groups.c.port_id, security_groups.c.public_id, security_groups.c.name)
        .join(security_groups, security_groups.c.id == port_groups.c.group_id)
        .order_by(security_groups.c.id)
    )
    if network_ids is not None:
        query = query.where(security_groups.c.network_id.in_(network_ids))
    found: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for row in connection.execute(query):
        found[row.port_id].append((row.public_id, row.name))
    return found


def describe_groups(connection: sa.Connection, network: Any) -> list[SecurityGroupOut]:
    """Describe the groups of a network, by name."""
    rules: dict[int, list[SecurityRuleOut]] = defaultdict(list)
    for row in _read_rules(connection, [network.id]):
        rules[row.group_id].append(describe_rule(row))
    jobs = _count_members(connection, network.id)
    query = sa.select(security_groups).where(security_groups.c.network_id == network.id)
    return [
        SecurityGroupOut(
            id=row.public_id,
            name=row.name,
            network=network.name,
            jobs=jobs[row.id],
            rules=rules[row.id],
            created_ns=row.created_ns,
        )
        for row in connection.execute(query.order_by(security_groups.c.name))
    ]


def describe_rule(row: Any) -> SecurityRuleOut:
    """Describe a rule of a group."""
    return SecurityRuleOut(
        id=row.public_id,
        protocol=row.protocol,
        first_port=row.first_port,
        last_port=row.last_port,
        source=row.prefix or row.source_name,
    )


def _read_rules(
    connection: sa.Connection, network_ids: Sequence[int] | None
) -> Sequence[sa.Row[Any]]:
    query = _RULES
    if network_ids is not None:
        query = query.where(security_groups.c.network_id.in_(network_ids))
    return connection.execute(query).all()


def _count_members(connection: sa.Connection, network_id: int) -> Counter[int]:
    query = (
        sa.select(port_groups.c.group_id, sa.func.count())
        .join(network_ports, network_ports.c.id == port_groups.c.port_id)
        .where(network_ports.c.network_id == network_id)
        .group_by(port_groups.c.group_id)
    )
    return Counter({row[0]: row[1] for row in connection.execute(query)})
