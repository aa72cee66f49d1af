"""Audit logs as tests read them: straight from the table, and through the verifier."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from gpupool.store.database import Store
from gpupool.store.tables import audit_records
from gpupool.wire.audit.chain import ChainReading, ChainVerifier


def read_log(store: Store) -> list[dict[str, Any]]:
    """Read every record with its hashes, the oldest first."""
    query = sa.select(audit_records).order_by(audit_records.c.seq)
    with store.read() as connection:
        rows = connection.execute(query).all()
    return [{**json.loads(row.body), "previous": row.previous, "hash": row.hash} for row in rows]


def verify_log(store: Store, expected: str | None = None) -> ChainReading:
    """Verify the log as the command does."""
    verifier = ChainVerifier(expected)
    for record in read_log(store):
        verifier.add(record)
    return verifier.read_result()
