"""The search for victims: the cheapest set that lets a claim or gang start, verified by simulation.

Victims are preemptible and of strictly lower priority, or run on borrowed quota that its owner
reclaims; gangs leave as a whole. The search runs on the working copy. The plan names victims only
after the claimant has found all its seats there without them. The claimant is placed when they have
left; until then its seats are held.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpupool.scheduling.filtering.domains import MemberDemand, find_depth, iterate_level
from gpupool.scheduling.preemption.victim_simulation import VictimSimulation
from gpupool.scheduling.preemption.victims import EvictionBudgets, Victim, add_spare_members
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.snapshot.columns import Bools
from gpupool.scheduling.snapshot.plan import Eviction
from gpupool.scheduling.workspace.gang_placement import (
    GangPlacement,
)
from gpupool.scheduling.workspace.pending_members import (
    PendingMembers,
)
from gpupool.scheduling.workspace.tentative_placement import (
    TentativePlacement,
)
from gpupool.scheduling.workspace.transaction import (
    PlanningTransaction,
)

#: Of a required level so many domains are tried, the roomiest first; the one with the cheapest
#: victims is taken.
TRIED_DOMAINS = 8

#: So many victims of a gang are checked once more: whether it finds its seats without evicting
#: them.
PRUNED = 32


@dataclass(frozen=True)
class PreemptionClaimant:
    """A claim, or the pending members of a gang, that found no room."""

    waiting: WaitingClass
    #: The head; of a gang its id.
    job: str
    asked: PendingMembers | None = None


@dataclass(frozen=True)
class VictimSet:
    """The jobs that leave, and where the claimant will be placed.

    Empty when those that already leave are enough.
    """

    victims: tuple[Victim, ...]
    seats: tuple[TentativePlacement, ...]


class VictimSearch:
    """A search on one working copy, which is unchanged afterwards."""

    def __init__(self, work: PlanningTransaction, budgets: EvictionBudgets) -> None:
        self._work = work
        self._budgets = budgets

    def find_victims(
        self, claimant: PreemptionClaimant, candidates: Sequence[Victim]
    ) -> VictimSet | None:
        """Find the cheapest victims; None where even all candidates would not be enough."""
        mark = self._work.mark()
        try:
            self._work.release_jobs(self._work.list_leaving_for(claimant.job))
            # Jobs that leave already may be enough. Nobody else loses work then.
            if seats := self._prove_seats(claimant, ()):
                return VictimSet((), seats)
            victims = self._drop_unneeded(
                claimant, add_spare_members(self._find_cheapest(claimant, candidates))
            )
            seats = self._prove_seats(claimant, victims) if victims else ()
            return VictimSet(tuple(victims), seats) if seats else None
        finally:
            self._work.rollback(mark)

    def find_reclaimed_victims(
        self, claimant: PreemptionClaimant, back: Sequence[Victim], first: Sequence[Victim] = ()
    ) -> VictimSet | None:
        """Find the fewest of these, in order, that must leave so that quota and cards suffice.

        Args:
            claimant: the claim.
            back: the candidates, in the order to take them.
            first: these leave in any case, and are named too.

        Returns:
            None where all of them together do not suffice.
        """
        mark = self._work.mark()
        try:
            self._work.release_jobs(self._work.list_leaving_for(claimant.job))
            for one in first:
                self._work.release_jobs(one.jobs)
            # More victims never give less room, so the fewest that suffice are found by halving:
            # each proof places the claimant on the working copy, which costs more than all else
            # here.
            enough = bisect_left(
                range(len(back) + 1),
                True,
                key=lambda n: bool(self._prove_seats(claimant, add_spare_members(back[:n]))),
            )
            found = add_spare_members(back[:enough])
            if enough > len(back) or not self._budgets.is_allowed([*first, *found]):
                return None
            victims = self._drop_unneeded(claimant, found)
            return VictimSet((*first, *victims), self._prove_seats(claimant, victims))
        finally:
            self._work.rollback(mark)

    def find_settled_victims(
        self, claimant: PreemptionClaimant, back: Sequence[Victim]
    ) -> VictimSet | None:
        """Find victims of these for a claim, where the working copy shows no evictions in progress."""
        victims = self._drop_unneeded(claimant, add_spare_members(back))
        seats = self._prove_seats(claimant, victims)
        return VictimSet(tuple(victims), seats) if seats else None

    def _find_cheapest(
        self, claimant: PreemptionClaimant, candidates: Sequence[Victim]
    ) -> list[Victim]:
        best: list[Victim] = []
        for inside in self._list_domains(claimant, candidates):
            mark = self._work.mark()
            clearing = VictimSimulation(self._work, candidates, self._budgets)
            if _seat_claimant(clearing, claimant, inside):
                found = clearing.released_victims
                # Strictly cheaper: among equals the roomiest domain stays, which makes the choice
                # deterministic.
                best = found if not best or _compute_price(found) < _compute_price(best) else best
            self._work.rollback(mark)
        return best

    def _list_domains(
        self, claimant: PreemptionClaimant, candidates: Sequence[Victim]
    ) -> Sequence[Bools | None]:
        """Where to look: everywhere, or by domain of the level that the gang requires."""
        asked = claimant.asked
        depth = find_depth(self._work.levels, asked.gang.root.within.required) if asked else 0
        if asked is None or not depth:
            return [None]
        clearing = VictimSimulation(self._work, candidates, self._budgets)
        # An upper bound per node, as if every candidate had left: it only orders the domains.
        needs = list[MemberDemand]()
        for path, count in asked.least.items():
            if count:
                copies = clearing.count_fits(asked.roles[path].shape)
                needs.append(MemberDemand(copies, count))
        everywhere = np.ones(len(self._work.snapshot.cards.nodes), dtype=np.bool_)
        found = list(iterate_level(self._work.levels, depth, 0, everywhere, needs))
        return [domain.nodes for domain in reversed(found)][:TRIED_DOMAINS]

    def _drop_unneeded(self, claimant: PreemptionClaimant, victims: list[Victim]) -> list[Victim]:
        """Drop victims without which the claimant starts too, the dearest first."""
        # The search took victims per node; together some of them may not be needed. Dearest first,
        # so that what stays is cheap.
        for victim in (
            sorted(victims, key=lambda one: one.key, reverse=True)[:PRUNED]
            if len(victims) > 1
            else ()
        ):
            fewer = _remove_victim(victims, victim)
            if len(fewer) < len(victims) and self._prove_seats(claimant, fewer):
                victims = fewer
        return victims

    def _prove_seats(
        self, claimant: PreemptionClaimant, gone: Sequence[Victim]
    ) -> tuple[TentativePlacement, ...]:
        """The claimant's seats without these victims, by the same steps as every placement."""
        mark = self._work.mark()
        try:
            for victim in gone:
                self._work.release_jobs(victim.jobs)
            return _seat_claimant(self._work, claimant)
        finally:
            self._work.rollback(mark)


def _remove_victim(victims: Sequence[Victim], victim: Victim) -> list[Victim]:
    """The others, with those that leave because of them."""
    return add_spare_members(other for other in victims if other is not victim)


def _seat_claimant(
    where: PlanningTransaction | VictimSimulation,
    claimant: PreemptionClaimant,
    inside: Bools | None = None,
) -> tuple[TentativePlacement, ...]:
    waiting = claimant.waiting
    if claimant.asked is not None:
        # The minimum only: no job leaves for members that the gang can do without.
        gang = GangPlacement(where, waiting.tenant, claimant.asked, inside)
        return tuple(seated for _, seated in gang.try_place_minimum())
    seated = where.seat_claim(waiting.tenant, waiting.shape)
    return (seated,) if seated else ()


def _compute_price(victims: Sequence[Victim]) -> tuple[int, int]:
    return sum(victim.cost for victim in victims), sum(len(victim.jobs) for victim in victims)


def make_evictions(
    found: VictimSet, claimant: PreemptionClaimant, *, guaranteed: bool
) -> list[Eviction]:
    """Make the evictions that the plan reports.

    Args:
        found: the victims.
        claimant: their beneficiary.
        guaranteed: whether the claimant is inside its tenant's nominal part.
    """
    tenant = claimant.waiting.tenant
    priority = claimant.waiting.priority
    lower = f"gives way to {claimant.job}, of priority {priority}; it has priority"
    back = (
        f"gives way to {claimant.job}: tenant {tenant} takes back what it is guaranteed, "
        "which this job had borrowed"
    )
    fair = (
        f"gives way to {claimant.job}: tenant {tenant} holds less than its fair share, "
        "and this job's tenant more"
    )
    taken = back if guaranteed else fair
    evictions = list[Eviction]()
    for victim in found.victims:
        by_priority = victim.is_evictable_for(priority)
        for job, lost in zip(victim.jobs, victim.lost_seconds, strict=True):
            why = f"{lower} {job.priority}" if by_priority else taken
            evictions.append(Eviction(job.job, claimant.job, lost, why))
    return evictions
