"""Intervals between samples: of the busiest card, and unknown where a sum is."""

from __future__ import annotations

from gpupool.metering.job_use.pending import MOST_INTERVALS, PendingUse
from gpupool.wire.samples import CardUse, JobSample

S = 10**9


def sample(*gpu_seconds: float, throttled: float = 0.0, reserved: int = 0) -> JobSample:
    cards = [
        CardUse(
            uuid=f"GPU-{number}",
            gpu_nanoseconds=int(seconds * S),
            throttled_nanoseconds=int(throttled * S),
            reserved_bytes=reserved,
        )
        for number, seconds in enumerate(gpu_seconds)
    ]
    return JobSample(job="j", gpu_milliseconds=int(sum(gpu_seconds) * 1000), cards=cards)


def test_the_busiest_card_counts() -> None:
    pending = PendingUse()
    pending.add_sample(sample(0, 0, reserved=5), 0)
    pending.add_sample(sample(2, 5, throttled=3, reserved=7), 10 * S)

    (found,) = pending.list_intervals()

    assert (found.until_ns, found.milliseconds, found.milli) == (10 * S, 10_000, 500)
    assert (found.waited_milli, found.peak_bytes, found.whole_job) == (300, 7, False)


def test_samples_within_ten_seconds_are_one_interval_with_the_highest_memory() -> None:
    pending = PendingUse()
    for second, memory in ((0, 1), (4, 9), (8, 2), (12, 3)):
        pending.add_sample(sample(second / 4, reserved=memory), second * S)

    (found,) = pending.list_intervals()

    assert (found.milliseconds, found.milli, found.peak_bytes) == (12_000, 250, 9)


def test_a_long_pause_and_a_sum_that_went_back_are_unknown() -> None:
    pending = PendingUse()
    pending.add_sample(sample(0), 0)
    pending.add_sample(sample(300), 400 * S)
    assert pending.list_intervals() == []

    pending.add_sample(sample(1), 420 * S)
    assert [one.milli for one in pending.list_intervals()] == [None]


def test_without_a_fence_it_is_the_use_of_the_whole_job() -> None:
    pending = PendingUse()
    for second in (0, 10):
        pending.add_sample(
            JobSample(job="j", gpu_milliseconds=second * 1500, gpu_memory_bytes=11), second * S
        )
    pending.add_sample(JobSample(job="j"), 20 * S)

    known, unknown = pending.list_intervals()

    assert (known.milli, known.whole_job, known.waited_milli) == (1500, True, None)
    assert (known.peak_bytes, unknown.milli, unknown.peak_bytes) == (11, None, None)


def test_what_is_written_is_dropped_and_what_is_not_stays_bounded() -> None:
    pending = PendingUse()
    for number in range(MOST_INTERVALS + 20):
        pending.add_sample(sample(number), number * 10 * S)
    assert len(pending.list_intervals()) == MOST_INTERVALS

    last = pending.list_intervals()[-1].until_ns
    pending.drop_until(last - 10 * S)

    assert [one.until_ns for one in pending.list_intervals()] == [last]
