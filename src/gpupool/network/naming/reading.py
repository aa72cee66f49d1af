"""Reads DNS records for the resolvers and for tenants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Any

import sqlalchemy as sa

from gpupool.network.model import make_domain
from gpupool.network.naming.model import DnsRecord
from gpupool.network.naming.tables import dns_records
from gpupool.wire.network.dns_records import DnsRecordOut


def read_records(
    connection: sa.Connection, network_ids: Sequence[int] | None
) -> dict[int, list[DnsRecord]]:
    """Read the records of networks, or of all of them, by the network's row id."""
    query = sa.select(dns_records).order_by(dns_records.c.id)
    if network_ids is not None:
        query = query.where(dns_records.c.network_id.in_(network_ids))
    found: dict[int, list[DnsRecord]] = defaultdict(list)
    for row in connection.execute(query):
        found[row.network_id].append(DnsRecord(row.name, ip_address(row.address)))
    return found


def describe_records(connection: sa.Connection, network: Any) -> list[DnsRecordOut]:
    """Describe the records of a network, by name and then in the order they were made in."""
    query = (
        sa.select(dns_records)
        .where(dns_records.c.network_id == network.id)
        .order_by(dns_records.c.name, dns_records.c.id)
    )
    return [
        DnsRecordOut(
            network=network.name,
            name=row.name,
            address=row.address,
            long_name=f"{row.name}.{make_domain(network.name)}",
            created_ns=row.created_ns,
        )
        for row in connection.execute(query)
    ]
