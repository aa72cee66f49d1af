"""Writes what a node has noticed about a job as an event."""

from __future__ import annotations

from functools import partial
from typing import Any

import sqlalchemy as sa

from gpupool.store import counters
from gpupool.store.database import WriteTransaction
from gpupool.wire.fleet import ReportIn

#: Notices that are not about the fence.
_NOTICE_EVENTS = {
    "host": "job.unlimited",
    "mechanism": "job.mechanism",
    "preparing": "job.preparing",
    "vm": "job.vm",
}

#: Findings of the audit that have a count of their own (`audit.findings`); any other is `other`: what
#: agents send must not make more and more series.
FINDINGS = frozenset(
    [
        "driver",
        "grants",
        "limits",
        "memory",
        "mount",
        "over",
        "region",
        "time",
        "unregistered",
        "unseen",
    ]
)


def write_notice(write: WriteTransaction, row: sa.Row[Any], report: ReportIn) -> None:
    """Write the event of a report in state `noticed`."""
    kind = _NOTICE_EVENTS.get(report.notice)
    if kind is None:
        finding = report.notice or "noticed"
        kind = f"fence.{finding}"
        counted = finding if finding in FINDINGS else "other"
        write.note(partial(counters.findings.add, 1, str(row.tenant_id), counted))
    found = {"name": row.name, "found": report.reason}
    write.event(kind, row.job, tenant_id=row.tenant_id, data=found)
