"""A job's samples as figures: of its own share, and None where nobody measured."""

from __future__ import annotations

from gpupool.metering.samples import LatestSample
from gpupool.metering.use import compute_job_use
from gpupool.wire.samples import CardUse, JobSample, ProcessUse

S = 10**9


def seen(new: JobSample, old: JobSample | None = None) -> LatestSample:
    return LatestSample(new, 20 * S, old, 10 * S)


def test_a_share_that_is_used_up_is_a_hundred_percent() -> None:
    new, old = JobSample(job="j", gpu_milliseconds=5000), JobSample(job="j", gpu_milliseconds=2000)
    use = compute_job_use(seen(new, old), 300, 8 << 30)
    assert (use.gpu_percent, use.share_percent) == (30.0, 100.0)
    assert compute_job_use(seen(new, old), 150, 8 << 30).share_percent == 200.0


def test_one_sample_alone_or_no_share_gives_no_percent() -> None:
    new = JobSample(job="j", gpu_milliseconds=5000, gpu_memory_bytes=2 << 30)
    assert compute_job_use(seen(new), 300, 8 << 30).share_percent is None
    best_effort = compute_job_use(seen(new, JobSample(job="j", gpu_milliseconds=0)), 0, 8 << 30)
    assert (best_effort.gpu_percent, best_effort.share_percent, best_effort.memory_percent) == (
        50.0,
        None,
        25.0,
    )


def test_without_a_fence_what_only_a_fence_knows_is_unknown_and_not_zero() -> None:
    use = compute_job_use(seen(JobSample(job="j", cpu_milliseconds=1)), 300, 8 << 30)
    assert {
        use.launches,
        use.refusals,
        use.wait_milliseconds,
        use.reserved_bytes,
        use.unaccounted_bytes,
    } == {None}


def test_cards_are_added_up_and_processes_told_only_where_they_are_wanted() -> None:
    cards = [
        CardUse(
            uuid="a", reserved_bytes=5, launches=2, wait_nanoseconds=3_000_000, unaccounted_bytes=7
        ),
        CardUse(uuid="b", reserved_bytes=6, launches=3, throttled_nanoseconds=2_000_000),
    ]
    sample = JobSample(job="j", cards=cards, processes=[ProcessUse(pid=1)])
    use = compute_job_use(seen(sample), 300, 8 << 30)
    assert (
        use.reserved_bytes,
        use.launches,
        use.wait_milliseconds,
        use.throttled_milliseconds,
    ) == (11, 5, 3, 2)
    assert (use.unaccounted_bytes, use.processes) == (7, [])
    assert compute_job_use(seen(sample), 300, 8 << 30, processes=True).processes == [
        ProcessUse(pid=1)
    ]
