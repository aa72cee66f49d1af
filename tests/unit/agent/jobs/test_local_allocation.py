"""The phases of an allocation on its node."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.agent.jobs.checkpoint import Checkpoint
from gpupool.agent.jobs.local_allocation import (
    PHASE_CHANGES,
    AllocationTable,
    JobPhase,
    LocalAllocation,
)


def make_allocation(allocation: str, job: str, phase: JobPhase) -> LocalAllocation:
    return LocalAllocation(Checkpoint(allocation, 1, job, "share", False), Path("/jobs"), phase)


@pytest.mark.parametrize("before", JobPhase)
@pytest.mark.parametrize("after", JobPhase)
def test_a_phase_changes_only_as_the_table_says(before: JobPhase, after: JobPhase) -> None:
    one = make_allocation("a-1", "j-1", before)
    is_allowed = after is before or after in PHASE_CHANGES[before]
    assert one.enter_phase(after) is is_allowed
    assert one.phase is (after if is_allowed else before)


def test_a_job_that_runs_already_does_not_go_back_to_starting() -> None:
    """Work that comes while a worker finds the job's supervisor must not hide that it runs."""
    one = make_allocation("a-1", "j-1", JobPhase.RUNNING)
    assert not one.enter_phase(JobPhase.STARTING)


def test_every_phase_can_end() -> None:
    for phase in JobPhase:
        assert make_allocation("a-1", "j-1", phase).enter_phase(JobPhase.ENDED)


def test_the_files_of_a_job_are_finished_with_its_last_allocation() -> None:
    table = AllocationTable()
    first = make_allocation("a-1", "j-1", JobPhase.ENDED)
    second = make_allocation("a-2", "j-1", JobPhase.ENDED)
    table.add(first)
    table.add(second)
    calls: list[str] = []
    assert table.remove(first, lambda: calls.append("first"))
    assert table.remove(second, lambda: calls.append("second"))
    assert not table.remove(second, lambda: calls.append("again"))
    assert calls == ["second"]
