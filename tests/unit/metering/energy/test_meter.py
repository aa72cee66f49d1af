"""A span between two samples is measured; a gap, a resent sample and a clock that went back are not."""

from __future__ import annotations

import pytest

from gpupool.metering.energy.meter import LATE_S, WRITE_EVERY_S, EnergyMeter
from gpupool.wire.samples import CardUse, JobSample, UsageOut

S = 10**9


def card(at: float, watts: float | None, counter: int | None = None) -> tuple[int, str, UsageOut]:
    usage = UsageOut(power_watts=watts, energy_millijoules=counter, at_ns=int(at * S))
    return (1, "GPU-1", usage)


def job(used: int) -> JobSample:
    return JobSample(job="j-1", cards=[CardUse(uuid="GPU-1", gpu_nanoseconds=used)])


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([(0, 100, None)], []),
        ([(0, 100, None), (10, 300, None)], [2_000_000]),
        ([(0, 100, 5000), (10, 300, 6500)], [1500]),
        # A counter that began anew or stands still: the power says what was drawn.
        ([(0, 100, 5000), (10, 100, 7)], [1_000_000]),
        ([(0, 100, 5000), (10, 100, 5000)], [1_000_000]),
        ([(0, None, 5000), (10, None, 7)], []),
        ([(0, 100, 1), (10, 100, None), (20, 100, 3)], [1_000_000, 1_000_000]),
        # Unknown: a gap of more than two heartbeats, a sample without power, a clock set back.
        ([(0, 100, 1), (61, 100, 9)], []),
        ([(0, 100, None), (10, None, None), (20, 100, None)], [2_000_000]),
        ([(50, 100, None), (10, 100, None)], []),
        # Sent again.
        ([(0, 100, None), (10, 100, None), (10, 100, None)], [1_000_000]),
    ],
)
def test_energy_is_measured_between_two_samples(
    samples: list[tuple[float, float | None, int | None]], expected: list[int]
) -> None:
    meter = EnergyMeter()
    received = 0
    for at, watts, counter in samples:
        received = max(received + S, int((1000 + at) * S))
        meter.add_samples([card(at, watts, counter)], [], received)
    batch = meter.take_batch(received)
    assert [span.millijoules for span in batch.spans] == expected if batch else not expected


def test_the_gpu_time_since_the_last_sample_goes_with_the_span() -> None:
    meter = EnergyMeter()
    meter.add_samples([card(0, 100)], [job(5 * S)], 1000 * S)
    meter.add_samples([card(10, 100)], [job(9 * S)], 1010 * S)
    meter.add_samples([card(20, 100)], [], 1020 * S)
    meter.add_samples([card(30, 100)], [job(2 * S)], 1030 * S)
    batch = meter.take_batch(1030 * S)
    assert batch is not None
    # Not measured, and a sum that went back, are unknown.
    assert [dict(span.uses) for span in batch.spans] == [{"j-1": 4 * S}, {}, {}]


def test_a_batch_is_the_same_until_it_is_dropped_and_the_next_waits() -> None:
    meter = EnergyMeter()
    meter.add_samples([card(0, 100)], [], 1000 * S)
    meter.add_samples([card(10, 100)], [], 1010 * S)
    first = meter.take_batch(1010 * S)
    assert first is not None
    meter.add_samples([card(20, 100)], [], 1020 * S)
    assert meter.take_batch(1020 * S) is first
    meter.drop_batch(first)
    assert meter.take_batch(1020 * S) is None
    second = meter.take_batch((1010 + WRITE_EVERY_S) * S)
    assert second is not None
    assert second.name != first.name
    assert len(second.spans) == 1


def test_spans_of_before_the_charges_of_their_hour_are_dropped() -> None:
    meter = EnergyMeter()
    meter.add_samples([card(0, 100)], [], 1000 * S)
    meter.add_samples([card(10, 100)], [], 1010 * S)
    assert meter.take_batch((1010 + LATE_S) * S) is None
