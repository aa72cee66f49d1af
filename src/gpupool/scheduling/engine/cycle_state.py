"""The state of one cycle: whose turn it is, and what comes of each turn."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from types import MappingProxyType

from gpupool.model.claim import Rejection
from gpupool.scheduling.engine.class_queue import ClassQueue
from gpupool.scheduling.engine.cycle_rejections import CycleRejections
from gpupool.scheduling.engine.lazy_rejections import LazyRejections, PoolAfterPlan
from gpupool.scheduling.engine.promises import Promised
from gpupool.scheduling.engine.start_promises import StartPromises
from gpupool.scheduling.engine.turn_order import TurnOrder
from gpupool.scheduling.preemption.beneficiaries import name_claim
from gpupool.scheduling.preemption.evictions import EvictionPlanner
from gpupool.scheduling.preemption.futile_evictions import PendingDemand
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.quota.queue_order import NO_TURN
from gpupool.scheduling.snapshot.claims import ClassKey, WaitingClass
from gpupool.scheduling.snapshot.plan import JobPlacement
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.class_columns import (
    FEWEST,
    ClassColumns,
    QuotaLimits,
)
from gpupool.scheduling.workspace.gang_placement import (
    GangPlacement,
)
from gpupool.scheduling.workspace.pending_members import (
    PendingGangs,
    PendingMembers,
)
from gpupool.scheduling.workspace.planning_state import PlanningState
from gpupool.scheduling.workspace.sleeping_classes import (
    SleepingClasses,
)
from gpupool.scheduling.workspace.tentative_placement import (
    TentativePlacement,
    make_placement,
)
from gpupool.scheduling.workspace.transaction import (
    PlanningTransaction,
)


class CycleState(TurnOrder):
    """One plan in the making: whose turn it is, and the result of each turn."""

    def __init__(
        self,
        snapshot: Snapshot,
        now_ns: int,
        board: PlanningState,
        rules: PreemptionRules,
        owed: Iterable[str] = (),
        promised: Promised = MappingProxyType({}),
        *,
        sleeps: bool = False,
    ) -> None:
        super().__init__(snapshot, PlanningTransaction(snapshot, board), owed, promised)
        self.now_ns = now_ns
        self.attempts = 0
        #: Sorts of gangs that found no room: nothing comes free while a plan is made.
        self._failed_gangs: set[Hashable] = set()
        # Names of ten thousand claims cost time; only beneficiaries make them matter.
        if owed:
            for one in snapshot.waiting:
                names = (name_claim(one, head) for head in range(len(one.job_ids)))
                self.transaction.pending_claims.update(names)
        sleepers = board.sleeping_classes if sleeps and self._can_sleep(rules) else None
        if sleepers is not None:
            sleepers.follow(snapshot.waiting)
        find = None if sleepers is None else sleepers.find_gang
        self.gangs = PendingGangs(
            snapshot.waiting, snapshot.cards.node, board.running_jobs.list_gang_members, find
        )
        self.sleeping_classes = (
            None if sleepers is None else self._make_sleeping_classes(sleepers, promised)
        )
        self._reclaims = rules.enabled and rules.reclaims
        self.floors = self.make_floors()
        self.cycle_rejections = CycleRejections(self.transaction, self.gangs)
        # Before `StartPromises` lets reservations choose their cards: a job that moves keeps the
        # seats that its migration was planned with.
        for kept in snapshot.migration_holds:
            self.transaction.hold_for_job(kept)
        self.start_promises = StartPromises(self.transaction, self.gangs, now_ns, promised)
        self.eviction_planner = EvictionPlanner(
            self.transaction, rules, now_ns, self.start_promises.find_held_cards, self._list_demand
        )

    def place_all(self, limit: int) -> list[JobPlacement]:
        """Place claims in the order of the queue; a class whose head finds no room is out of this
        cycle.
        """
        waiting = self.snapshot.waiting
        placed = list[JobPlacement]()
        queue = self.make_queue()
        while len(placed) < limit and (turn := queue.take_next()) is not None:
            i, head = turn
            # Its lane was closed after it was queued: no promise is left for it, and nothing fits.
            if self.sleeping_classes is not None and self.sleeping_classes.is_over(i):
                self._call_next(queue, i)
                continue
            self.attempts += 1
            has_room = self._has_room(i)
            self.start_promises.hide_holds_for(waiting[i], name_claim(waiting[i], head))
            # Before it is placed: afterwards its own seats count in its tenant's use.
            borrows = self._is_borrowing_beneficiary(waiting[i], head)
            # A class that is known to have no room still has its turn: it may be promised a start.
            found = self._place_claim(waiting[i], head) if has_room else []
            seats = list[TentativePlacement]()
            for job, seated in found:
                placed.append(self._make_placement(job, seated, waiting[i].key.gang))
                seats.append(seated)
            if borrows and found:
                self.eviction_planner.reclaim_protection.record_borrower(waiting[i], seats)
            self.cycle_rejections.record_placed(i, len(found))
            after = self._find_next_head(waiting[i], head, seats)
            if after is not None:
                queue.put_back(i, after)
            if self.sleeping_classes is not None:
                if found:
                    self.sleeping_classes.note_taken(self.start_promises.restore_holds)
                elif has_room:
                    self.sleeping_classes.note_failed()
                self._call_next(queue, i)
            if waiting[i].key in self.floors:
                stays = after is not None and not self.is_borrowing(waiting[i])
                left = after is not None and after < len(waiting[i].job_ids)
                owed = left and self.get_beneficiary_place(waiting[i], after or 0) != NO_TURN
                # A floor that rose may let borrowers pass whose stored rank is too high now. That
                # is the one case in which ranks fall, so the queue cannot find it by itself.
                if self.floors.record_turn(waiting[i].key, stays=stays, owed=owed):
                    queue.rank_again()
        # Rejections describe the whole pool; `add_hold_rejections` says where holds are the reason.
        self.start_promises.restore_holds()
        self.transaction.unhold_all()
        return placed

    def make_rejections(self, placed: int) -> Mapping[ClassKey, Rejection]:
        """Return why each unplaced class waits; for classes that slept it is computed on first use."""
        if self.sleeping_classes is None:
            return self._reject_classes(placed, self.cycle_rejections.list_unplaced())
        told = self._reject_classes(
            placed, self.cycle_rejections.list_unplaced(self.sleeping_classes.list_looked_at())
        )
        return LazyRejections(
            self.cycle_rejections.list_unplaced, told, PoolAfterPlan(self.transaction, placed)
        )

    def _reject_classes(
        self, placed: int, classes: Iterable[WaitingClass]
    ) -> dict[ClassKey, Rejection]:
        return self.eviction_planner.add_eviction_rejections(
            self.start_promises.add_hold_rejections(
                self.cycle_rejections.reject_classes(placed, classes)
            )
        )

    def _can_sleep(self, rules: PreemptionRules) -> bool:
        """Whether a class without room has none for the rest of the plan, and its turn changes
        nothing.
        """
        snapshot = self.snapshot
        if (
            len(snapshot.waiting) < FEWEST
            or self.transaction.quotas.has_model_limits
            or self.transaction.quotas.cells.has_cells
            or self._beneficiary_places
        ):
            return False
        # Each of these lets a later turn find room that an earlier one had not: held seats are
        # shown, reservations choose, evictions free seats. Then no class may be passed over
        # (decision 0030).
        kept = snapshot.migration_holds or snapshot.reservations
        return not kept and not (rules.enabled and self.transaction.running_jobs.has_evictable_jobs)

    def _make_sleeping_classes(self, sleepers: ClassColumns, promised: Promised) -> SleepingClasses:
        limits = (
            QuotaLimits(self.transaction.quotas, self.compute_least)
            if self.transaction.quotas.has_limits
            else None
        )
        return sleepers.make_sleeping_classes(self.snapshot, promised, limits)

    def _has_room(self, i: int) -> bool:
        """Whether the class of that number may have room."""
        if self.sleeping_classes is None:
            return True
        if self.sleeping_classes.has_room(i):
            self.sleeping_classes.note_turn(i)
            return True
        return False

    def _call_next(self, queue: ClassQueue, i: int) -> None:
        """The class has had its turn: another one of its lane comes to the queue."""
        assert self.sleeping_classes is not None
        behind = self.sleeping_classes.find_next_in_lane(i, self.start_promises.can_promise)
        if behind is not None:
            queue.put_back(behind, 0)

    def _find_next_head(
        self, waiting: WaitingClass, head: int, found: list[TentativePlacement]
    ) -> int | None:
        """The head of the class that has its turn next; None where the class is out."""
        gang = waiting.gang
        job = name_claim(waiting, head)
        following = head + 1 if gang is None else None
        if found:
            self.transaction.pending_claims.discard(job)
            self.start_promises.record_placed(waiting, found)
            return following
        if self.eviction_planner.make_room(
            waiting, job, None if gang is None else self.gangs[gang.id]
        ):
            self.start_promises.keep_promise(job)
            return following
        if job in self._beneficiary_places:
            # The seats freed for it are gone (a card failed, another claim took them). Its first
            # turn is spent, so that such a claim gains no lasting advantage: it waits like others.
            del self._beneficiary_places[job]
            return head
        early = not self.is_outranked(waiting) and self.is_borrowing(waiting)
        if self.start_promises.on_unplaced(waiting, job, inside=early):
            return None
        # It cannot start inside its guarantee. It comes back behind those that can, and borrows.
        self._late_classes.add(waiting.key)
        return head

    def _list_demand(self) -> Iterator[PendingDemand]:
        """What waits for its start. No job leaves for members that a running gang does not need."""
        for one in self.snapshot.waiting:
            if one.job_ids and (one.gang is None or self.gangs[one.gang.id].needed_count):
                yield one.tenant, one.shape, self.compute_least(one)

    def can_fit(self, waiting: WaitingClass) -> bool:
        """Whether the class's next claim, or the gang's minimum, finds its seats; none are taken."""
        mark = self.transaction.mark()
        self.transaction.quotas.firm = not waiting.preemptible
        if waiting.gang is None:
            found = self.transaction.seat_claim(waiting.tenant, waiting.shape) is not None
        else:
            found = bool(
                GangPlacement(
                    self.transaction, waiting.tenant, self.gangs[waiting.gang.id]
                ).try_place_minimum()
            )
        self.transaction.rollback(mark)
        return found

    def _place_claim(
        self, waiting: WaitingClass, head: int
    ) -> list[tuple[str, TentativePlacement]]:
        """The next head's seats, or those of a gang; empty where it finds none."""
        if waiting.gang is not None:
            return self._place_gang(waiting, self.gangs[waiting.gang.id])
        job = waiting.job_ids[head]
        tenant = waiting.tenant
        # A migration's own seats come first: the job left its old cards for them.
        seated = self.transaction.seat_held_job(tenant, job) or self.transaction.seat_claim(
            tenant, waiting.shape
        )
        if seated is None and job in self._promise_places:
            with self.start_promises.show_due_promise(waiting, job) as due:
                seated = self.transaction.seat_claim(tenant, waiting.shape) if due else None
        return [(job, seated)] if seated else []

    def _place_gang(
        self, waiting: WaitingClass, asked: PendingMembers
    ) -> list[tuple[str, TentativePlacement]]:
        if not self.transaction.has_quota(
            waiting.tenant, waiting.shape, self.compute_least(waiting)
        ):
            return []
        # All that decides whether a gang finds room now: quota, run time against holds, owner,
        # members.
        sort = waiting.tenant, waiting.seconds, waiting.reservation, asked.equivalence_key
        if sort in self._failed_gangs:
            return []
        found = self._try_gang(waiting, asked)
        if found:
            self.gangs[asked.gang.id] = asked.remove_placed(found)
        else:
            self._failed_gangs.add(sort)
        return found

    def _try_gang(
        self, waiting: WaitingClass, asked: PendingMembers
    ) -> list[tuple[str, TentativePlacement]]:
        muster = GangPlacement(self.transaction, waiting.tenant, asked)
        if not self._has_other_beneficiaries(waiting):
            return muster.try_place() or self._place_as_promised(waiting, asked)
        # What was left for others is not for members that the gang can do without: those come in
        # the next plan.
        if not asked.needed_count:
            return []
        return muster.try_place_minimum() or self._place_as_promised(waiting, asked)

    def _has_other_beneficiaries(self, waiting: WaitingClass) -> bool:
        """Whether seats were freed for other claims that are not placed yet."""
        assert waiting.gang is not None
        for claim in self._beneficiary_places:
            if claim != waiting.gang.id and claim in self.transaction.pending_claims:
                return True
        return False

    def _place_as_promised(
        self, waiting: WaitingClass, asked: PendingMembers
    ) -> list[tuple[str, TentativePlacement]]:
        """The seats held for the gang, where a search of all cards did not find as many."""
        with self.start_promises.show_due_promise(waiting, asked.gang.id) as due:
            return GangPlacement(self.transaction, waiting.tenant, asked).try_place() if due else []

    def _make_placement(self, job: str, seated: TentativePlacement, gang: str = "") -> JobPlacement:
        return make_placement(
            self.snapshot, self.transaction.free, self.transaction.board.rater, job, seated, gang
        )
