"""What is told of a job's end, in which order, without a server or a supervisor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

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


def ended(
    told: str, directory: Path, state: Literal["ended", "failed_to_start"] = "ended"
) -> list[ReportIn]:
    """What is told of a job whose end is seen when `told` was the last that was said of it."""
    reports: list[ReportIn] = []
    directories = JobDirectories(directory / "jobs", shared=False)
    settings = LaunchSettings(pool="p-test", uid=0, gid=0)
    context = JobContext(
        directories, directory, settings, reports.append, lambda _job: (), ignore_step, lambda: None
    )
    finisher = JobFinisher(
        context, AllocationTable(), SocketWatch(lambda _key: None, lambda _key: None)
    )
    checkpoint = Checkpoint("a-0000000001", 7, "j-0000000001", "whole", True)
    allocation = LocalAllocation(
        checkpoint, directories.write_checkpoint(checkpoint), JobPhase.RUNNING, reported_state=told
    )
    finisher.finish_ended(allocation, replace(RECORD, state=state))
    return reports


def test_a_job_that_was_over_before_its_start_was_told_has_run_all_the_same(tmp_path: Path) -> None:
    running, end = ended("prepared", tmp_path)
    assert (running.state, running.started_ns, running.generation) == ("running", STARTED_NS, 7)
    assert (end.state, end.exit_code) == ("ended", 3)


def test_a_start_that_was_told_is_not_told_again(tmp_path: Path) -> None:
    assert [report.state for report in ended("running", tmp_path)] == ["ended"]


def test_a_client_that_never_came_is_no_start(tmp_path: Path) -> None:
    assert [report.state for report in ended("prepared", tmp_path, "failed_to_start")] == ["ended"]
