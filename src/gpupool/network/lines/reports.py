"""Writes what the agent reports of dedicated lines, in the engine's transactions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from gpupool.network.lines.tables import network_lines
from gpupool.network.tables import networks
from gpupool.store.database import WriteTransaction
from gpupool.wire.network.lines import LineReport

_OFF = {"state": "off", "reason": "", "learned": [], "refused": [], "refused_count": 0}
#: Prefixes that an event names.
_NAMED = 10


def apply_line_reports(write: WriteTransaction, reports: Iterable[LineReport]) -> None:
    """Write the states of lines, with events, and announce networks with other routes. Idempotent.

    A report of a line that was deleted meanwhile changes nothing.
    """
    query = sa.select(network_lines, networks.c.tenant_id, networks.c.name).join(
        networks, networks.c.id == network_lines.c.network_id
    )
    rows = {row.public_id: row for row in write.execute(query)}
    for report in reports:
        row = rows.get(report.id)
        if row is not None:
            _apply_one(write, row, report)


def end_lines(write: WriteTransaction) -> None:
    """Write that no line is carried: the engine ended."""
    write.execute(network_lines.update().values(**_OFF))


def _apply_one(write: WriteTransaction, row: Any, report: LineReport) -> None:
    values = report.model_dump(mode="json", exclude={"id"})
    if all(getattr(row, name) == value for name, value in values.items()):
        return
    write.execute(network_lines.update().where(network_lines.c.id == row.id).values(**values))
    if row.learned != report.learned:
        write.announce(("network", row.network_id))
    data = {"network": row.name, "vlan": row.vlan}
    if (row.state, row.reason) != (report.state, report.reason):
        seen = {**data, "reason": report.reason, "learned": len(report.learned)}
        _write_event(write, row, report.state, seen)
    before = {one["prefix"] for one in row.refused}
    added = [one for one in report.refused if one.prefix not in before]
    if added:
        named = {one.prefix: one.reason for one in added[:_NAMED]}
        refused = {**data, "prefixes": named, "refused": report.refused_count}
        _write_event(write, row, "refused", refused)


def _write_event(write: WriteTransaction, row: Any, what: str, data: dict[str, Any]) -> None:
    write.event(f"network.line_{what}", row.public_id, tenant_id=row.tenant_id, data=data)
