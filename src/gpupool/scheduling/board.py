"""The pool as it is planned on: a working copy with everything that is remembered about it, living between cycles.

A cycle tries on it and rolls back; `follow` takes in what really happened since, by comparing columns. So a decision
costs what changed and not the size of the pool. It knows no queue and no tenants.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

import numpy as np

from gpupool.model.claim import Shape
from gpupool.model.partition import Placement as Place
from gpupool.scheduling import near, policies
from gpupool.scheduling.copies import Copies
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free, Recut
from gpupool.scheduling.guarded import Guarded, GuardedCuts, PolicyFault, guarded
from gpupool.scheduling.numa import Division
from gpupool.scheduling.policy import Rater
from gpupool.scheduling.pool_size import pool_size
from gpupool.scheduling.ranking import Ranking, Rankings
from gpupool.scheduling.roster import Roster
from gpupool.scheduling.score_partitions import Cuts
from gpupool.scheduling.score_parts import ScoreParts
from gpupool.scheduling.score_topology import LinkedSets
from gpupool.scheduling.sleepers import Sleepers
from gpupool.scheduling.snapshot import Cards, Hosts, Ints, Running, Scored, Snapshot

_REMEMBERED = 256
"""Shapes whose copies are kept."""


class Mark(NamedTuple):
    """Where a trial began."""

    free: int
    heard: int


class _Heard(NamedTuple):
    """What the rater was told, as it has to be taken back."""

    shape: Shape
    node: int
    taken: bool


class Took(NamedTuple):
    """What goes with the seats of a claim: of partitions its pieces, and the NUMA nodes that it has something of."""

    places: tuple[Place, ...] = ()
    numa: Division | None = None


NOTHING = Took()


class Board:
    """What is free, each shape's ranking, and the policy at work; trials lie inside each other."""

    def __init__(self, snapshot: Snapshot, seed: int = 0, *, guard: bool = False, keeps_scores: bool = False) -> None:
        """`guard`: an exception of the policy does not leave the board, a simpler one goes on (`fault` tells).

        `keeps_scores`: placements say what their score is made of; the plan is the same, and takes longer.
        """
        self._seed = seed
        self._guard = guard
        self.keeps_scores = keeps_scores
        self.roster = Roster()
        self._begin(snapshot)

    def follow(self, snapshot: Snapshot) -> Board:
        """Be as the snapshot is: changed cards are noted, another pool or policy is begun anew. No trial is under way.

        Idempotent.
        """
        if not self._same(snapshot):
            self._begin(snapshot)
            return self
        self.roster.follow(snapshot.running)
        cards, free = snapshot.cards, self.free
        free.cards = cards
        rows = np.flatnonzero((free.milli != cards.free_milli) | (free.size != cards.free_bytes))
        free.set(rows, cards.free_milli[rows], cards.free_bytes[rows])
        free.recut(_recut(free, cards))
        if cards.hosts is not None:
            cpu, memory = cards.hosts.free_cpu_milli, cards.hosts.free_memory_bytes
            nodes = np.flatnonzero((free.cpu_milli != cpu) | (free.host_bytes != memory))
            free.set_hosts(nodes, cpu[nodes], memory[nodes])
            self._follow_numa(cards.hosts)
        return self

    def _follow_numa(self, hosts: Hosts) -> None:
        numa, now = self.free.numa, hosts.numa
        if now is not None:
            cpu, size = now.free_cpu_milli - numa.cpu_milli, now.free_memory_bytes - numa.host_bytes
            at = np.flatnonzero((cpu != 0) | (size != 0))
            self.free.set_numa(Division(at, cpu[at], size[at]))

    def restart(self, snapshot: Snapshot) -> None:
        """A plan on that snapshot starts: nothing that was before changes an answer of the policy. Idempotent."""
        self.rater.restart(snapshot.generation)
        self.cuts.restart(snapshot.generation)

    # --- what is remembered -----------------------------------------------------------------

    def ranking(self, shape: Shape) -> Ranking:
        """The shape's ranking, its fit fresh."""
        return self._rankings.of(shape)

    def copies(self, shape: Shape) -> Ints:
        """Per node how many claims of the shape it could hold now."""
        fit = self.ranking(shape).fit
        found = self._copies.pop(shape, None)
        if found is None or found[0] is not fit:
            found = fit, Copies(fit, self.free)
        self._copies[shape] = found
        if len(self._copies) > _REMEMBERED:
            self._copies.popitem(last=False)
        return found[1].by_node()

    def choose(self, ranking: Ranking, node: int) -> Ints:
        """Rows of the node's cards, best first; where links have a say, exactly as many as the claim takes."""
        linked = self.linked.choose(ranking.fit, node)
        return near.order(self.free, ranking.fit, ranking.choose(node)) if linked is None else linked

    def scored(self, ranking: Ranking, node: int, rows: Ints) -> Scored | None:
        """What speaks for these cards, before they are taken; None where nobody records."""
        return None if self._parts is None else self._parts.of(ranking, node, rows)

    @property
    def fault(self) -> PolicyFault | None:
        """What a guarded policy raised since it was begun; None while it works."""
        raters = (self.rater, self.cuts)
        return next((one.fault for one in raters if isinstance(one, Guarded) and one.fault is not None), None)

    # --- trials -----------------------------------------------------------------------------

    @property
    def heard(self) -> int:
        """How many steps the policy was told of; a mark made now carries the same number."""
        return len(self._heard)

    def mark(self) -> Mark:
        return Mark(self.free.mark(), len(self._heard))

    def rollback(self, mark: Mark) -> None:
        """Undo everything since the mark, what the policy was told included."""
        self.free.rollback(mark.free)
        for shape, node, taken in reversed(self._heard[mark.heard :]):
            (self.rater.gave if taken else self.rater.took)(shape, node)
        del self._heard[mark.heard :]

    def keep(self, mark: Mark) -> None:
        """End that trial and leave what it did; the one around it can still undo it."""
        self.free.keep(mark.free)

    def take(self, fit: Fit, node: int, rows: Ints) -> Took:
        """The claim takes its seats on these cards."""
        shape = fit.shape
        places = self.cuts.places(shape.profile, rows) if shape.profile is not None else ()
        took = Took(places, self.divide(shape, node, rows))
        self.free.take(node, rows, shape.held_milli, fit.need[rows], shape.cpu_milli, shape.host_bytes, *took)
        self.rater.took(shape, node)
        self._heard.append(_Heard(shape, node, taken=True))
        return took

    def take_more(self, fit: Fit, node: int, rows: Ints, claims: int) -> None:
        """So many equal claims more take their seats on these cards; none of partitions, and nothing of NUMA nodes."""
        shape = fit.shape
        sizes, cpu, host = fit.need[rows] * claims, shape.cpu_milli * claims, shape.host_bytes * claims
        self.free.take(node, rows, shape.held_milli * claims, sizes, cpu, host)
        for _ in range(claims):
            self.rater.took(shape, node)
        self._heard += [_Heard(shape, node, taken=True)] * claims

    def divide(self, shape: Shape, node: int, rows: Ints) -> Division | None:
        """From which NUMA nodes a claim on these cards would have its processors and main memory now."""
        return self.free.numa.divide(node, rows, shape.cpu_milli, shape.host_bytes)

    def release(self, running: Running) -> None:
        """What it would be if this job had ended."""
        rows = np.array(running.rows, dtype=np.int64)
        if len(rows) == 0:
            return
        node = int(self.free.cards.node[rows[0]])
        shape, sizes = running.shape, np.array(running.sizes, dtype=np.int64)
        milli = running.milli[0]
        held = self.free.numa.held(node, running.numa)
        self.free.give(node, rows, milli, sizes, shape.cpu_milli, shape.host_bytes, running.places, held)
        self.rater.gave(shape, node)
        self._heard.append(_Heard(shape, node, taken=False))

    def hold(self, shape: Shape, node: int, rows: Ints, sizes: Ints, took: Took = NOTHING) -> None:
        """Out of reach for others; what is still in use on these cards is then less than nothing free."""
        self.free.take(node, rows, shape.held_milli, sizes, shape.cpu_milli, shape.host_bytes, *took)

    def lift(self, shape: Shape, node: int, rows: Ints, sizes: Ints, took: Took = NOTHING) -> None:
        """The exact opposite of `hold`."""
        self.free.give(node, rows, shape.held_milli, sizes, shape.cpu_milli, shape.host_bytes, *took)

    # --- beginnings -------------------------------------------------------------------------

    def _begin(self, snapshot: Snapshot) -> None:
        self._policy, self._expected = snapshot.policy, snapshot.expected
        self.free = Free(snapshot.cards)
        self.size = pool_size(snapshot.cards)
        self._begin_policy(snapshot)
        self._parts = ScoreParts(self.free, snapshot.expected.shares, self.rater) if self.keeps_scores else None
        self.linked = LinkedSets(self.free)
        self._rankings = Rankings(self.free, self.rater, cuts=self.cuts)
        self._copies: OrderedDict[Shape, tuple[Fit, Copies]] = OrderedDict()
        self._heard: list[_Heard] = []
        self.roster.begin(snapshot.cards)
        self.roster.follow(snapshot.running)
        self.sleepers = Sleepers(self.free, self.roster)

    def _begin_policy(self, snapshot: Snapshot) -> None:
        policy, expected = snapshot.policy, snapshot.expected
        self.rater: Rater
        self.cuts: Cuts | GuardedCuts
        if self._guard:
            self.rater = guarded(policy, self.free, expected.shares, self._seed)
            self.cuts = GuardedCuts(self.free, expected)
        else:
            self.rater = policies.named(policy).start(self.free, expected.shares, self._seed)
            self.cuts = Cuts(self.free, expected)

    def _same(self, snapshot: Snapshot) -> bool:
        old, new = self.free.cards, snapshot.cards
        if (snapshot.policy, snapshot.expected) != (self._policy, self._expected):
            return False
        # Hosts hand on what does not change as it is: tuples of a hundred thousand names are then not compared.
        lists = ((getattr(old, name), getattr(new, name)) for name in _LISTS)
        if not all(a is b or a == b for a, b in lists) or _modes(old) != _modes(new):
            return False
        columns = zip(_columns(old), _columns(new), strict=True)
        return all(a is b or np.array_equal(a, b) for a, b in columns)


_LISTS = ("uuids", "models", "nodes", "node_labels", "links", "vendors")


def _columns(cards: Cards) -> list[Ints]:
    """What does not change while a pool has the same cards, open or closed as they are."""
    hosts = [] if cards.hosts is None else _of_hosts(cards.hosts)
    levels = [level.of_node for level in cards.levels]
    return [np.array([len(hosts), len(levels)]), cards.model, cards.node, cards.status, cards.memory_bytes] + (
        hosts + levels
    )


def _modes(cards: Cards) -> dict[int, object]:
    """What each card in partition mode can be cut into."""
    return {row: cut.profiles for row, cut in cards.cuts.items()}


def _recut(free: Free, cards: Cards) -> list[Recut]:
    """From the pieces that are noted to those that are taken now."""
    changed = [(row, cut.taken) for row, cut in cards.cuts.items() if free.cuts[row].taken != cut.taken]
    gone = [(row, piece, False) for row, _ in changed for piece in free.cuts[row].taken]
    return gone + [(row, piece, True) for row, taken in changed for piece in taken]


def _of_hosts(hosts: Hosts) -> list[Ints]:
    numa, whole = hosts.numa, [hosts.cpu_milli, hosts.memory_bytes]
    if numa is None:
        return whole
    return [*whole, numa.node, numa.number, numa.cpu_milli, numa.memory_bytes, numa.of_card]
