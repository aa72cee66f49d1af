"""Sentences for a waiting claim, in the singular and in the plural."""

from __future__ import annotations

from gpupool.scheduling.idle_suspension import describe_leaving, describe_victims


def test_one_job_and_several_jobs_are_counted() -> None:
    assert describe_leaving(2) == "starts after 2 idle jobs are suspended: under way"
    assert describe_victims(1, 0) == "starts after 1 idle job is suspended"
    assert describe_victims(3, 2) == (
        "would start after 3 jobs are suspended that agreed to it; "
        "2 of them are not idle for long enough"
    )
