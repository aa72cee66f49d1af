"""The snapshot as it would be with the seats of some running jobs empty."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace

from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.idle_suspension.kept_capacity import replace_suspended
from gpupool.scheduling.snapshot.claims import RunningJob, SuspendedJob
from gpupool.scheduling.snapshot.snapshot import Snapshot


def empty_seats(snapshot: Snapshot, jobs: Collection[str], *, as_idle: bool = True) -> Snapshot:
    """Return the snapshot in which these running jobs are suspended; others are as they were.

    Their cards and their tenants' quotas get back what they hold. Processors and main memory stay
    theirs, as those of every suspended job do.

    Args:
        snapshot: the pool.
        jobs: the jobs; names of others are ignored.
        as_idle: they are suspended because they are idle, so their memory counts in the factor.
    """
    if not jobs:
        return snapshot
    free_milli = snapshot.cards.free_milli.copy()
    free_bytes = snapshot.cards.free_bytes.copy()
    returned = defaultdict[str, ResourceAmount](ResourceAmount)
    running = list[RunningJob]()
    suspended = list(snapshot.suspended)
    for job in snapshot.running:
        if job.job not in jobs:
            running.append(job)
            continue
        for row, milli, size in zip(job.rows, job.milli, job.sizes, strict=True):
            free_milli[row] += milli
            free_bytes[row] += size
        returned[job.tenant] += ResourceAmount(sum(job.milli), sum(job.sizes))
        nothing = (0,) * len(job.rows)
        emptied_job = replace(job, milli=nothing, sizes=nothing, preemptible=False, beneficiary="")
        running.append(emptied_job)
        if as_idle and job.rows:
            suspended.append(SuspendedJob(job.job, job.rows, job.milli[0], job.sizes))
    tenants = dict(snapshot.tenants)
    for name, amount in returned.items():
        tenants[name] = replace(tenants[name], held=tenants[name].held - amount)
    cards = replace(snapshot.cards, free_milli=free_milli, free_bytes=free_bytes)
    emptied = replace(snapshot, cards=cards, tenants=tenants, running=tuple(running))
    return replace_suspended(emptied, tuple(suspended))
