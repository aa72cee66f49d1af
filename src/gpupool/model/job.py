"""A job's lifecycle: a claim plus the command that uses it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class JobState(StrEnum):
    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"


_ENDED = frozenset({JobState.DONE, JobState.FAILED, JobState.STOPPED, JobState.LOST})

TRANSITIONS: Mapping[JobState, frozenset[JobState]] = {
    # A job goes back from starting to pending when its node proved that the command never ran, and
    # from running when it was preempted, or lost and asked to start again.
    JobState.PENDING: frozenset({JobState.STARTING, JobState.STOPPED, JobState.FAILED}),
    JobState.STARTING: frozenset({JobState.PENDING, JobState.RUNNING}) | _ENDED,
    JobState.RUNNING: frozenset({JobState.PENDING}) | _ENDED,
    **{state: frozenset[JobState]() for state in sorted(_ENDED)},
}

LIVE = frozenset(TRANSITIONS) - _ENDED
ENDED = _ENDED


def is_job_transition(old: JobState, new: JobState) -> bool:
    """Whether the lifecycle allows the step; a state does not follow itself."""
    return new in TRANSITIONS[old]
