"""The order of idle jobs, and the fewest of them after which a waiting claim starts.

Longest idle first, then the fewest bytes to move, then the job's id. A claim is served only if the
cycle places it once the seats of the victims are empty; the claims that start anyway need no victim.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.idle_suspension.factor import FactorShortage, find_factor_shortage
from gpupool.scheduling.idle_suspension.fewest import drop_unneeded, find_prefix
from gpupool.scheduling.idle_suspension.hypothesis import empty_seats
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.snapshot.plan import JobPlacement, Plan
from gpupool.scheduling.snapshot.snapshot import Snapshot

#: Of so many idle jobs, the first in order, victims are chosen: each proof is a whole cycle.
CONSIDERED: Final = 32


@dataclass(frozen=True)
class IdleJob:
    """A running job that has agreed to be suspended and is idle for long enough."""

    job: str
    idle_ns: int
    #: What it has on its cards, which must be moved.
    card_bytes: int


@dataclass(frozen=True)
class IdleVictims:
    """The jobs to suspend, in order, and the job, gang or array that then starts."""

    jobs: tuple[str, ...]
    beneficiary: str


@dataclass(frozen=True)
class VictimRejection:
    """Why no idle job is suspended, although room would come of it."""

    beneficiary: str
    shortage: FactorShortage


def sort_idle_jobs(jobs: Iterable[IdleJob]) -> list[IdleJob]:
    """Sort by the order in which they give way."""
    return sorted(jobs, key=lambda one: (-one.idle_ns, one.card_bytes, one.job))


def find_idle_victims(
    snapshot: Snapshot, now_ns: int, idle: Iterable[IdleJob], preemption: PreemptionRules
) -> IdleVictims | None:
    """Find the fewest idle jobs, first in order, after whose suspension a waiting claim starts.

    The factor is held: what an idle job had is kept as far as the pool does not lend it twice.

    Args:
        snapshot: the pool; the seats of jobs that are on their way to the host are empty in it.
        now_ns: its instant.
        idle: the candidates.
        preemption: which jobs may be evicted for a claim.

    Returns:
        None if no claim waits for what these jobs hold.
    """
    left = sort_idle_jobs(idle)[:CONSIDERED]
    if not (left and snapshot.waiting):
        return None
    return _VictimSearch(snapshot, now_ns, preemption).find(left)


def find_victim_rejection(
    snapshot: Snapshot, now_ns: int, idle: Iterable[IdleJob], preemption: PreemptionRules
) -> VictimRejection | None:
    """Find the card whose factor keeps idle jobs from being suspended for a waiting claim.

    To be asked where `find_idle_victims` found none; arguments are the same.
    """
    left = sort_idle_jobs(idle)[:CONSIDERED]
    if not (left and snapshot.waiting):
        return None
    search = _VictimSearch(snapshot, now_ns, preemption, as_idle=False)
    found = search.find(left)
    shortage = None if found is None else search.find_shortage(found)
    if found is None or shortage is None:
        return None
    return VictimRejection(found.beneficiary, shortage)


class _VictimSearch:
    """The trials on one snapshot."""

    def __init__(
        self,
        snapshot: Snapshot,
        now_ns: int,
        preemption: PreemptionRules,
        *,
        as_idle: bool = True,
    ) -> None:
        self._snapshot = snapshot
        self._now_ns = now_ns
        self._preemption = preemption
        #: Whether the memory of victims counts in the factor.
        self._as_idle = as_idle
        self._cards = {job.job: _name_cards(snapshot, job.rows) for job in snapshot.running}
        plan = self._run_cycle(())
        #: Claims that start, or for which others leave, without any victim.
        self._served = {_name_claim(one) for one in plan.placements}
        self._served.update(eviction.beneficiary for eviction in plan.evictions)

    def find(self, candidates: Sequence[IdleJob]) -> IdleVictims | None:
        """Find the fewest of these, in order; None if all together help no claim."""
        names = [one.job for one in candidates]
        chosen = find_prefix(names, lambda victims: bool(self._list_new_claims(victims)))
        if chosen is None:
            return None
        beneficiary = self._list_new_claims(chosen)[0]
        return IdleVictims(tuple(self._drop_unneeded(chosen, beneficiary)), beneficiary)

    def find_shortage(self, found: IdleVictims) -> FactorShortage | None:
        """Find the card that the suspension would bring above the factor."""
        plan = self._run_cycle(found.jobs)
        return find_factor_shortage(empty_seats(self._snapshot, found.jobs), plan.placements)

    def _drop_unneeded(self, chosen: Sequence[str], beneficiary: str) -> list[str]:
        """Drop victims without which the claim starts too, the last in order first."""
        kept = list(chosen)
        cards = self._list_seat_cards(kept, beneficiary)
        near = [job for job in kept if not cards.isdisjoint(self._cards[job])]
        if len(near) < len(kept) and beneficiary in self._list_new_claims(near):
            kept = near
        return drop_unneeded(kept, lambda fewer: beneficiary in self._list_new_claims(fewer))

    def _list_seat_cards(self, victims: Sequence[str], beneficiary: str) -> frozenset[str]:
        cards = set[str]()
        for placement in self._run_cycle(victims).placements:
            if _name_claim(placement) == beneficiary:
                cards.update(seat.device for seat in placement.seats)
        return frozenset(cards)

    def _list_new_claims(self, victims: Collection[str]) -> list[str]:
        """List the claims that start only without these jobs, in the order of the plan."""
        if not victims:
            return []
        placed = map(_name_claim, self._run_cycle(victims).placements)
        return [claim for claim in placed if claim not in self._served]

    def _run_cycle(self, victims: Collection[str]) -> Plan:
        emptied = empty_seats(self._snapshot, frozenset(victims), as_idle=self._as_idle)
        return cycle(emptied, self._now_ns, rules=self._preemption, said=False)


def _name_claim(placement: JobPlacement) -> str:
    return placement.gang or placement.job


def _name_cards(snapshot: Snapshot, rows: Iterable[int]) -> tuple[str, ...]:
    return tuple(snapshot.cards.uuids[row] for row in rows)
