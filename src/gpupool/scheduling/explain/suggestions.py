"""Suggestions for a waiting claim: ask for less, adopt a card, stop an own job, wait until a time.

Each suggestion was tried on the pool as the plan leaves it; none is a guess. Only running jobs of
the asking tenant are named, because tenants may not see each other's jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpupool.model.claim import Rejection, RejectionReason
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.admission.nearest_shape import NearestShapes
from gpupool.scheduling.engine.cycle_state import (
    CycleState,
)
from gpupool.scheduling.explain.mps_cards import list_mps_cards
from gpupool.scheduling.explain.reachability import ObstacleCause, Reachability
from gpupool.scheduling.filtering.feasibility import CODE, ClaimFit
from gpupool.scheduling.quota.working_quotas import WorkingQuotas
from gpupool.scheduling.reasons import help_messages, reach_messages
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.snapshot.plan import PlannedStart
from gpupool.scheduling.workspace.gang_placement import (
    GangPlacement,
)
from gpupool.scheduling.workspace.pending_members import (
    Path,
    PendingMembers,
    count_room_by_role,
)

#: Rejections whose own hint is true whatever else helps.
_WITH_HINT = frozenset({RejectionReason.QUOTA, RejectionReason.RESERVED})


def list_suggestions(
    said: Rejection,
    waiting: WaitingClass,
    after: CycleState,
    options: NearestShapes | None,
    start: PlannedStart | None,
    reached: Reachability,
    *,
    chance_pct: int | None = None,
    first: bool = True,
    beside: Sequence[str] = (),
) -> tuple[str, ...]:
    """List suggestions as sentences, the smallest change first.

    Args:
        said: why the claim waits.
        waiting: the class.
        after: the cycle, as its plan leaves the pool.
        options: nearest shapes; None for a gang.
        start: the start of the class's first claim.
        reached: what stops it in an empty pool.
        chance_pct: the chance of the start.
        first: whether the first claim of the class asks.
        beside: what lets it start beside what is kept for others; it replaces the rejection's hint.
    """
    if said.dominant is RejectionReason.BEHIND:
        return ()
    found = [
        *beside,
        *list_mps_cards(waiting, after),
        *_suggest_shapes(waiting, after, options),
        *_suggest_adoption(said, waiting, after),
        *_suggest_own_jobs(said, waiting, after),
    ]
    if not reached.can_start:
        return (*found, *_suggest_admin_steps(reached))
    if said.dominant in _WITH_HINT and said.hint and not beside:
        found.append(said.hint)
    if said.dominant is RejectionReason.QUOTA:
        found.append(_suggest_quota(waiting, after))
    at_ns = _find_eviction_time(said, waiting, after)
    if at_ns and (start is None or at_ns < start.at_ns):
        found.append(
            help_messages.suggest_wait_for_lower(at_ns, after.eviction_planner.rules.protected_s)
        )
    elif start is not None:
        words = help_messages.suggest_wait_until if first else help_messages.suggest_wait_for_first
        found.append(words(start.latest_ns, promised=start.firm, chance_pct=chance_pct))
    elif said.fits_ever:
        found.append(help_messages.WAIT)
    return tuple(found) or ((said.hint,) if said.hint else ())


def _suggest_shapes(
    waiting: WaitingClass, after: CycleState, options: NearestShapes | None
) -> list[str]:
    if options is not None:
        return [help_messages.suggest_shape(shape) for shape in options.list_all()]
    asked = after.gangs[waiting.gang.id] if waiting.gang else None
    if asked is None:
        return []
    fewer = _find_smaller_gang(waiting, asked, after)
    return (
        []
        if fewer is None
        else [help_messages.suggest_fewer_members(asked.roles[fewer[0]].name, fewer[1])]
    )


def _find_smaller_gang(
    waiting: WaitingClass, asked: PendingMembers, after: CycleState
) -> tuple[Path, int] | None:
    """The first role of which fewer members would let the whole gang start now."""
    for path, room in count_room_by_role(after.transaction, asked).items():
        if 0 < room < asked.least[path]:
            smaller = replace(asked, least={**asked.least, path: room})
            mark = after.transaction.mark()
            placement = GangPlacement(after.transaction, waiting.tenant, smaller)
            is_enough = bool(placement.try_place_minimum())
            # Before the answer: seats that stayed taken would hide what else helps.
            after.transaction.rollback(mark)
            if is_enough:
                return path, room
    return None


def _list_fits(waiting: WaitingClass, after: CycleState) -> list[ClaimFit]:
    """The shapes that the class asks for, against what is free."""
    if waiting.gang is None:
        return [after.transaction.get_fit(waiting.shape)]
    return [after.transaction.get_fit(role.shape) for role in waiting.gang.root.iterate_roles()]


def _suggest_adoption(said: Rejection, waiting: WaitingClass, after: CycleState) -> list[str]:
    observed = list[int]()
    for fit in _list_fits(waiting, after):
        not_adopted = fit.fixed == CODE[RejectionReason.NOT_ADOPTED]
        observed.append(int(np.count_nonzero(not_adopted)))
    return (
        [help_messages.suggest_adopt(max(observed))]
        if any(observed) and said.dominant is not RejectionReason.QUOTA
        else []
    )


def _suggest_own_jobs(said: Rejection, waiting: WaitingClass, after: CycleState) -> list[str]:
    """Whether it would start if its own tenant stopped its jobs on cards that the claim could use."""
    usable = np.logical_or.reduce([fit.possible for fit in _list_fits(waiting, after)])
    running = after.snapshot.running
    own = [job for job in running if job.tenant == waiting.tenant and usable[list(job.rows)].any()]
    # Where cards are kept for another claim, there is room already, and that claim takes what ends.
    if not own or said.dominant in _WITH_HINT:
        return []
    mark = after.transaction.mark()
    after.transaction.release_jobs(own)
    enough = after.can_fit(waiting)
    after.transaction.rollback(mark)
    cards = len({row for job in own for row in job.rows if usable[row]})
    return [help_messages.suggest_own_jobs(waiting.tenant, len(own), cards)] if enough else []


def _find_eviction_time(said: Rejection, waiting: WaitingClass, after: CycleState) -> int:
    """When all preemptible jobs may be evicted, where that is enough and some are too young now;
    else 0.
    """
    jobs, at_ns = after.eviction_planner.list_evictable(waiting.priority)
    if at_ns <= after.now_ns or said.dominant is RejectionReason.QUOTA:
        return 0
    mark = after.transaction.mark()
    after.transaction.release_jobs(jobs)
    enough = after.can_fit(waiting)
    after.transaction.rollback(mark)
    return at_ns if enough else 0


def _suggest_admin_steps(reached: Reachability) -> list[str]:
    """What lets a claim start that no end of a job does."""
    found = [reach_messages.format_resubmission(reached.options)] if reached.options else []
    if reached.cause is ObstacleCause.QUOTA:
        found += [reach_messages.ADMIN_HINT, reach_messages.NO_QUOTA]
    return found


def _suggest_quota(waiting: WaitingClass, after: CycleState) -> str:
    """What makes room in the quota: its own tenant's jobs only where their ends are enough."""
    now = after.snapshot
    tenant = waiting.tenant
    tenants = {**now.tenants, tenant: replace(now.tenants[tenant], held=ResourceAmount())}
    without = replace(
        now, tenants=tenants, running=tuple(job for job in now.running if job.tenant != tenant)
    )
    quotas = WorkingQuotas(without, after.transaction.free)
    quotas.firm = not waiting.preemptible
    own = quotas.admit_shape(tenant, waiting.shape, after.compute_least(waiting)) is not None
    return help_messages.suggest_free_quota(tenant) if own else help_messages.suggest_raise_quota()
