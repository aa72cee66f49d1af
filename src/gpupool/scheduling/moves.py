"""The working copy of a defragmentation: jobs are lifted off cards and set down elsewhere, each time by the filter that
places claims.

Knows which jobs may move, what moving them loses, and what is held for others (`spare`): what a reservation holds is as
good as in use, but for the jobs that name it. Does not know which nodes are worth emptying.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling import near
from gpupool.scheduling.feasible import FITS, Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.snapshot import Bools, Ints, Running, Snapshot
from gpupool.scheduling.spare import Spare


@dataclass(frozen=True)
class Move:
    """A job leaves its cards for others, of the same node or of another one."""

    job: str
    tenant: str
    from_node: str
    from_rows: tuple[int, ...]
    node: str
    rows: tuple[int, ...]
    """Of its new cards in the snapshot, one per seat; `from_rows` of those it leaves."""
    lost_seconds: int
    """Work since it began or last saved its state, which it has to do again."""
    lost_gpu_seconds: int
    """The same times the compute that it holds."""


@dataclass(frozen=True)
class Clearing:
    """What has to leave a node so that one more block of whole cards is free on it."""

    node: int
    cards: tuple[int, ...]
    jobs: tuple[int, ...]
    """Places in `Snapshot.running`."""
    lost_seconds: int
    lost_gpu_seconds: int
    moved_milli: int

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """Cheapest first: lost work, then the number of jobs, then what is moved."""
        return self.lost_seconds, len(self.jobs), self.moved_milli, self.node


def is_movable(job: Running) -> bool:
    """Jobs that may be preempted; a gang would have to stop as a whole, and a partition frees no card that is wanted
    whole: what is in partition mode stays cut.
    """
    return job.preemptible and not job.gang and job.shape.profile is None


def lost_seconds(job: Running, now_ns: int) -> int:
    return max(0, now_ns - max(job.started_ns, job.saved_ns or 0)) // 10**9


def lost_gpu_seconds(job: Running, now_ns: int) -> int:
    return lost_seconds(job, now_ns) * sum(job.milli) // WHOLE


def free_beside_kept(snapshot: Snapshot) -> Free:
    """What is free now and kept for nobody."""
    free = Free(snapshot.cards)
    for kept in snapshot.kept:
        rows = np.array(kept.rows, dtype=np.int64)
        take(free, kept.shape, int(snapshot.cards.node[rows[0]]), rows, np.array(kept.sizes))
    return free


def take(free: Free, shape: Shape, node: int, rows: Ints, sizes: Ints) -> None:
    """Seats with the processors and the main memory that go with them, from the NUMA nodes that are near."""
    numa = free.numa.divide(node, rows, shape.cpu_milli, shape.host_bytes)
    free.take(node, rows, shape.held_milli, sizes, shape.cpu_milli, shape.host_bytes, numa=numa)


class Mover:
    """Jobs on their cards, and what is free beside them. `block` whole cards of one node are what is wanted."""

    def __init__(self, snapshot: Snapshot, now_ns: int, block: int | None) -> None:
        self.snapshot, self.now_ns = snapshot, now_ns
        self.free = free_beside_kept(snapshot)
        self.spare = Spare(snapshot, self.free, now_ns)
        self.reserved = self.spare.kept_now()
        self.jobs = snapshot.running
        self.rows = [np.array(job.rows, dtype=np.int64) for job in self.jobs]
        self.cleared = np.zeros(len(snapshot.cards.nodes), dtype=np.bool_)
        """Nodes that gave a block: nothing is set down on them."""
        self._received: set[str] = set()
        self._block = block
        self._fits: dict[Shape, Fit] = {}
        self._on: dict[int, set[int]] = defaultdict(set)
        for place, rows in enumerate(self.rows):
            for row in rows:
                self._on[int(row)].add(place)

    def block(self, node: int) -> int:
        """Whole cards wanted together on that node: as asked, or all that it has."""
        return self._block or len(self.free.of_node(node))

    def on(self, row: int) -> list[int]:
        """Who sits on that card, or is to sit there: places in `Snapshot.running`."""
        return sorted(self._on[row])

    def blocks(self) -> int:
        """How many blocks of whole cards are free now, over all nodes."""
        sizes = np.array([self.block(node) for node in range(len(self.snapshot.cards.nodes))], dtype=np.int64)
        return int((self.whole() // np.maximum(sizes, 1)).sum())

    def whole(self) -> Ints:
        """Per node, how many of its cards hold nothing and are held for nobody."""
        return self.free.count_by_node(self._whole())

    def _whole(self, rows: Ints | slice = slice(None)) -> Bools:
        whole: Bools = self.free.untouched(rows) & ~self.spare.reserved[rows]
        return whole

    def clearing(self, node: int) -> Clearing | None:
        """The cheapest way to one more block on the node; None where jobs that may not move are in the way."""
        rows, block = self.free.of_node(node), self.block(node)
        if block > len(rows) or self.snapshot.cards.nodes[node] in self._received:
            return None  # nobody is moved twice
        whole = self._whole(rows)
        missing = block - int(whole.sum()) % block
        prices = sorted(price for row in rows[~whole] if (price := self._price(int(row))) is not None)
        if len(prices) < missing:
            return None
        return self._clearing(node, tuple(row for *_, row in prices[:missing]))

    def _price(self, row: int) -> tuple[int, int, int] | None:
        """Lost seconds and jobs that clearing a card takes; None where that brings no free card, or a job may not."""
        on = [self.jobs[place] for place in self._on[row]]
        if not on or not self.free.open[row] or self.spare.reserved[row] or not all(is_movable(job) for job in on):
            return None
        return sum(lost_seconds(job, self.now_ns) for job in on), len(on), row

    def _clearing(self, node: int, cards: tuple[int, ...]) -> Clearing:
        jobs = tuple(sorted({place for row in cards for place in self._on[row]}))
        lost = sum(lost_seconds(self.jobs[place], self.now_ns) for place in jobs)
        lost_gpu = sum(lost_gpu_seconds(self.jobs[place], self.now_ns) for place in jobs)
        return Clearing(node, cards, jobs, lost, lost_gpu, sum(sum(self.jobs[place].milli) for place in jobs))

    def clear(self, clearing: Clearing) -> list[Move] | None:
        """Move everything off; None, with nothing changed, where something finds no other place."""
        mark, before = self.free.mark(), [self.rows[place] for place in clearing.jobs]
        was, self.cleared[clearing.node] = bool(self.cleared[clearing.node]), True
        for place in clearing.jobs:
            self._lift(place)
        moves = []
        for place in sorted(clearing.jobs, key=lambda place: (-sum(self.jobs[place].milli), place)):
            move = self._set_down(place)
            if move is None:
                self.free.rollback(mark)
                self.cleared[clearing.node] = was
                self._restore(clearing.jobs, before)
                return None
            moves.append(move)
        self.free.keep(mark)
        self._received |= {move.node for move in moves}
        return moves

    def _restore(self, places: Sequence[int], rows: Sequence[Ints]) -> None:
        for place, old in zip(places, rows, strict=True):
            self._note(place, old)

    def _note(self, place: int, rows: Ints) -> None:
        for row in self.rows[place]:
            self._on[int(row)].discard(place)
        self.rows[place] = rows
        for row in rows:
            self._on[int(row)].add(place)

    def _node_of(self, place: int) -> int:
        return int(self.snapshot.cards.node[self.rows[place][0]])

    def _lift(self, place: int) -> None:
        job, rows = self.jobs[place], self.rows[place]
        sizes = np.array(job.sizes, dtype=np.int64)
        shape, node = job.shape, self._node_of(place)
        numa = self.free.numa.held(node, job.numa)
        self.free.give(node, rows, job.milli[0], sizes, shape.cpu_milli, shape.host_bytes, numa=numa)

    def _set_down(self, place: int) -> Move | None:
        fit, takes = self.fit(self.jobs[place].shape), self.takes(place)
        enough = self.free.count_by_node(takes) >= fit.shape.count
        found = self._best(fit, takes, np.flatnonzero(enough & ~self.cleared))
        return None if found is None else self.seat(place, *found)

    def takes(self, place: int) -> Bools:
        """Cards that take a seat of the job as things are now, beside all that is held for others."""
        fit = self.fit(self.jobs[place].shape)
        takes: Bools = (fit.why == FITS) & self.spare.leaves_held(self.jobs[place], fit)
        return takes

    def seat(self, place: int, node: int, rows: Ints) -> Move:
        """Take these cards, which were found to fit, for the job. Gives nothing back of where it was."""
        job, came_from, left = self.jobs[place], self._node_of(place), self.rows[place]
        take(self.free, job.shape, node, rows, self.fit(job.shape).need[rows])
        self._note(place, rows)
        return Move(
            job.job,
            job.tenant,
            from_node=self.snapshot.cards.nodes[came_from],
            from_rows=tuple(map(int, left)),
            node=self.snapshot.cards.nodes[node],
            rows=tuple(map(int, rows)),
            lost_seconds=lost_seconds(job, self.now_ns),
            lost_gpu_seconds=lost_gpu_seconds(job, self.now_ns),
        )

    def fit(self, shape: Shape) -> Fit:
        """The shape against every card as things are now."""
        known = self._fits.get(shape)
        if known is None:
            self._fits[shape] = known = Fit(shape, self.free)
        return known.refresh(self.free)

    def _best(self, fit: Fit, takes: Bools, nodes: Ints) -> tuple[int, Ints] | None:
        """Where the job breaks no block, on the fullest node; None where every place would break one."""
        room = np.where(self.free.grid(nodes) > 0, self.free.grid(nodes), 0).sum(axis=1)
        for node in nodes[np.argsort(room, kind="stable")]:
            rows = self._tightest(fit, takes, int(node))
            if len(rows) == fit.shape.count and not self._breaks_block(int(node), rows):
                return int(node), rows
        return None

    def _tightest(self, fit: Fit, takes: Bools, node: int) -> Ints:
        rows = self.free.of_node(node)
        rows = rows[takes[rows]]
        order = np.lexsort((self.free.size[rows], self.free.untouched(rows), self.free.milli[rows]))
        return near.order(self.free, fit, rows[order])[: fit.shape.count]

    def _breaks_block(self, node: int, rows: Ints) -> bool:
        whole, block = int(self._whole(self.free.of_node(node)).sum()), self.block(node)
        broken = int(self._whole(rows).sum())
        return (whole - broken) // block < whole // block
