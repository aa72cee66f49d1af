"""Trials of a start: what must start together, and whether it could be placed at an instant."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial

import numpy as np

from gpupool.model.claim import Shape
from gpupool.model.partition import PartitionSlot
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.filtering.capacity_columns import SeatAmounts
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.snapshot.claims import WaitingClass
from gpupool.scheduling.snapshot.columns import Bools, Ints
from gpupool.scheduling.timeline.earliest_start import (
    StartParts,
    StartTrial,
)
from gpupool.scheduling.timeline.quotas_over_time import QuotasOverTime
from gpupool.scheduling.timeline.timeline import Timeline
from gpupool.scheduling.workspace.gang_placement import (
    GangPlacement,
)
from gpupool.scheduling.workspace.pending_members import (
    PendingMembers,
    sum_least_amount,
)
from gpupool.scheduling.workspace.tentative_placement import (
    TentativePlacement,
)
from gpupool.scheduling.workspace.transaction import (
    PlanningTransaction,
)


class StartTrials:
    """Trials of one cycle: whether a class could start at an instant, and what it would take."""

    def __init__(self, work: PlanningTransaction, gangs: Mapping[str, PendingMembers]) -> None:
        self._work = work
        self._gangs = gangs
        self._timeline: Timeline | None = None
        self._quotas: QuotasOverTime

    def begin(self, timeline: Timeline, quotas: QuotasOverTime) -> None:
        """Set the time axis, once something is held or a start is searched."""
        self._timeline = timeline
        self._quotas = quotas

    def list_parts(self, waiting: WaitingClass) -> StartParts:
        """What must start together; nothing for a gang that runs and only wants more members."""
        if waiting.gang is None:
            return [(self._work.get_fit(waiting.shape), 1)]
        asked = self._gangs[waiting.gang.id]
        parts = list[tuple[ClaimFit, int]]()
        for path, count in asked.least.items():
            if count:
                parts.append((self._work.get_fit(asked.roles[path].shape), count))
        return parts

    def get_demand(self, waiting: WaitingClass) -> tuple[str, Shape, ResourceAmount]:
        return waiting.tenant, waiting.shape, self._compute_least(waiting)

    def _compute_least(self, waiting: WaitingClass) -> ResourceAmount:
        gang = self._gangs[waiting.gang.id] if waiting.gang else None
        return (
            self._work.compute_least(waiting.shape)
            if gang is None
            else sum_least_amount(self._work, gang)
        )

    def make_trial(self, waiting: WaitingClass, *, inside: bool = False) -> StartTrial:
        attempt = partial(self._try_at, waiting)
        may = partial(self._can_start_at, waiting, inside=inside)
        return StartTrial(attempt, may, self._get_equivalence(waiting))

    def _get_equivalence(self, waiting: WaitingClass) -> Hashable:
        """Equal for heads that differ only in their tenants' room for all they need; None: perhaps
        not.

        Where quotas limit only compute, a head that may start finds room in them for every seat.
        """
        quotas = self._work.quotas
        if not quotas.has_only_compute_limits or waiting.gang is None:
            return waiting.shape if quotas.has_only_compute_limits else None
        asked = self._gangs[waiting.gang.id]
        # A gang that would take more than it needs may find other seats with other quota left.
        return asked.equivalence_key if asked.all_counts == asked.least else None

    def _can_start_at(self, waiting: WaitingClass, instant_ns: int, *, inside: bool) -> bool:
        """Whether the quotas have room for it then, `inside` its tenant's guarantee."""
        quotas = self._work.quotas
        asked = self.get_demand(waiting)
        if not quotas.has_limits:
            return True
        with self._show_quotas_at(waiting, instant_ns):
            quotas.firm = not waiting.preemptible
            return quotas.admit_shape(*asked) is not None and not (
                inside and quotas.is_borrowing(*asked)
            )

    def _try_at(self, waiting: WaitingClass, instant_ns: int) -> SeatAmounts | None:
        with self._show_quotas_at(waiting, instant_ns):
            return self.try_place(waiting)

    def _show_quotas_at(
        self, waiting: WaitingClass, instant_ns: int
    ) -> AbstractContextManager[None]:
        """The quotas as of that instant, for a run from then on."""
        assert self._timeline is not None
        return self._quotas.at_instant(
            instant_ns, self._timeline.compute_end(waiting.seconds, instant_ns)
        )

    def try_place(self, waiting: WaitingClass) -> SeatAmounts | None:
        """Where the class would be placed on the working copy as it is; nothing is taken."""
        self._work.quotas.firm = not waiting.preemptible
        # Nothing stays taken: the trial answers for an instant, and other claims have their turns
        # now.
        mark = self._work.mark()
        try:
            if waiting.gang is not None:
                found = GangPlacement(
                    self._work, waiting.tenant, self._gangs[waiting.gang.id]
                ).try_place()
                return sum_seats([seated for _, seated in found]) if found else None
            seated = self._work.seat_claim(waiting.tenant, waiting.shape)
            return sum_seats([seated]) if seated else None
        finally:
            self._work.rollback(mark)

    def find_usable_cards(self, waiting: WaitingClass) -> Bools:
        could: Bools = np.logical_or.reduce([fit.possible for fit, _ in self.list_parts(waiting)])
        return could


def sum_seats(seated: Sequence[TentativePlacement]) -> SeatAmounts:
    """Add up all of these seats."""
    milli = list[Ints]()
    hosts = list[tuple[int, int, int]]()
    pieces = list[tuple[int, PartitionSlot]]()
    for one in seated:
        milli.append(np.full(len(one.rows), one.shape.held_milli, dtype=np.int64))
        hosts.append((one.node, one.shape.cpu_milli, one.shape.host_bytes))
        if one.places:
            pieces += zip(one.rows.tolist(), one.places, strict=True)
    nodes, cpu_milli, host_bytes = np.array(hosts, dtype=np.int64).T.copy()
    return SeatAmounts(
        np.concatenate([one.rows for one in seated]),
        np.concatenate(milli),
        np.concatenate([one.sizes for one in seated]),
        nodes,
        cpu_milli,
        host_bytes,
        pieces=tuple(pieces),
    )
