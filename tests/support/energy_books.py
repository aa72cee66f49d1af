"""Power of the cards of a pool with real books, as agents report it."""

from __future__ import annotations

from collections.abc import Sequence

from gpupool.wire.samples import DeviceSample, JobSample, UsageOut
from tests.support.metering_books import Pool

#: Seconds between two samples: of a heartbeat, and below the longest gap.
STEP_S = 30


def draw(pool: Pool, watts: Sequence[float | None], jobs: Sequence[JobSample] = ()) -> None:
    """What an agent reports of the cards, and the heartbeat that writes it."""
    samples = []
    for index, power in enumerate(watts):
        usage = UsageOut(power_watts=power, at_ns=pool.time.wall_ns)
        samples.append(DeviceSample(uuid=f"GPU-{index}", usage=usage))
    cards = pool.fleet.record_observations("node-1", samples)
    pool.metering.note_power(cards, samples, jobs)
    pool.metering.write_and_fold()


def draw_for(pool: Pool, seconds: int, watts: Sequence[float | None]) -> None:
    """Samples for so long and a minute more, after which all of them are written."""
    draw(pool, watts)
    for _ in range(seconds // STEP_S):
        pool.time.forward(STEP_S)
        draw(pool, watts)
    pool.time.forward(60)
    draw(pool, watts)
