from __future__ import annotations

from dataclasses import replace

from gpupool.model.claim import RejectionReason
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.engine.cycle import cycle
from tests.support.partition_builders import (
    H200,
    asked,
    piece,
    pool,
    starts,
    with_jobs,
)
from tests.support.scheduling_builders import tenant


def test_a_quota_counts_a_partition_as_its_profile_says() -> None:
    cards, limit = pool("1xH200:mig"), tenant(300, 0, memory=40 << 30)
    snapshot = with_jobs(cards, [], asked("1g.18gb", "a", "b", "c"))
    plan = cycle(replace(snapshot, tenants={"nlp": limit}), 0)
    assert sorted(starts(plan)) == ["a", "b"]
    (said,) = plan.rejections.values()
    assert said.dominant is RejectionReason.QUOTA
    held = sum(
        (ResourceAmount(s.gpu_milli, s.memory_bytes) for p in plan.placements for s in p.seats),
        ResourceAmount(),
    )
    assert held == ResourceAmount(2 * 142, 2 * H200["1g.18gb"].memory_bytes)
    assert piece(6, "1g.18gb") in [seat.partition for one in plan.placements for seat in one.seats]
