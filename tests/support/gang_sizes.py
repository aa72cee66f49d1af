"""Sizes of gangs whose costs are compared."""

from __future__ import annotations

from typing import Any

from gpupool.wire.fleet import ReportIn, ReportsIn, WorkOut
from tests.support.house import House

FEW, MANY, REPORTS = 60, 600, 20


def told(house: House, items: list[WorkOut], **report: Any) -> None:
    reports = [
        ReportIn(allocation=one.allocation, generation=one.generation, **report) for one in items
    ]
    assert house.allocations.agents.apply_reports("node-1", ReportsIn(reports=reports)).stale == []
