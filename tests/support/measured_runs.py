"""Runs whose use an agent reports, for advice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpupool.base.clock import LedgerClock
from gpupool.base.units import GIB, NANOS_PER_SECOND
from gpupool.fleet.service import FleetService
from gpupool.metering.service import MeteringService
from gpupool.scheduling.preemption.victims import DEFAULT_PREEMPTION_RULES
from gpupool.store.database import connect, open_store, sqlite_url
from gpupool.tenancy.service import TenancyService
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.samples import CardUse, JobSample
from tests.support.idle_house import IdleHouse
from tests.support.metering_books import Time
from tests.support.resizing import running

GPU = "GPU-node-1-0"


def measure(
    house: IdleHouse, name: str, part: float, samples: int = 3, gib: int = 1, every: int = 75
) -> None:
    """Report that a running job uses a part of its card, every so many seconds."""
    job = house.job(name).id
    for number in range(samples):
        use = CardUse(
            uuid=GPU,
            gpu_nanoseconds=int(number * every * part * NANOS_PER_SECOND),
            reserved_bytes=gib * GIB,
        )
        sample = JobSample(job=job, gpu_milliseconds=use.gpu_nanoseconds // 10**6, cards=[use])
        house.allocations.agents.apply_reports("node-1", ReportsIn(jobs=[sample]))
        house.time.forward(every)


def run_family(
    house: IdleHouse, name: str, uses: list[float], milli: int = 500, **options: Any
) -> None:
    for number, part in enumerate(uses):
        running(house, f"{name}-{number}", milli, 16, **options)
        measure(house, f"{name}-{number}", part)
        house.finish(f"{name}-{number}")


def reopen_house(directory: Path) -> IdleHouse:
    """Open the pool of a house whose server was killed, as the next server has it."""
    house = IdleHouse.__new__(IdleHouse)
    house.store = open_store(connect(sqlite_url(directory / "house.db")), "test")
    house.time = Time()
    house.time.wall_ns = house.store.clock.now_ns()
    house.store.clock = LedgerClock(
        wall=lambda: house.time.wall_ns, boot=lambda: house.time.boot_ns
    )
    house.tenancy = TenancyService(house.store)
    house.admin = house.tenancy.bootstrap()
    house.fleet = FleetService(house.store)
    house.metering = MeteringService(house.store)
    house._rules = DEFAULT_PREEMPTION_RULES
    house.restart()
    return house
