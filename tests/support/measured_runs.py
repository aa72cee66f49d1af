"""Runs whose use an agent reports, for advice."""

from __future__ import annotations

from typing import Any

from gpupool.base.units import GIB, NANOS_PER_SECOND
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.samples import CardUse, JobSample
from tests.support.idle_house import IdleHouse
from tests.support.resizing import running

GPU = "GPU-node-1-0"


def measure(house: IdleHouse, name: str, part: float, samples: int = 6, gib: int = 1) -> None:
    """Report that a running job uses a part of its card, every half minute."""
    job = house.job(name).id
    for number in range(samples):
        use = CardUse(
            uuid=GPU,
            gpu_nanoseconds=int(number * 30 * part * NANOS_PER_SECOND),
            reserved_bytes=gib * GIB,
        )
        sample = JobSample(job=job, gpu_milliseconds=use.gpu_nanoseconds // 10**6, cards=[use])
        house.allocations.agents.apply_reports("node-1", ReportsIn(jobs=[sample]))
        house.time.forward(30)


def run_family(
    house: IdleHouse, name: str, uses: list[float], milli: int = 500, **options: Any
) -> None:
    for number, part in enumerate(uses):
        running(house, f"{name}-{number}", milli, 16, **options)
        measure(house, f"{name}-{number}", part)
        house.finish(f"{name}-{number}")
