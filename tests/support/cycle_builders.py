"""The seats and the sentence of a plan."""

from __future__ import annotations

from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.snapshot.plan import Plan
from gpupool.scheduling.snapshot.snapshot import Snapshot


def seated(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Job -> names of its cards."""
    return {
        placement.job: tuple(seat.device for seat in placement.seats)
        for placement in plan.placements
    }


def sentence(before: Snapshot) -> str:
    """What the only class of the snapshot is told."""
    plan = cycle(before, 0)
    (said,) = plan.rejections.values()
    assert plan.placements == ()
    return said.sentence


SPREAD = "spread"
