"""A full card, and the only sentence of a plan of gangs."""

from __future__ import annotations

import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.snapshot.columns import Bools
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.tentative_placement import (
    TentativePlacement,
)
from gpupool.scheduling.workspace.transaction import (
    PlanningTransaction,
)

FULL = (1000, 140 * GIB)


def sentence(before: Snapshot) -> str:
    plan = cycle(before, 0)
    (said,) = plan.rejections.values()
    assert plan.placements == ()
    return said.sentence


def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A line for each search for a seat from now on."""
    found = list[str]()
    seat = PlanningTransaction.seat_claim

    def counted(
        self: PlanningTransaction, tenant: str, want: Shape, among: Bools | None = None
    ) -> TentativePlacement | None:
        found.append(tenant)
        return seat(self, tenant, want, among)

    monkeypatch.setattr(PlanningTransaction, "seat_claim", counted)
    return found
