"""Rejections that are computed on first use, for classes that slept during the plan.

Finding a sentence for each of ten thousand classes takes a second, and one event changes most of
them, because they name what is free. So the plan keeps what is needed to find them: the pool as the
plan leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from gpupool.model.claim import Rejection
from gpupool.scheduling.engine.cycle_rejections import CycleRejections
from gpupool.scheduling.scoring.binpack import NAME as BINPACK
from gpupool.scheduling.snapshot.claims import ClassKey, ExpectedDemand, WaitingClass
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.pending_members import (
    PendingGangs,
)
from gpupool.scheduling.workspace.planning_state import PlanningState
from gpupool.scheduling.workspace.transaction import PlanningTransaction


class LazyRejections(Mapping[ClassKey, Rejection]):
    """Rejections by class, in the order of the snapshot; equal to a dictionary of the same."""

    def __init__(
        self,
        left: Callable[[], Sequence[WaitingClass]],
        told: Mapping[ClassKey, Rejection],
        after: PoolAfterPlan,
    ) -> None:
        """Take what is known.

        Args:
            left: the classes of which something still waits.
            told: rejections that the plan found itself.
            after: finds all others.
        """
        self._list_unplaced = left
        self._known = dict(told)
        self._after = after
        #: Rejections that the plan itself found.
        self.judged: Mapping[ClassKey, Rejection] = dict(told)

    def __getitem__(self, key: ClassKey) -> Rejection:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._after.find_rejection(self._classes[key])
        return found

    def __iter__(self) -> Iterator[ClassKey]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def __contains__(self, key: object) -> bool:
        return key in self._classes

    @cached_property
    def _classes(self) -> Mapping[ClassKey, WaitingClass]:
        return {one.key: one for one in self._list_unplaced()}


def select_judged(rejections: Mapping[ClassKey, Rejection]) -> Mapping[ClassKey, Rejection]:
    """Return the rejections that the plan itself found; any other would have to be computed now."""
    return rejections.judged if isinstance(rejections, LazyRejections) else rejections


class PoolAfterPlan:
    """The pool as a plan leaves it; the plan's transaction must be finished."""

    def __init__(self, work: PlanningTransaction, placed: int) -> None:
        self._snapshot = _make_snapshot(work)
        self._quotas = work.quotas
        self._placed = placed

    def find_rejection(self, waiting: WaitingClass) -> Rejection:
        """Return why the class waits; no member of a gang may run."""
        return self._cycle_rejections.find_rejection(waiting, self._placed)

    @cached_property
    def _cycle_rejections(self) -> CycleRejections:
        gangs = PendingGangs(self._snapshot.waiting, self._snapshot.cards.node)
        work = PlanningTransaction(self._snapshot, PlanningState(self._snapshot))
        # The quotas of the plan and not of its snapshot: they count what the plan has placed.
        work.quotas = self._quotas
        return CycleRejections(work, gangs)


def _make_snapshot(work: PlanningTransaction) -> Snapshot:
    """The snapshot with what is free now, and the simplest policy: nothing is placed on it."""
    snapshot = work.snapshot
    free = work.free
    hosts = snapshot.cards.hosts and replace(
        snapshot.cards.hosts,
        free_cpu_milli=free.cpu_milli.copy(),
        free_memory_bytes=free.host_bytes.copy(),
    )
    cards = replace(
        snapshot.cards,
        free_milli=free.milli.copy(),
        free_bytes=free.size.copy(),
        layouts=dict(free.layouts),
        hosts=hosts,
    )
    # Copies, because the planning state rolls its columns back when the plan ends.
    return replace(snapshot, cards=cards, policy=BINPACK, expected=ExpectedDemand(), running=())
