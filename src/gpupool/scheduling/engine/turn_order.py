"""The order of turns in one cycle: what decides which class is next."""

from __future__ import annotations

from collections.abc import Iterable

from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.engine.class_queue import ClassQueue
from gpupool.scheduling.engine.promises import Promised
from gpupool.scheduling.preemption.beneficiaries import name_claim
from gpupool.scheduling.quota.guaranteed_claims import PriorityFloors
from gpupool.scheduling.quota.queue_order import NO_TURN, Standing
from gpupool.scheduling.snapshot.claims import ClassKey, WaitingClass
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.pending_members import (
    PendingGangs,
    PendingMembers,
    find_next_member_amount,
    sum_least_amount,
)
from gpupool.scheduling.workspace.sleeping_classes import SleepingClasses
from gpupool.scheduling.workspace.transaction import PlanningTransaction


class TurnOrder:
    """Where each class stands in the queue of one cycle, as placing others changes it."""

    def __init__(
        self,
        snapshot: Snapshot,
        transaction: PlanningTransaction,
        owed: Iterable[str],
        promised: Promised,
    ) -> None:
        """Take the queue.

        Args:
            snapshot: the pool and its queue.
            transaction: the changes of the cycle; standings and guarantees are read from its quotas.
            owed: beneficiaries of evictions, in the order of their turns.
            promised: claims with a promised start, the earliest first.
        """
        self.snapshot = snapshot
        self.transaction = transaction
        self.gangs: PendingGangs
        self.sleeping_classes: SleepingClasses | None = None
        self.floors = PriorityFloors()
        self._reclaims = False
        #: By gang what it takes at least, and for which pending members that was computed.
        self._least_by_gang: dict[str, tuple[PendingMembers, ResourceAmount]] = {}
        #: Classes that had the turn of a claim inside its guarantee and cannot be promised a start
        #: inside it.
        self._late_classes: set[ClassKey] = set()
        #: Beneficiaries of evictions that had no first turn yet, or are placed after it.
        names = tuple(owed)
        self._beneficiary_places = dict(zip(names, range(len(names)), strict=True))
        # Below 0, and so before every beneficiary: the cards of a promise are held anyway.
        self._promise_places = dict(zip(promised, range(-len(promised), 0), strict=True))

    def make_queue(self) -> ClassQueue:
        """Queue all classes in the order of their turns now."""
        waiting = self.snapshot.waiting
        return ClassQueue(
            waiting,
            lambda i: self.is_outranked(waiting[i]),
            lambda i: self.get_standing(waiting[i]),
            lambda i, head: self.get_turn_place(waiting[i], head),
            lambda i, head: self.find_floor(waiting[i], head),
            None if self.sleeping_classes is None else self.sleeping_classes.iterate_queue(),
        )

    def get_beneficiary_place(self, waiting: WaitingClass, head: int = 0) -> int:
        """Return the place of that head, or of the gang, among beneficiaries of evictions."""
        return (
            self._beneficiary_places.get(name_claim(waiting, head), NO_TURN)
            if self._beneficiary_places and waiting.job_ids
            else NO_TURN
        )

    def _is_borrowing_beneficiary(self, waiting: WaitingClass, head: int) -> bool:
        return self.get_beneficiary_place(waiting, head) != NO_TURN and self.is_borrowing(waiting)

    def get_turn_place(self, waiting: WaitingClass, head: int = 0) -> int:
        """Return the place before all others (below 0) for a promised start, else as a beneficiary."""
        promised = (
            self._promise_places.get(name_claim(waiting, head))
            if self._promise_places and waiting.job_ids
            else None
        )
        return self.get_beneficiary_place(waiting, head) if promised is None else promised

    def find_floor(self, waiting: WaitingClass, head: int = 0) -> int | None:
        """Return the priority that a borrowing claim's turn may not pass; None for no floor."""
        if not self.floors or not self.is_borrowing(waiting):
            return None
        return self.floors.find_floor(
            waiting.tenant, owed=self.get_beneficiary_place(waiting, head) != NO_TURN
        )

    def make_floors(self) -> PriorityFloors:
        """Make the floors of every class that is inside its guarantee now."""
        # Without limits nobody borrows, and where nothing is taken back priority alone decides who
        # borrows.
        tree = self.transaction.quotas.tree
        if not self._reclaims or not tree.resources:
            return PriorityFloors()
        waiting = self.snapshot.waiting
        awake: Iterable[WaitingClass] = waiting
        # A class that sleeps stands behind those inside their guarantees, so it makes no floor.
        if self.sleeping_classes is not None:
            awake = [waiting[i] for i in self.sleeping_classes.list_awake()]
        inside = (one for one in awake if one.job_ids and not self.is_borrowing(one))
        return PriorityFloors(
            inside, lambda one: self.get_beneficiary_place(one) != NO_TURN, tree.list_guarantors
        )

    def compute_least(self, waiting: WaitingClass) -> ResourceAmount:
        """Compute the least that the class's next claim, or the gang, will hold.

        Of a gang that runs, its next member.
        """
        if waiting.gang is None:
            return self.transaction.compute_least(waiting.shape)
        gang = self.gangs[waiting.gang.id]
        known = self._least_by_gang.get(waiting.gang.id)
        # `gangs` puts a new object there when members were placed, so identity says whether it is
        # stale.
        if known is None or known[0] is not gang:
            known = (
                gang,
                sum_least_amount(self.transaction, gang)
                if gang.needed_count
                else find_next_member_amount(self.transaction, gang),
            )
            self._least_by_gang[waiting.gang.id] = known
        return known[1]

    def is_borrowing(self, waiting: WaitingClass) -> bool:
        """Whether the next claim would go over its tenant's guarantee."""
        if not self.transaction.quotas.has_limits:
            return False
        return self.transaction.quotas.is_borrowing(
            waiting.tenant, waiting.shape, self.compute_least(waiting)
        )

    def is_outranked(self, waiting: WaitingClass) -> bool:
        """Whether the next claim's turn comes after claims inside their guarantees."""
        if not self.transaction.quotas.has_limits:
            return False
        # The first test saves the hash of a class key in each rank of the plans that have none
        # late.
        late = bool(self._late_classes) and waiting.key in self._late_classes
        return late or self.transaction.quotas.is_outranked(
            waiting.tenant, waiting.shape, self.compute_least(waiting)
        )

    def get_standing(self, waiting: WaitingClass) -> Standing:
        """Return where the class's tenant stands in the fair share."""
        return self.transaction.quotas.get_standing(waiting.tenant)
