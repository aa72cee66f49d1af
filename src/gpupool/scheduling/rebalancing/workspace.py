"""The working copy of a plan of moves: jobs leave cards and are placed elsewhere by the usual
filter.

It knows which jobs may move, what moving them loses, and what is held for others: what a
reservation holds counts as in use, except for jobs that name it. It does not know which nodes are
worth emptying.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpupool.base.units import NANOS_PER_SECOND, WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering import numa_affinity
from gpupool.scheduling.filtering.feasibility import FITS, ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.columns import Bools, Ints
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.timeline.unreserved_capacity import UnreservedCapacity


@dataclass(frozen=True)
class Move:
    """A job leaves its cards for others, of the same node or of another one."""

    job: str
    tenant: str
    from_node: str
    from_rows: tuple[int, ...]
    node: str
    #: Rows of its new cards in the snapshot, one per seat; `from_rows` are those that it leaves.
    rows: tuple[int, ...]
    #: Work since it began or last saved its state, which it must do again.
    lost_seconds: int
    #: The same times the compute that it holds, in cards.
    lost_gpu_seconds: int


@dataclass(frozen=True)
class NodeClearing:
    """What must leave a node so that one more block of whole cards is free on it."""

    node: int
    cards: tuple[int, ...]
    #: Places in `Snapshot.running`.
    jobs: tuple[int, ...]
    lost_seconds: int
    lost_gpu_seconds: int
    moved_milli: int

    @property
    def rank(self) -> tuple[int, int, int, int]:
        """Cheapest first: lost work, then the number of jobs, then what is moved."""
        return self.lost_seconds, len(self.jobs), self.moved_milli, self.node


def is_movable(job: RunningJob) -> bool:
    """Whether the job may be moved.

    It must be preemptible. A gang would have to stop as a whole. A partition frees no card that is
    wanted whole: a card in partition mode stays cut.
    """
    return job.preemptible and bool(job.rows) and not job.gang and job.shape.profile is None


def compute_lost_seconds(job: RunningJob, now_ns: int) -> int:
    """Compute the work in seconds that a move throws away."""
    return max(0, now_ns - max(job.started_ns, job.saved_ns or 0)) // NANOS_PER_SECOND


def compute_lost_gpu_seconds(job: RunningJob, now_ns: int) -> int:
    """Compute the work in seconds that a move throws away, times the cards that it held."""
    return compute_lost_seconds(job, now_ns) * sum(job.milli) // WHOLE


def measure_unheld_capacity(snapshot: Snapshot) -> FreeCapacity:
    """Measure what is free now and kept for no job."""
    free = FreeCapacity(snapshot.cards)
    for kept in snapshot.migration_holds:
        rows = np.array(kept.rows, dtype=np.int64)
        take_seats(free, kept.shape, int(snapshot.cards.node[rows[0]]), rows, np.array(kept.sizes))
    return free


def take_seats(free: FreeCapacity, shape: Shape, node: int, rows: Ints, sizes: Ints) -> None:
    """Take seats with their processors and main memory, from the NUMA nodes near the cards."""
    numa = free.numa.divide_amounts(node, rows, shape.cpu_milli, shape.host_bytes)
    free.take_seats(
        node,
        rows,
        shape.held_milli,
        sizes,
        shape.cpu_milli,
        shape.host_bytes,
        numa=numa,
        owner=shape.owner,
    )


class MoveWorkspace:
    """Jobs on their cards, and what is free beside them; `block` whole cards of one node are
    wanted.
    """

    def __init__(self, snapshot: Snapshot, now_ns: int, block: int | None) -> None:
        self.snapshot = snapshot
        self.now_ns = now_ns
        self.free = measure_unheld_capacity(snapshot)
        self.unreserved = UnreservedCapacity(snapshot, self.free, now_ns)
        self.reserved = self.unreserved.measure_reserved()
        self.jobs = snapshot.running
        self.rows = [np.array(job.rows, dtype=np.int64) for job in self.jobs]
        #: Nodes that gave a block: nothing is placed on them.
        self.cleared = np.zeros(len(snapshot.cards.nodes), dtype=np.bool_)
        self._received: set[str] = set()
        self._block = block
        self._fits: dict[Shape, ClaimFit] = {}
        self._on: dict[int, set[int]] = defaultdict(set)
        for place, rows in enumerate(self.rows):
            for row in rows:
                self._on[int(row)].add(place)

    def get_block_size(self, node: int) -> int:
        """Return the whole cards wanted together on that node: as asked, or all that it has."""
        return self._block or len(self.free.get_node_rows(node))

    def list_jobs_on(self, row: int) -> list[int]:
        """Return the jobs on that card, or to be placed on it, as places in `Snapshot.running`."""
        return sorted(self._on[row])

    def count_blocks(self) -> int:
        """Count the blocks of whole cards that are free now, over all nodes."""
        nodes = range(len(self.snapshot.cards.nodes))
        sizes = np.fromiter(map(self.get_block_size, nodes), dtype=np.int64)
        return int((self.count_whole_cards() // np.maximum(sizes, 1)).sum())

    def count_whole_cards(self) -> Ints:
        """Count per node the cards that hold nothing and are held for no claim."""
        return self.free.count_cards_by_node(self._find_whole_cards())

    def _find_whole_cards(self, rows: Ints | slice = slice(None)) -> Bools:
        whole: Bools = self.free.is_untouched(rows) & ~self.unreserved.reserved[rows]
        return whole

    def find_clearing(self, node: int) -> NodeClearing | None:
        """Return the cheapest way to one more block on the node; None where jobs that may not move
        block it.
        """
        rows = self.free.get_node_rows(node)
        block = self.get_block_size(node)
        # A node that received a job is not cleared: the job would be moved twice, and lose its work
        # twice.
        if block > len(rows) or self.snapshot.cards.nodes[node] in self._received:
            return None
        whole = self._find_whole_cards(rows)
        missing = block - int(whole.sum()) % block
        prices = list[tuple[int, int, int]]()
        for row in rows[~whole].tolist():
            price = self._price_card(row)
            if price is not None:
                prices.append(price)
        if len(prices) < missing:
            return None
        cheapest = sorted(prices)[:missing]
        return self._make_clearing(node, tuple(price[-1] for price in cheapest))

    def _price_card(self, row: int) -> tuple[int, int, int] | None:
        """Lost seconds and jobs of clearing a card; None where that frees no card, or a job may not
        move.
        """
        on = [self.jobs[place] for place in self._on[row]]
        if (
            not on
            or not self.free.open[row]
            or self.unreserved.reserved[row]
            or not all(is_movable(job) for job in on)
        ):
            return None
        return sum(compute_lost_seconds(job, self.now_ns) for job in on), len(on), row

    def _make_clearing(self, node: int, cards: tuple[int, ...]) -> NodeClearing:
        on_cards = set[int]().union(*map(self._on.__getitem__, cards))
        lost = 0
        lost_gpu = 0
        moved_milli = 0
        jobs = tuple(sorted(on_cards))
        for place in jobs:
            lost += compute_lost_seconds(self.jobs[place], self.now_ns)
            lost_gpu += compute_lost_gpu_seconds(self.jobs[place], self.now_ns)
            moved_milli += sum(self.jobs[place].milli)
        return NodeClearing(node, cards, jobs, lost, lost_gpu, moved_milli)

    def clear_node(self, clearing: NodeClearing) -> list[Move] | None:
        """Move all jobs of the clearing off; None, and nothing changed, where one finds no other
        place.
        """
        mark = self.free.begin_trial()
        before = [self.rows[place] for place in clearing.jobs]
        was, self.cleared[clearing.node] = bool(self.cleared[clearing.node]), True
        for place in clearing.jobs:
            self._release_seats(place)
        moves = []
        # The largest first, as they find the fewest places; then in the order of the snapshot.
        for place in sorted(clearing.jobs, key=lambda place: (-sum(self.jobs[place].milli), place)):
            move = self._place_job(place)
            if move is None:
                self.free.rollback_trial(mark)
                self.cleared[clearing.node] = was
                self._restore_seats(clearing.jobs, before)
                return None
            moves.append(move)
        self.free.commit_trial(mark)
        self._received |= {move.node for move in moves}
        return moves

    def _restore_seats(self, places: Sequence[int], rows: Sequence[Ints]) -> None:
        for place, old in zip(places, rows, strict=True):
            self._record_seats(place, old)

    def _record_seats(self, place: int, rows: Ints) -> None:
        for row in self.rows[place]:
            self._on[int(row)].discard(place)
        self.rows[place] = rows
        for row in rows:
            self._on[int(row)].add(place)

    def _find_node(self, place: int) -> int:
        return int(self.snapshot.cards.node[self.rows[place][0]])

    def _release_seats(self, place: int) -> None:
        job = self.jobs[place]
        rows = self.rows[place]
        sizes = np.array(job.sizes, dtype=np.int64)
        shape = job.shape
        node = self._find_node(place)
        numa = self.free.numa.read_parts(node, job.numa)
        self.free.release_seats(
            node, rows, job.milli[0], sizes, shape.cpu_milli, shape.host_bytes, numa=numa
        )

    def _place_job(self, place: int) -> Move | None:
        fit = self.get_fit(self.jobs[place].shape)
        takes = self.find_open_cards(place)
        enough = self.free.count_cards_by_node(takes) >= fit.shape.count
        found = self._find_best_cards(fit, takes, np.flatnonzero(enough & ~self.cleared))
        return None if found is None else self.seat_job(place, *found)

    def find_open_cards(self, place: int) -> Bools:
        """Return the cards that take a seat of the job now, beside all that is held for others."""
        fit = self.get_fit(self.jobs[place].shape)
        takes: Bools = (fit.why == FITS) & self.unreserved.find_unheld_cards(self.jobs[place], fit)
        return takes

    def seat_job(self, place: int, node: int, rows: Ints) -> Move:
        """Take these cards, which were found to fit, for the job; its old cards are not released."""
        job = self.jobs[place]
        came_from = self._find_node(place)
        left = self.rows[place]
        take_seats(self.free, job.shape, node, rows, self.get_fit(job.shape).need[rows])
        self._record_seats(place, rows)
        return Move(
            job.job,
            job.tenant,
            from_node=self.snapshot.cards.nodes[came_from],
            from_rows=tuple(map(int, left)),
            node=self.snapshot.cards.nodes[node],
            rows=tuple(map(int, rows)),
            lost_seconds=compute_lost_seconds(job, self.now_ns),
            lost_gpu_seconds=compute_lost_gpu_seconds(job, self.now_ns),
        )

    def get_fit(self, shape: Shape) -> ClaimFit:
        """Return the shape judged against every card as things are now."""
        known = self._fits.get(shape)
        if known is None:
            self._fits[shape] = known = ClaimFit(shape, self.free)
        return known.refresh(self.free)

    def _find_best_cards(self, fit: ClaimFit, takes: Bools, nodes: Ints) -> tuple[int, Ints] | None:
        """Cards where the job breaks no block, on the fullest node; None where every place would
        break one.
        """
        room = np.where(
            self.free.get_compute_grid(nodes) > 0, self.free.get_compute_grid(nodes), 0
        ).sum(axis=1)
        for node in nodes[np.argsort(room, kind="stable")]:
            rows = self._order_tightest(fit, takes, int(node))
            if len(rows) == fit.shape.count and not self._is_breaking_block(int(node), rows):
                return int(node), rows
        return None

    def _order_tightest(self, fit: ClaimFit, takes: Bools, node: int) -> Ints:
        rows = self.free.get_node_rows(node)
        rows = rows[takes[rows]]
        order = np.lexsort(
            (self.free.size[rows], self.free.is_untouched(rows), self.free.milli[rows])
        )
        return numa_affinity.order_by_numa_affinity(self.free, fit, rows[order])[: fit.shape.count]

    def _is_breaking_block(self, node: int, rows: Ints) -> bool:
        whole = int(self._find_whole_cards(self.free.get_node_rows(node)).sum())
        block = self.get_block_size(node)
        broken = int(self._find_whole_cards(rows).sum())
        return (whole - broken) // block < whole // block
