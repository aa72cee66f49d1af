"""The history of what each card was to the pool: the capacity side of the books.

Every known card has one open span, except one that vanished and holds no seats. A span says how the
seconds count that no allocation holds: `pooled` as idle, `overhead` (draining, failed, or vanished
under its jobs) as overhead, `unmanaged` (observed) as unmanaged. Knows nothing of tenants or
holders.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from gpupool.base.units import MIB, NANOS_PER_SECOND
from gpupool.fleet.tables import device_spans
from gpupool.model.device import DeviceHealth, DeviceState
from gpupool.store.database import WriteTransaction


class SpanKind(StrEnum):
    POOLED = "pooled"
    OVERHEAD = "overhead"
    UNMANAGED = "unmanaged"


def find_kind(state: str, health: str, shares: int) -> SpanKind | None:
    """Return what a card in this state counts as; None: no capacity.

    >>> find_kind("adopted", "failed", 0), find_kind("lost", "ok", 0), find_kind("lost", "ok", 2)
    (<SpanKind.OVERHEAD: 'overhead'>, None, <SpanKind.OVERHEAD: 'overhead'>)
    """
    if state == DeviceState.OBSERVED:
        return SpanKind.UNMANAGED
    if state == DeviceState.LOST:
        # Seats on a card that vanished are still held: without capacity under them the books could
        # not close.
        return SpanKind.OVERHEAD if shares else None
    if state == DeviceState.ADOPTED and health != DeviceHealth.FAILED:
        return SpanKind.POOLED
    return SpanKind.OVERHEAD


def sync_spans(write: WriteTransaction, devices: Iterable[Any]) -> None:
    """Close and open spans so that each of these device rows has the one it should have."""
    wanted = {}
    for row in devices:
        wanted[row.id] = (row, find_kind(row.state, row.health, row.shares))
    if not wanted:
        return
    query = sa.select(device_spans).where(
        device_spans.c.end_s.is_(None), device_spans.c.device_id.in_(wanted)
    )
    standing = {}
    for row in write.execute(query):
        standing[row.device_id] = row  # a card has one open span at most
    # Whole seconds of the ledger's clock, as allocations have them: else the books do not close.
    now_s = write.now_ns // NANOS_PER_SECOND
    opened = []
    for device_id, (row, kind) in wanted.items():
        memory_mib = row.memory_bytes // MIB
        span = standing.get(device_id)
        if span is not None and (span.kind, span.memory_mib) == (kind, memory_mib):
            continue
        if span is not None:
            _close_span(write, span, now_s)
        if kind is not None:
            opened.append(
                {
                    "device_id": device_id,
                    "kind": str(kind),
                    "memory_mib": memory_mib,
                    "start_s": now_s,
                    "end_s": None,
                }
            )
    if opened:
        write.execute(device_spans.insert(), opened)


def _close_span(write: WriteTransaction, span: Any, now_s: int) -> None:
    """End a span; one that would count no second is forgotten."""
    this = device_spans.c.id == span.id
    if span.start_s >= now_s:
        write.execute(device_spans.delete().where(this))
    else:
        write.execute(device_spans.update().where(this).values(end_s=now_s))
