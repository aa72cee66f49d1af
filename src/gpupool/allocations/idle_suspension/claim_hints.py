"""Says to a waiting claim which idle jobs give way to it, or why none does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpupool.allocations.idle_suspension.agreed_jobs import AgreedJob, sum_suspended_bytes
from gpupool.model.suspension import IdleSuspensionRules, SuspensionState
from gpupool.scheduling import (
    IdleJob,
    IdleVictims,
    PreemptionRules,
    Snapshot,
    VictimRejection,
    WaitingClass,
    describe_leaving,
    describe_shortage,
    describe_victims,
    find_idle_victims,
)


def list_claim_hints(
    waiting: WaitingClass,
    snapshot: Snapshot,
    now_ns: int,
    agreed: Sequence[AgreedJob],
    idle: Sequence[IdleJob],
    rules: IdleSuspensionRules,
    preemption: PreemptionRules,
) -> list[str]:
    """List sentences for one class of claims; nothing where no job that agreed could help.

    Args:
        waiting: the class.
        snapshot: the pool, with the seats of jobs that are on their way to the host empty.
        now_ns: its instant.
        agreed: the jobs that agreed to be suspended while idle.
        idle: those that are idle for long enough.
        rules: the pool's rules.
        preemption: which jobs may be evicted.
    """
    claims = {*waiting.job_ids, waiting.key.gang}
    leaving = sum(
        one.suspension is SuspensionState.SUSPENDING and one.beneficiary in claims for one in agreed
    )
    if leaving:
        return [describe_leaving(leaving)]
    ready = {one.job for one in idle}
    busy = [IdleJob(one.job, 0, 0) for one in agreed if one.is_on_cards and one.job not in ready]
    found = find_idle_victims(
        replace(snapshot, waiting=(waiting,)),
        now_ns,
        [*idle, *busy],
        sum_suspended_bytes(agreed),
        rules,
        preemption,
    )
    if isinstance(found, IdleVictims):
        return [describe_victims(len(found.jobs), sum(job not in ready for job in found.jobs))]
    if isinstance(found, VictimRejection):
        uuid = found.shortage.card
        names = (one.names[uuid] for one in agreed if uuid in one.names)
        return [describe_shortage(found.shortage, next(names, uuid))]
    return []
