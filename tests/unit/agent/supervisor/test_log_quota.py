"""Which output is dropped when a user or the pool has more of it than its quota, and what a reader
is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpupool.agent.jobs.checkpoint import Checkpoint, JobDirectories
from gpupool.agent.supervisor.job_log import log_end, log_files, read_log
from gpupool.agent.supervisor.log_quota import (
    POOL_BYTES,
    USER_BYTES,
    LogLook,
    LogQuota,
    judge_logs,
    note_owner,
    read_log_quota,
)
from gpupool.base.errors import BadOption

SEGMENT = 100
MUCH = 1 << 40


@pytest.fixture
def directories(tmp_path: Path) -> JobDirectories:
    return JobDirectories(tmp_path / "agent" / "jobs", shared=False)


def make(
    directories: JobDirectories,
    job: str,
    at: int,
    *,
    uid: int | None,
    live: bool = False,
    segments: int = 2,
) -> Path:
    """A job's directory whose segments, of 100 bytes each, were written in the seconds from `at`
    on."""
    directory = directories.write_checkpoint(Checkpoint(f"a-{job}", 1, job, "share", False))
    for number in range(segments):
        path = directory / f"log.{number * SEGMENT:016}"
        path.write_bytes(bytes([number]) * SEGMENT)
        os.utime(path, (at + number, at + number))
    if uid is not None:
        note_owner(directory, uid)
    if not live:
        directories.finish_job(job)
        os.utime(directory, (at, at))
    return directory


def kept(directory: Path) -> int:
    return sum(path.stat().st_size for path in log_files(directory))


def test_logs_within_both_quotas_are_not_touched(directories: JobDirectories) -> None:
    made = [make(directories, f"j-{n}", n, uid=1000, live=n % 2 == 0) for n in range(4)]
    before = [log_files(one) for one in made]
    assert directories.trim_logs(800, 800).dropped == 0
    assert [log_files(one) for one in made] == before


def test_the_oldest_whole_log_of_a_finished_job_goes_first(directories: JobDirectories) -> None:
    young = make(directories, "j-a", 300, uid=1000)
    old = make(directories, "j-b", 100, uid=1000)
    live = make(directories, "j-c", 1, uid=1000, live=True)
    assert directories.trim_logs(MUCH, 500).dropped == 200
    assert (kept(young), kept(old), kept(live)) == (200, 0, 200)
    assert directories.trim_logs(MUCH, 399).dropped == 200
    assert (kept(young), kept(live)) == (0, 200)


def test_live_jobs_lose_oldest_segments_and_never_the_last(directories: JobDirectories) -> None:
    first = make(directories, "j-a", 100, uid=1000, live=True, segments=4)
    second = make(directories, "j-b", 200, uid=1000, live=True, segments=4)
    assert directories.trim_logs(MUCH, 500).dropped == 300
    assert (kept(first), kept(second)) == (100, 400)
    assert directories.trim_logs(0, 0).dropped == 300
    assert [[path.name for path in log_files(one)] for one in (first, second)] == [
        ["log.0000000000000300"]
    ] * 2
    assert directories.trim_logs(0, 0).dropped == 0


def test_a_user_over_its_quota_costs_no_other_user_a_byte(directories: JobDirectories) -> None:
    others = make(directories, "j-a", 1, uid=1000)
    unknown = make(directories, "j-b", 2, uid=None)
    greedy = [make(directories, f"j-g{n}", 100 + n, uid=1001) for n in range(5)]
    assert directories.trim_logs(MUCH, 400).dropped == 600
    assert [kept(one) for one in greedy] == [0, 0, 0, 200, 200]
    assert (kept(others), kept(unknown)) == (200, 200)


def test_a_job_without_an_owner_counts_for_the_pool_alone(directories: JobDirectories) -> None:
    unknown = [make(directories, f"j-{n}", n, uid=None) for n in range(3)]
    assert directories.trim_logs(600, 0).dropped == 0
    assert directories.trim_logs(400, 0).dropped == 200
    assert [kept(one) for one in unknown] == [0, 200, 200]


def test_what_users_lose_counts_for_the_pool_too(directories: JobDirectories) -> None:
    greedy = [make(directories, f"j-g{n}", 100 + n, uid=1001) for n in range(3)]
    other = make(directories, "j-a", 1, uid=1000)
    assert directories.trim_logs(600, 400).dropped == 200
    assert [kept(one) for one in greedy] == [0, 200, 200]
    assert kept(other) == 200
    assert directories.trim_logs(500, 400).dropped == 200
    assert kept(other) == 0


def test_a_reader_of_a_dropped_log_is_told_how_many_bytes(directories: JobDirectories) -> None:
    finished = make(directories, "j-a", 1, uid=1000, segments=3)
    live = make(directories, "j-b", 1, uid=1000, segments=3, live=True)
    ended_ns = finished.stat().st_mtime_ns
    assert directories.trim_logs(100, MUCH).dropped == 500
    chunk = read_log(finished, 0, 1000)
    assert (chunk.data, chunk.offset, chunk.dropped_bytes) == (b"", 300, 300)
    assert log_end(finished) == 300, "a later run goes on behind the last byte"
    chunk = read_log(live, 0, 1000)
    assert (chunk.data, chunk.offset, chunk.dropped_bytes) == (bytes([2]) * SEGMENT, 200, 200)
    assert finished.stat().st_mtime_ns == ended_ns, "the job did not end when its log was dropped"


def test_a_job_that_runs_again_keeps_what_it_is_writing(directories: JobDirectories) -> None:
    directory = make(directories, "j-a", 1, uid=1000)
    directories.write_checkpoint(Checkpoint("a-2", 2, "j-a", "share", False))
    assert directories.trim_logs(0, 0).dropped == SEGMENT
    assert kept(directory) == SEGMENT


def test_the_owner_of_a_job_outlives_its_end_and_goes_with_a_job_that_never_ran(
    directories: JobDirectories,
) -> None:
    ended = make(directories, "j-a", 1, uid=1000)
    assert (ended / "owner.1000").exists()
    never = make(directories, "j-b", 1, uid=1000, live=True)
    directories.remove_job("j-b")
    assert not never.exists()


def test_quotas_come_from_the_environment_and_else_from_the_disk(tmp_path: Path) -> None:
    disk = os.statvfs(tmp_path)
    eighth = disk.f_blocks * disk.f_frsize // 8
    pool, user = read_log_quota({}).bounds(tmp_path)
    assert (pool, user) == (min(POOL_BYTES, eighth), min(USER_BYTES, pool // 4))
    set_by_hand = read_log_quota(
        {"GPUPOOL_MAX_LOG_PER_POOL": "4MiB", "GPUPOOL_MAX_LOG_PER_USER": "3MiB"}
    )
    assert set_by_hand == LogQuota(4 << 20, 3 << 20)
    assert read_log_quota({"GPUPOOL_MAX_LOG_PER_POOL": "4MiB"}).bounds(tmp_path) == (
        4 << 20,
        1 << 20,
    )


@pytest.mark.parametrize("text", ["5", "much", "-1GiB", "0MiB"])
def test_a_quota_that_is_not_a_size_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadOption, match="GPUPOOL_MAX_LOG_PER_USER"):
        read_log_quota({"GPUPOOL_MAX_LOG_PER_USER": text})


@pytest.mark.parametrize(
    ("total", "largest", "dropped", "state"),
    [
        (0, 0, 0, "ok"),
        (899, 300, 0, "ok"),
        (900, 300, 0, "warn"),
        (500, 450, 0, "warn"),
        (1200, 300, 300, "warn"),
    ],
)
def test_a_quota_of_logs_is_said_to_be_reached(
    total: int, largest: int, dropped: int, state: str
) -> None:
    found = judge_logs(LogLook(total, largest, 1000, 500, dropped))
    assert found.state == state
    assert bool(found.following) is (state == "warn")
