"""The planning state of a pool: a working copy with all caches, which lives between cycles.

A cycle tries changes on it and rolls back; `follow` takes in what really happened since, by
comparing columns. So a decision costs what changed and not the size of the pool. It knows no queue
and no tenants.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import numpy as np

from gpupool.model.claim import Shape
from gpupool.model.partition import PartitionSlot
from gpupool.scheduling.filtering import numa_affinity
from gpupool.scheduling.filtering.capacity_change import SlotChange
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.fit_counts import FitCounts
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.numa_capacity import NumaDivision
from gpupool.scheduling.quota.pool_size import measure_pool
from gpupool.scheduling.scoring import registry
from gpupool.scheduling.scoring.guarded_policy import (
    GuardedPartitionRater,
    GuardedRater,
    PolicyFault,
    start_guarded,
)
from gpupool.scheduling.scoring.partitions import PartitionRater
from gpupool.scheduling.scoring.policy import NodeRater
from gpupool.scheduling.scoring.ranking import NodeRanking, NodeRankings
from gpupool.scheduling.scoring.score_parts import ScoreParts
from gpupool.scheduling.scoring.topology import LinkedCardSets
from gpupool.scheduling.snapshot.cards import CardTable, HostColumns
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.columns import Ints
from gpupool.scheduling.snapshot.plan import PlacementScore
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.timeline.running_jobs_index import RunningJobsIndex
from gpupool.scheduling.workspace.class_columns import ClassColumns
from gpupool.scheduling.workspace.pool_identity import is_same_pool

#: Shapes whose fit counts are kept.
_REMEMBERED = 256


class StateMark(NamedTuple):
    """Where a trial began."""

    free: int
    heard: int


class _PolicyStep(NamedTuple):
    """A step reported to the policy, so that it can be undone."""

    shape: Shape
    node: int
    taken: bool


class SeatExtras(NamedTuple):
    """What goes with the seats of a claim: partition pieces, and its part of NUMA nodes."""

    places: tuple[PartitionSlot, ...] = ()
    numa: NumaDivision | None = None


NOTHING = SeatExtras()


class PlanningState:
    """Free capacity, each shape's ranking, and the policy at work; trials may be nested."""

    def __init__(
        self, snapshot: Snapshot, seed: int = 0, *, guard: bool = False, keeps_scores: bool = False
    ) -> None:
        """Start with the snapshot's pool.

        Args:
            snapshot: the pool.
            seed: for policies that choose at random.
            guard: an exception of the policy does not leave this object; a simpler policy goes on,
                and `fault` tells of it.
            keeps_scores: placements explain their scores; the plan is the same and takes longer.
        """
        self._seed = seed
        self._guard = guard
        self.keeps_scores = keeps_scores
        self.running_jobs = RunningJobsIndex()
        self._begin(snapshot)

    def follow(self, snapshot: Snapshot) -> PlanningState:
        """Take in the changes of a snapshot; another pool or policy starts anew.

        No trial may be open. Idempotent.
        """
        policy = (snapshot.policy, snapshot.expected)
        if policy != (self._policy, self._expected) or not is_same_pool(
            self.free.cards, snapshot.cards
        ):
            self._begin(snapshot)
            return self
        self.running_jobs.follow(snapshot.running)
        cards = snapshot.cards
        free = self.free
        free.cards = cards
        # One comparison of columns finds what changed, whatever changed it: placements of the last
        # plan as written, ends, another writer.
        rows = np.flatnonzero((free.milli != cards.free_milli) | (free.size != cards.free_bytes))
        free.set_cards(rows, cards.free_milli[rows], cards.free_bytes[rows])
        free.change_slots(_list_recuts(free, cards))
        free.set_owners(cards.owners)
        if cards.hosts is not None:
            cpu = cards.hosts.free_cpu_milli
            memory = cards.hosts.free_memory_bytes
            nodes = np.flatnonzero((free.cpu_milli != cpu) | (free.host_bytes != memory))
            free.set_hosts(nodes, cpu[nodes], memory[nodes])
            self._follow_numa(cards.hosts)
        return self

    def _follow_numa(self, hosts: HostColumns) -> None:
        numa = self.free.numa
        now = hosts.numa
        if now is not None:
            cpu = now.free_cpu_milli - numa.cpu_milli
            size = now.free_memory_bytes - numa.host_bytes
            at = np.flatnonzero((cpu != 0) | (size != 0))
            self.free.add_numa(NumaDivision(at, cpu[at], size[at]))

    def restart(self, snapshot: Snapshot) -> None:
        """Reset what the policy remembers of earlier plans. Idempotent."""
        self.rater.begin_plan(snapshot.generation)
        self.cuts.begin_plan(snapshot.generation)

    # --- what is remembered -----------------------------------------------------------------

    def get_ranking(self, shape: Shape) -> NodeRanking:
        """Return the shape's ranking with an up-to-date fit."""
        return self._rankings.get_ranking(shape)

    def count_fits(self, shape: Shape) -> Ints:
        """Return per node how many claims of the shape fit now."""
        fit = self.get_ranking(shape).fit
        found = self._copies.pop(shape, None)
        # The ranking drops a fit that was not used for long, and makes a new one.
        if found is None or found[0] is not fit:
            found = fit, FitCounts(fit, self.free)
        self._copies[shape] = found
        if len(self._copies) > _REMEMBERED:
            self._copies.popitem(last=False)
        return found[1].count_by_node()

    def order_cards(self, ranking: NodeRanking, node: int) -> Ints:
        """Return the rows of the node's cards, best first.

        Where links decide, exactly as many as the claim takes.
        """
        linked = self.linked.choose_cards(ranking.fit, node)
        return (
            numa_affinity.order_by_numa_affinity(self.free, ranking.fit, ranking.order_cards(node))
            if linked is None
            else linked
        )

    def explain_score(self, ranking: NodeRanking, node: int, rows: Ints) -> PlacementScore | None:
        """Explain the score of these cards before they are taken; None where scores are not kept."""
        return None if self._parts is None else self._parts.compute_score(ranking, node, rows)

    @property
    def fault(self) -> PolicyFault | None:
        """What a guarded policy raised since it was started; None while it works."""
        for one in (self.rater, self.cuts):
            if isinstance(one, GuardedRater) and one.fault is not None:
                return one.fault
        return None

    # --- trials -----------------------------------------------------------------------------

    @property
    def policy_steps(self) -> int:
        """Number of steps reported to the policy; a mark made now carries the same number."""
        return len(self._policy_steps)

    def mark(self) -> StateMark:
        """Return where a trial begins."""
        return StateMark(self.free.begin_trial(), len(self._policy_steps))

    def rollback(self, mark: StateMark) -> None:
        """Undo every change since the mark, also those reported to the policy."""
        self.free.rollback_trial(mark.free)
        # After the columns: the policy reads free capacity when it is told of a step. Last step
        # first, as learnt sums must return bit for bit.
        for shape, node, taken in reversed(self._policy_steps[mark.heard :]):
            (self.rater.on_release if taken else self.rater.on_take)(shape, node)
        del self._policy_steps[mark.heard :]

    def keep(self, mark: StateMark) -> None:
        """End the trial and keep its changes; an outer trial can still undo them."""
        self.free.commit_trial(mark.free)

    def take_seats(self, fit: ClaimFit, node: int, rows: Ints) -> SeatExtras:
        """Take the claim's seats on these cards."""
        shape = fit.shape
        places = self.cuts.choose_slots(shape.profile, rows) if shape.profile is not None else ()
        took = SeatExtras(places, self.divide_over_numa(shape, node, rows))
        self.free.take_seats(
            node,
            rows,
            shape.held_milli,
            fit.need[rows],
            shape.cpu_milli,
            shape.host_bytes,
            *took,
            owner=shape.owner,
        )
        self.rater.on_take(shape, node)
        self._policy_steps.append(_PolicyStep(shape, node, taken=True))
        return took

    def take_equal_seats(self, fit: ClaimFit, node: int, rows: Ints, claims: int) -> None:
        """Take the seats of so many more equal claims; none of partitions or NUMA nodes."""
        shape = fit.shape
        sizes = fit.need[rows] * claims
        cpu = shape.cpu_milli * claims
        host = shape.host_bytes * claims
        self.free.take_seats(
            node, rows, shape.held_milli * claims, sizes, cpu, host, owner=shape.owner
        )
        # One step each: a policy counts claims, and a rollback must undo as many.
        for _ in range(claims):
            self.rater.on_take(shape, node)
        self._policy_steps += [_PolicyStep(shape, node, taken=True)] * claims

    def divide_over_numa(self, shape: Shape, node: int, rows: Ints) -> NumaDivision | None:
        """Divide the claim's processors and main memory over the NUMA nodes of these cards."""
        return self.free.numa.divide_amounts(node, rows, shape.cpu_milli, shape.host_bytes)

    def release_job(self, running: RunningJob) -> None:
        """Release the job's seats, as if it had ended."""
        node = running.find_node(self.free.cards.node)
        if node is None:
            return
        rows = np.array(running.rows, dtype=np.int64)
        shape = running.shape
        sizes = np.array(running.sizes, dtype=np.int64)
        # All seats of a job are equal: a claim names one amount for all of its cards.
        milli = running.milli[0] if running.milli else 0
        held = self.free.numa.read_parts(node, running.numa)
        self.free.release_seats(
            node, rows, milli, sizes, shape.cpu_milli, shape.host_bytes, running.slots, held
        )
        self.rater.on_release(shape, node)
        self._policy_steps.append(_PolicyStep(shape, node, taken=False))

    def hold_seats(
        self, shape: Shape, node: int, rows: Ints, sizes: Ints, took: SeatExtras = NOTHING
    ) -> None:
        """Hide these seats from other claims; a card still in use then has less than nothing free."""
        self.free.take_seats(
            node,
            rows,
            shape.held_milli,
            sizes,
            shape.cpu_milli,
            shape.host_bytes,
            *took,
            owner=shape.owner,
        )

    def unhold_seats(
        self, shape: Shape, node: int, rows: Ints, sizes: Ints, took: SeatExtras = NOTHING
    ) -> None:
        """Show the seats again; the exact opposite of `hold_seats`."""
        self.free.release_seats(
            node, rows, shape.held_milli, sizes, shape.cpu_milli, shape.host_bytes, *took
        )

    # --- beginnings -------------------------------------------------------------------------

    def _begin(self, snapshot: Snapshot) -> None:
        self._policy = snapshot.policy
        self._expected = snapshot.expected
        self.free = FreeCapacity(snapshot.cards)
        self.size = measure_pool(snapshot.cards)
        self._begin_policy(snapshot)
        self._parts = (
            ScoreParts(self.free, snapshot.expected.without_partitions, self.rater)
            if self.keeps_scores
            else None
        )
        self.linked = LinkedCardSets(self.free)
        self._rankings = NodeRankings(self.free, self.rater, cuts=self.cuts)
        self._copies: OrderedDict[Shape, tuple[ClaimFit, FitCounts]] = OrderedDict()
        self._policy_steps: list[_PolicyStep] = []
        self.running_jobs.begin(snapshot.cards)
        self.running_jobs.follow(snapshot.running)
        self.sleeping_classes = ClassColumns(self.free, self.running_jobs)

    def _begin_policy(self, snapshot: Snapshot) -> None:
        policy = snapshot.policy
        expected = snapshot.expected
        self.rater: NodeRater
        self.cuts: PartitionRater | GuardedPartitionRater
        if self._guard:
            self.rater = start_guarded(policy, self.free, expected.without_partitions, self._seed)
            self.cuts = GuardedPartitionRater(self.free, expected)
        else:
            self.rater = registry.find_policy(policy).start_rater(
                self.free, expected.without_partitions, self._seed
            )
            self.cuts = PartitionRater(self.free, expected)


def _list_recuts(free: FreeCapacity, cards: CardTable) -> list[SlotChange]:
    """Changes from the pieces that are noted to those that are taken now."""
    removed = list[SlotChange]()
    added = list[SlotChange]()
    for row, cut in cards.layouts.items():
        known = free.layouts[row].slots
        if known != cut.slots:
            removed += [(row, piece, False) for piece in known]
            added += [(row, piece, True) for piece in cut.slots]
    # All removals first: a new piece may lie where an old one was.
    return removed + added
