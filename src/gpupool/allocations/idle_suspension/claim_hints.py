"""Says to a waiting claim which idle jobs give way to it, or why none does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpupool.allocations.idle_suspension.agreed_jobs import AgreedJob
from gpupool.model.suspension import SuspensionState
from gpupool.scheduling import (
    IdleJob,
    PreemptionRules,
    Snapshot,
    WaitingClass,
    describe_kept,
    describe_leaving,
    describe_shortage,
    describe_victims,
    find_idle_victims,
    find_kept_card,
    find_victim_rejection,
)


def list_claim_hints(
    waiting: WaitingClass,
    snapshot: Snapshot,
    now_ns: int,
    agreed: Sequence[AgreedJob],
    idle: Sequence[IdleJob],
    preemption: PreemptionRules,
) -> list[str]:
    """List sentences for one class of claims; nothing where no job that agreed could help.

    Args:
        waiting: the class.
        snapshot: the pool, with the seats of jobs that are on their way to the host empty.
        now_ns: its instant.
        agreed: the jobs that agreed to be suspended while idle.
        idle: those that are idle for long enough.
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
    alone = replace(snapshot, waiting=(waiting,))
    candidates = [*idle, *busy]
    found = find_idle_victims(alone, now_ns, candidates, preemption)
    if found is not None:
        return [describe_victims(len(found.jobs), sum(job not in ready for job in found.jobs))]
    kept = find_kept_card(alone, now_ns, preemption)
    if kept is not None:
        return [describe_kept(kept, _name_card(agreed, kept.card))]
    rejection = find_victim_rejection(alone, now_ns, candidates, preemption)
    if rejection is None:
        return []
    shortage = rejection.shortage
    return [describe_shortage(shortage, _name_card(agreed, shortage.card))]


def _name_card(agreed: Sequence[AgreedJob], uuid: str) -> str:
    names = (one.names[uuid] for one in agreed if uuid in one.names)
    return next(names, uuid)
