"""Who has to leave so that a claim or a gang that finds no room can start: the cheapest set, proven before it is named.

Victims are of strictly lower priority and preemptible, or run on borrowed quota that its owner takes back; they leave
as whole gangs. They are looked for on the working copy;
the plan names them only after the claimant has found all its seats there without them. It is placed when they are gone;
until then its seats are kept for it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpupool.scheduling.clearing import Clearing
from gpupool.scheduling.domains import Need, at_level, depth_of
from gpupool.scheduling.gang import Missing, Muster
from gpupool.scheduling.snapshot import Bools, Eviction, Waiting
from gpupool.scheduling.victims import Budgets, Victim, whole
from gpupool.scheduling.work import Seated, Work

TRIED_DOMAINS = 8
"""Of a required level so many domains are tried, the roomiest first; the one whose victims cost least is taken."""

PRUNED = 32
"""So many victims of a gang are looked at once more: whether it would find its seats without them leaving."""


@dataclass(frozen=True)
class Claimant:
    """A claim, or what is missing of a gang, that found no room."""

    waiting: Waiting
    job: str
    """The head, of a gang its id."""
    asked: Missing | None = None


@dataclass(frozen=True)
class Preemption:
    """Who leaves (nobody, when those who leave already are enough), and where the claimant will sit."""

    victims: tuple[Victim, ...]
    seats: tuple[Seated, ...]


class Preemptor:
    """Looks for victims on one working copy, which is as it was afterwards."""

    def __init__(self, work: Work, budgets: Budgets) -> None:
        self._work, self._budgets = work, budgets

    def find(self, claimant: Claimant, candidates: Sequence[Victim]) -> Preemption | None:
        """None where even all that may leave would not be enough."""
        mark = self._work.mark()
        try:
            self._work.release(self._work.coming(claimant.job))
            if seats := self._proven(claimant, ()):
                return Preemption((), seats)
            victims = self._needed(claimant, whole(self._cheapest(claimant, candidates)))
            seats = self._proven(claimant, victims) if victims else ()
            return Preemption(tuple(victims), seats) if seats else None
        finally:
            self._work.rollback(mark)

    def take_back(self, claimant: Claimant, back: Sequence[Victim], first: Sequence[Victim] = ()) -> Preemption | None:
        """The fewest of these, in order, that have to leave so that quota and cards suffice; None if all do not.

        `first` leave in any case, and are named too.
        """
        mark = self._work.mark()
        try:
            self._work.release(self._work.coming(claimant.job))
            for one in first:
                self._work.release(one.jobs)
            enough = bisect_left(
                range(len(back) + 1), True, key=lambda n: bool(self._proven(claimant, whole(back[:n])))
            )
            found = whole(back[:enough])
            if enough > len(back) or not self._budgets.allow([*first, *found]):
                return None
            victims = self._needed(claimant, found)
            return Preemption((*first, *victims), self._proven(claimant, victims))
        finally:
            self._work.rollback(mark)

    def _cheapest(self, claimant: Claimant, candidates: Sequence[Victim]) -> list[Victim]:
        best: list[Victim] = []
        for inside in self._domains(claimant, candidates):
            mark = self._work.mark()
            clearing = Clearing(self._work, candidates, self._budgets)
            if _seats(clearing, claimant, inside):
                found = clearing.released
                best = found if not best or _price(found) < _price(best) else best
            self._work.rollback(mark)
        return best

    def _domains(self, claimant: Claimant, candidates: Sequence[Victim]) -> Sequence[Bools | None]:
        """Where to look: everywhere, or by domain of the level that the gang requires."""
        asked = claimant.asked
        depth = depth_of(self._work.levels, asked.gang.root.within.required) if asked else 0
        if asked is None or not depth:
            return [None]
        clearing = Clearing(self._work, candidates, self._budgets)
        copies = {path: clearing.copies(role.shape) for path, role in asked.roles.items()}
        needs = [Need(copies[path], count) for path, count in asked.least.items() if count]
        everywhere = np.ones(len(self._work.snapshot.cards.nodes), dtype=np.bool_)
        found = list(at_level(self._work.levels, depth, 0, everywhere, needs))
        return [domain.nodes for domain in reversed(found)][:TRIED_DOMAINS]

    def _needed(self, claimant: Claimant, victims: list[Victim]) -> list[Victim]:
        """Without those whose leaving the claimant can do without, the dearest looked at first."""
        for victim in sorted(victims, key=lambda one: one.key, reverse=True)[:PRUNED] if len(victims) > 1 else ():
            fewer = _without(victims, victim)
            if len(fewer) < len(victims) and self._proven(claimant, fewer):
                victims = fewer
        return victims

    def _proven(self, claimant: Claimant, gone: Sequence[Victim]) -> tuple[Seated, ...]:
        """The claimant's seats if these were gone; by the same steps as every placement."""
        mark = self._work.mark()
        try:
            for victim in gone:
                self._work.release(victim.jobs)
            return _seats(self._work, claimant)
        finally:
            self._work.rollback(mark)


def _without(victims: Sequence[Victim], victim: Victim) -> list[Victim]:
    """The others, with those that leave because of them."""
    return whole(other for other in victims if other is not victim)


def _seats(where: Work | Clearing, claimant: Claimant, inside: Bools | None = None) -> tuple[Seated, ...]:
    waiting = claimant.waiting
    if claimant.asked is not None:
        return tuple(seated for _, seated in Muster(where, waiting.tenant, claimant.asked, inside).gather_least())
    seated = where.seat(waiting.tenant, waiting.shape)
    return (seated,) if seated else ()


def _price(victims: Sequence[Victim]) -> tuple[int, int]:
    return sum(victim.cost for victim in victims), sum(len(victim.jobs) for victim in victims)


def evictions(found: Preemption, claimant: Claimant, *, guaranteed: bool) -> list[Eviction]:
    """What the plan says of each job that leaves; `guaranteed`: the claimant is inside its tenant's nominal part."""
    tenant, priority = claimant.waiting.tenant, claimant.waiting.priority
    lower = f"gives way to {claimant.job}, of priority {priority}; it has priority"
    back = f"gives way to {claimant.job}: tenant {tenant} takes back what it is guaranteed, which this job had borrowed"
    fair = f"gives way to {claimant.job}: tenant {tenant} holds less than its fair share, and this job's tenant more"
    taken = back if guaranteed else fair
    return [
        Eviction(job.job, claimant.job, lost, f"{lower} {job.priority}" if victim.yields_to(priority) else taken)
        for victim in found.victims
        for job, lost in zip(victim.jobs, victim.lost_seconds, strict=True)
    ]
