"""Rejections after a plan: why each class still waits, in the pool as the plan leaves it.

Finds out which kind of "not now" it is; `reasons` has the counts and the words. Equal shapes and
equal gangs are judged once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from gpupool.model.claim import Rejection, Shape
from gpupool.model.gang import GangGroup
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.filtering.fit_counts import compute_cheapest_bytes
from gpupool.scheduling.reasons import gang, locality, rejection
from gpupool.scheduling.snapshot.claims import ClassKey, WaitingClass
from gpupool.scheduling.workspace.pending_members import (
    Path,
    PendingMembers,
    count_room_by_role,
    sum_least_amount,
)
from gpupool.scheduling.workspace.transaction import PlanningTransaction

GangKey = tuple[GangGroup, tuple[tuple[Path, int], ...]]


class CycleRejections:
    """Rejections of one plan; `record_placed` notes what no longer waits."""

    def __init__(self, work: PlanningTransaction, gangs: Mapping[str, PendingMembers]) -> None:
        self._work = work
        self._gangs = gangs
        self._taken = [0] * len(work.snapshot.waiting)
        self._tried: set[ClassKey] = set()
        self._known: dict[Shape | GangKey, Rejection | None] = {}

    def record_placed(self, i: int, count: int) -> None:
        """Record that so many more jobs of the class number i have seats.

        For a gang, and for 0, there is no room for more.
        """
        waiting = self._work.snapshot.waiting[i]
        self._taken[i] += count
        if not count or waiting.gang is not None:
            self._tried.add(waiting.key)

    def list_unplaced(self, among: Iterable[int] | None = None) -> list[WaitingClass]:
        """Return the classes of which something still waits, among these numbers."""
        waiting = self._work.snapshot.waiting
        taken = self._taken
        each = range(len(waiting)) if among is None else among
        return [waiting[i] for i in each if waiting[i].count > taken[i]]

    def reject_classes(
        self, placed: int, classes: Iterable[WaitingClass]
    ) -> dict[ClassKey, Rejection]:
        """Return the rejection of each class."""
        return {one.key: self.find_rejection(one, placed) for one in classes}

    def find_rejection(self, waiting: WaitingClass, placed: int) -> Rejection:
        """Return why the class waits.

        Args:
            waiting: the class.
            placed: number of claims that the plan places, for a class that comes in the next cycle.
        """
        self._work.quotas.firm = not waiting.preemptible
        quotas = self._work.quotas
        asked = (waiting.tenant, waiting.shape, self._compute_least(waiting))
        said = quotas.find_rejection(*asked)
        if said is None or (said.fits_ever and not quotas.find_exhausted_node(*asked)):
            # Only the pool as a whole lacks quota, which means that it lacks cards: name the cards.
            said = self._reject_without_room(waiting) or said
        return said or self._reject_delayed(waiting, placed)

    def _compute_least(self, waiting: WaitingClass) -> ResourceAmount:
        if waiting.gang is None:
            return self._work.compute_least(waiting.shape)
        return sum_least_amount(self._work, self._gangs[waiting.gang.id])

    def _reject_without_room(self, waiting: WaitingClass) -> Rejection | None:
        if waiting.gang is None:
            return self._reject_claim(waiting.tenant, waiting.shape)
        asked = self._gangs[waiting.gang.id]
        if not asked.needed_count:
            return self._reject_rest(asked, tried=waiting.key in self._tried)
        if short := self._remember(
            (asked.gang.root, tuple(asked.least.items())), lambda: self._reject_gang(asked)
        ):
            return short
        return (
            gang.reject_apart(asked.gang, asked.needed_count)
            if waiting.key in self._tried
            else None
        )

    def _reject_claim(self, tenant: str, shape: Shape) -> Rejection | None:
        quotas = self._work.quotas
        kept = quotas.admit_shape(tenant, shape, self._work.compute_least(shape)) or shape
        said = self._remember(kept, lambda: self._reject_shape(kept))
        if said is None:
            closed = quotas.find_closed_cards(tenant)
            return (
                None
                if closed is None
                else rejection.explain_kept_whole(self._work.get_fit(kept), self._work.free, closed)
            )
        return (
            said
            if kept == shape
            else replace(
                said, sentence=f"{said.sentence}; {quotas.describe_exhausted_model(tenant, shape)}"
            )
        )

    def _remember(
        self, key: Shape | GangKey, judge: Callable[[], Rejection | None]
    ) -> Rejection | None:
        if key not in self._known:
            self._known[key] = judge()
        return self._known[key]

    def _reject_shape(self, shape: Shape) -> Rejection | None:
        fit = self._work.get_fit(shape)
        if fit.roomy.any():
            # Nodes have enough cards, so either these are too far apart or it is only not its turn
            # yet.
            together = self._work.select_near_nodes(fit, fit.roomy).any()
            return None if together else locality.explain_not_now(fit, self._work.free)
        return rejection.explain_never(fit, self._work.free) or rejection.explain_not_now(
            fit, self._work.free
        )

    def _reject_gang(self, asked: PendingMembers) -> Rejection | None:
        """The first role that finds too few seats."""
        room = count_room_by_role(self._work, asked)
        free = self._work.free
        for path, role in asked.roles.items():
            if (least := asked.least[path]) > room[path]:
                fit = self._work.get_fit(role.shape)
                within = asked.gang.root.within
                return rejection.explain_never(fit, free) or gang.reject_too_few(
                    within, role, room[path], least, fit, free
                )
        return None

    def _reject_rest(self, asked: PendingMembers, *, tried: bool) -> Rejection | None:
        """Of a gang that has all it needs, the first waiting member speaks for the others."""
        path = next(path for path, jobs in asked.waiting.items() if jobs)
        said = self._remember(
            asked.roles[path].shape, lambda: self._reject_shape(asked.roles[path].shape)
        )
        return said or (gang.reject_no_room_beside(asked.gang.root.within) if tried else None)

    def _reject_delayed(self, waiting: WaitingClass, placed: int) -> Rejection:
        # Room there is; then either only cards that are too large for the quota's rest, or it is
        # not its turn.
        if waiting.gang is not None:
            return rejection.explain_behind(placed)
        fit = self._work.get_fit(waiting.shape)
        cheapest = compute_cheapest_bytes(fit, self._work.free)[fit.roomy]
        amount = ResourceAmount(waiting.shape.held_milli * waiting.shape.count, int(cheapest.min()))
        return self._work.quotas.find_current_rejection(
            waiting.tenant, waiting.shape, amount
        ) or rejection.explain_behind(placed)
