"""Writes what agents' probes see of floating IPs, in the engine's transactions."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa

from gpupool.network.floating.tables import floating_ips
from gpupool.store.write_transaction import WriteTransaction
from gpupool.wire.network.floating_ips import FloatingIpReport


def apply_floating_reports(write: WriteTransaction, reports: Iterable[FloatingIpReport]) -> None:
    """Write what has changed. Idempotent; one that was deleted meanwhile changes nothing."""
    wanted = {report.id: report for report in reports}
    if not wanted:
        return
    table = floating_ips.c
    query = sa.select(table.id, table.public_id, table.state, table.reason)
    for row in write.execute(query.where(table.public_id.in_(wanted))).all():
        report = wanted[row.public_id]
        if (row.state, row.reason) == (report.state, report.reason):
            continue
        values = {"state": report.state, "reason": report.reason, "probed_ns": write.now_ns}
        write.execute(floating_ips.update().where(table.id == row.id).values(**values))


def end_floating(write: WriteTransaction) -> None:
    """Write that nothing is probed: the engine ended."""
    write.execute(floating_ips.update().values(state="starting", reason="", probed_ns=None))
