"""Joins reports of flows that wait for the server, up to a limit. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from gpupool.wire.network.flows import FlowReport

#: Records that wait for the server at most: about 1 MB.
MOST_WAITING: Final = 5000


def join_reports(reports: Iterable[FlowReport]) -> list[FlowReport]:
    """Return reports with as many records as may wait; the oldest are counted as skipped."""
    waiting = list(reports)
    count = sum(len(report.records) for report in waiting)
    # The newest stays whole: one look at the log finds fewer.
    while count > MOST_WAITING and len(waiting) > 1:
        oldest = waiting.pop(0)
        count -= len(oldest.records)
        waiting[0] = _count_skipped(oldest, waiting[0])
    return waiting


def _count_skipped(gone: FlowReport, later: FlowReport) -> FlowReport:
    skipped = Counter(later.skipped_packets)
    skipped.update(gone.skipped_packets)
    for record in gone.records:
        skipped[record.rule.partition("/")[0]] += record.packets
    lost_bytes = later.lost_bytes + gone.lost_bytes
    return later.model_copy(update={"skipped_packets": dict(skipped), "lost_bytes": lost_bytes})
