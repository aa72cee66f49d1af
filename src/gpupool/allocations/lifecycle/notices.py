"""Writes what a node has noticed about a job as an event."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.store.database import WriteTransaction
from gpupool.wire.fleet import ReportIn

#: Notices that are not about the fence.
_NOTICE_EVENTS = {
    "host": "job.unlimited",
    "mechanism": "job.mechanism",
    "preparing": "job.preparing",
    "vm": "job.vm",
}


def write_notice(write: WriteTransaction, row: sa.Row[Any], report: ReportIn) -> None:
    """Write the event of a report in state `noticed`."""
    kind = _NOTICE_EVENTS.get(report.notice, f"fence.{report.notice or 'noticed'}")
    found = {"name": row.name, "found": report.reason}
    write.event(kind, row.job, tenant_id=row.tenant_id, data=found)
