"""What is told of a job's end, in which order, without a server or a supervisor."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from gpupool.agent.jobs.checkpoint import Checkpoint, JobDirectories
from gpupool.agent.jobs.faults import ignore_step
from gpupool.agent.jobs.finish import JobFinisher
from gpupool.agent.jobs.job_context import JobContext
from gpupool.agent.jobs.launch import LaunchSettings
from gpupool.agent.jobs.local_allocation import AllocationTable, JobPhase, LocalAllocation
from gpupool.agent.supervisor.job_record import ExitRecord
from gpupool.agent.supervisor.socket_watch import SocketWatch
from gpupool.wire.fleet import ReportIn

STARTED_NS = 1_795_262_400_000_000_000
RECORD = ExitRecord(
    state="ended",
    reason="exited",
    exit_code=3,
    signal=None,
    core_dumped=False,
    errno=None,
    stage="",
    message="",
    started_ns=STARTED_NS,
    ended_ns=STARTED_NS + 1,
    started_boot_ns=1,
    ended_boot_ns=2,
    user_us=0,
    system_us=0,
    max_rss_bytes=0,
    memory_peak_bytes=None,
    log_bytes=0,
    lost_bytes=0,
    share="",
    share_refused="",
    leftover=0,
)


def make_finisher(
    told: str,
    directory: Path,
    reports: list[ReportIn],
    reach_step: Callable[[str], None] = ignore_step,
) -> tuple[JobFinisher, LocalAllocation]:
    """A finisher, and an allocation of a job of which `told` was the last that was said."""
    directories = JobDirectories(directory / "jobs", shared=False)
    settings = LaunchSettings(pool="p-test", uid=0, gid=0)
    context = JobContext(
        directories, directory, settings, reports.append, lambda _job: (), reach_step, lambda: None
    )
    finisher = JobFinisher(
        context, AllocationTable(), SocketWatch(lambda _key: None, lambda _key: None)
    )
    checkpoint = Checkpoint("a-0000000001", 7, "j-0000000001", "whole", True)
    allocation = LocalAllocation(
        checkpoint, directories.write_checkpoint(checkpoint), JobPhase.RUNNING, reported_state=told
    )
    return finisher, allocation


def ended(
    told: str, directory: Path, state: Literal["ended", "failed_to_start"] = "ended"
) -> list[ReportIn]:
    """What is told of a job whose end is seen when `told` was the last that was said of it."""
    reports: list[ReportIn] = []
    finisher, allocation = make_finisher(told, directory, reports)
    finisher.finish_ended(allocation, replace(RECORD, state=state))
    return reports


@contextmanager
def no_descriptors(begin: list[Callable[[], None]]) -> Iterator[None]:
    """Have a function in `begin` after which this process can open nothing until the block ends."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)

    def take_all() -> None:
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, before[1]))

    begin.append(take_all)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_job_that_was_over_before_its_start_was_told_has_run_all_the_same(tmp_path: Path) -> None:
    running, end = ended("prepared", tmp_path)
    assert (running.state, running.started_ns, running.generation) == ("running", STARTED_NS, 7)
    assert (end.state, end.exit_code) == ("ended", 3)


def test_a_start_that_was_told_is_not_told_again(tmp_path: Path) -> None:
    assert [report.state for report in ended("running", tmp_path)] == ["ended"]


def test_a_client_that_never_came_is_no_start(tmp_path: Path) -> None:
    assert [report.state for report in ended("prepared", tmp_path, "failed_to_start")] == ["ended"]


def test_an_end_that_met_a_shortage_of_descriptors_is_told_afterwards(tmp_path: Path) -> None:
    reports: list[ReportIn] = []
    begin: list[Callable[[], None]] = []
    finisher, allocation = make_finisher("running", tmp_path, reports, lambda _step: begin[0]())
    with no_descriptors(begin), pytest.raises(OSError, match="Too many open files"):
        finisher.finish_not_started(allocation, "stopped before it started")
    begin[0] = lambda: None
    finisher.finish_not_started(allocation, "stopped before it started")
    assert [report.state for report in reports] == ["not_started"]
