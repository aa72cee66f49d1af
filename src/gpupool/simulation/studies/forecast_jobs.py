"""Build the jobs that a forecast plays: those that run, and those that wait. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.scheduling.snapshot.claims import ClassKey, RunningJob, WaitingClass
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.simulation.replay.world import SimulatedJob


def build_running_job(one: RunningJob, begin: Snapshot, now_ns: int) -> SimulatedJob:
    """Build a job that runs until its end, if one is known."""
    key = ClassKey(
        one.tenant, one.priority, one.shape, None, one.gang, one.reservation, one.preemptible
    )
    left = None if one.ends_ns is None else max(0, one.ends_ns - now_ns)
    node = int(begin.cards.node[one.rows[0]]) if one.rows else -1
    return SimulatedJob(
        one.job,
        key,
        one.shape,
        one.started_ns,
        left,
        None,
        one.preemptible,
        False,
        one,
        node,
        starts=1,
    )


def build_homeless_job(one: RunningJob, now_ns: int) -> SimulatedJob:
    """Build the job of a removed node, which waits again.

    A member of a gang waits by itself, since the other members run on.
    """
    lasts = None if one.ends_ns is None else max(NANOS_PER_SECOND, one.ends_ns - one.started_ns)
    seconds = None if lasts is None else lasts // NANOS_PER_SECOND
    key = ClassKey(
        one.tenant, one.priority, one.shape, seconds, "", one.reservation, one.preemptible
    )
    return SimulatedJob(one.job, key, one.shape, now_ns, lasts, None, one.preemptible)


def build_queue(waiting: Sequence[WaitingClass]) -> list[SimulatedJob]:
    """Build the jobs that wait, class by class and in each class the oldest first.

    A change of sharing can make one class of two.
    """
    classes: dict[ClassKey, list[SimulatedJob]] = {}
    for entry in waiting:
        classes.setdefault(entry.key, []).extend(_build_waiting_jobs(entry))
    queue: list[SimulatedJob] = []
    for jobs in classes.values():
        queue += sorted(jobs, key=lambda job: job.submitted_ns)
    return queue


def _build_waiting_jobs(entry: WaitingClass) -> Iterator[SimulatedJob]:
    """Build the jobs of a class.

    A snapshot names only the first jobs; those behind them are as old as the last that has a name.
    """
    role_of = entry.gang.map_roles() if entry.gang else {}
    ages = entry.submitted_ns or (entry.oldest_ns,) * len(entry.job_ids)
    limit_ns = None if entry.seconds is None else entry.seconds * NANOS_PER_SECOND
    names = list(entry.job_ids)
    for number in range(1, entry.count - len(entry.job_ids) + 1):
        names.append(f"{entry.job_ids[-1]}+{number}")
    for number, job in enumerate(names):
        shape = role_of[job].shape if job in role_of else entry.shape
        yield SimulatedJob(
            id=job,
            key=entry.key,
            shape=shape,
            submitted_ns=ages[min(number, len(ages) - 1)],
            left_ns=limit_ns,
            gang=entry.gang,
            preemptible=entry.priority < 0,
            counts=entry.gang is None or number == 0,
        )
