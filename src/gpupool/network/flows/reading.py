"""Reads flow logs for the engine, for agents and for tenants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from gpupool.network.flows.model import FlowVerdict, join_choices
from gpupool.network.flows.tables import flow_logs, flow_records
from gpupool.wire.network.flows import FlowLogOut, FlowRecordOut

#: Records of one flow log that are kept.
MOST_RECORDS = 10_000


def read_logged(
    connection: sa.Connection, network_ids: Sequence[int] | None
) -> dict[int, frozenset[FlowVerdict]]:
    """Read what is logged of networks, or of all of them, by the network's row id."""
    query = sa.select(flow_logs.c.network_id, flow_logs.c.choice)
    if network_ids is not None:
        query = query.where(flow_logs.c.network_id.in_(network_ids))
    choices: dict[int, list[str]] = defaultdict(list)
    for row in connection.execute(query):
        choices[row.network_id].append(row.choice)
    found: dict[int, frozenset[FlowVerdict]] = defaultdict(frozenset)
    for network_id, wanted in choices.items():
        found[network_id] = join_choices(wanted)
    return found


def has_flow_logs(connection: sa.Connection) -> bool:
    """Whether some network of the pool logs flows."""
    return connection.execute(sa.select(flow_logs.c.id).limit(1)).first() is not None


def describe_logs(connection: sa.Connection, network: Any) -> list[FlowLogOut]:
    """Describe the flow logs of a network, by name."""
    counts = (
        sa.select(flow_records.c.flow_log_id, sa.func.count().label("records"))
        .group_by(flow_records.c.flow_log_id)
        .subquery()
    )
    query = (
        sa.select(flow_logs, counts.c.records)
        .outerjoin(counts, counts.c.flow_log_id == flow_logs.c.id)
        .where(flow_logs.c.network_id == network.id)
        .order_by(flow_logs.c.name)
    )
    return [
        FlowLogOut(
            id=row.public_id,
            name=row.name,
            network=network.name,
            choice=row.choice,
            job=row.job,
            records=row.records or 0,
            most_records=MOST_RECORDS,
            expired_records=row.expired_records,
            skipped_packets=row.skipped_packets,
            lost_bytes=row.lost_bytes,
            created_ns=row.created_ns,
        )
        for row in connection.execute(query)
    ]


def describe_record(row: Any) -> FlowRecordOut:
    """Describe a record by its row."""
    facts = row._mapping
    return FlowRecordOut(**{name: facts[name] for name in FlowRecordOut.model_fields})
