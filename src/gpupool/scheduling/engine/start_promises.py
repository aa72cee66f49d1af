"""Starts of one cycle: which start a claim without room gets, and how it is told of holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import replace

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.claim import Rejection, RejectionReason
from gpupool.scheduling.engine.cycle_timeline import CycleTimeline
from gpupool.scheduling.engine.promises import (
    Promised,
    make_promise,
)
from gpupool.scheduling.filtering.capacity_columns import SeatAmounts
from gpupool.scheduling.snapshot.claims import ClassKey, WaitingClass
from gpupool.scheduling.snapshot.plan import PlannedStart
from gpupool.scheduling.timeline.backfill import Backfill, make_start
from gpupool.scheduling.timeline.earliest_start import (
    StartParts,
    find_earliest_start,
)
from gpupool.scheduling.timeline.hold_rejection import reject_for_hold, reject_for_quota
from gpupool.scheduling.timeline.job_end_times import UNKNOWN_END, name_owner
from gpupool.scheduling.timeline.timeline import Hold
from gpupool.scheduling.workspace.pending_members import (
    PendingMembers,
)
from gpupool.scheduling.workspace.transaction import (
    PlanningTransaction,
)

#: A claim whose start is not known lets others pass for so long (10 minutes). Then, as a gang does
#: at once, it collects seats.
PATIENCE_NS = 600 * NANOS_PER_SECOND

#: So many heads that wait for the same cards are promised a start; each further one leaves less
#: room for backfill.
DEPTH = 1

#: So many heads are searched for a start in one cycle, whatever the result: a queue of thousands
#: costs no more.
SEARCHES = 32

#: So many of those are heads that a quota holds back; the rest is for heads that only lack cards.
QUOTA_SEARCHES = 16

#: Where a tenant has a limit: after so many heads of one tenant and priority that wait for the same
#: cards and were not due, those behind them are not looked at. They may lack another quota, but a
#: queue of thousands costs no more.
LOOKS = 4

#: So many gangs that found no room are tried without holds, to give their true reason.
TRIED = 8

#: So many claims before a claim are placed in time, one by one, for its estimate; behind more, its
#: start is unknown.
FORECAST = 32


class StartPromises(CycleTimeline):
    """Starts and holds of one cycle.

    Call `hide_holds_for` before a class is placed, `record_placed` or `on_unplaced` after, and
    `restore_holds` when all classes had their turn.
    """

    def __init__(
        self,
        work: PlanningTransaction,
        gangs: Mapping[str, PendingMembers],
        now_ns: int,
        promised: Promised,
        depth: int = DEPTH,
    ) -> None:
        super().__init__(work, gangs, now_ns, promised)
        self.starts: dict[ClassKey, PlannedStart] = {}
        self._depth = depth
        self._unplaced: list[WaitingClass] = []
        self.own_holds: dict[ClassKey, Hold] = {}
        self._searches = 0
        self._quota_searches = 0
        self._tried = 0
        self._failed_lines: Counter[Hashable] = Counter()

    def on_unplaced(self, waiting: WaitingClass, claim: str, *, inside: bool = False) -> bool:
        """Handle a class that found no room: promise it a start if it is due.

        Args:
            waiting: the class.
            claim: its head, or its gang.
            inside: it has the turn of a claim inside its guarantee, but would go over that now. It
                is promised no start at which it would.

        Returns:
            False where `inside` leaves no start: then its turn comes with those that borrow.
        """
        parts = self._trials.list_parts(waiting)
        if not parts:
            return True
        known = claim in self._promised
        due = self._has_last_promise(waiting)
        found = False
        # What it was promised stands, even if its tenant has left its guarantee by then. Else a
        # start inside the guarantee would be found in one plan and none in the next (decision 0029).
        inside = inside and not known
        if known or due or not self._is_hopeless(waiting):
            backfill = self._backfill or self._begin_timeline()
            lacks = self._find_lack(waiting, inside=inside)
            due = due or backfill.is_due(parts, self._depth, lacks, waiting.priority)
            if known or (due and self._can_search(lacks)):
                self._searches += 1
                self._quota_searches += bool(lacks)
                found = self._promise_start(backfill, waiting, claim, parts, lacks, inside=inside)
            else:
                # Counts heads that were not due, and those for which no search is left: both cost a
                # look.
                self._failed_lines[self._get_line(waiting)] += 1
        if found or not inside:
            self._unplaced.append(waiting)
        return found or not inside

    def list_promises(self) -> dict[ClassKey, PlannedStart]:
        """Return the starts that are promises, with those of claims that had no turn."""
        if not self._any_firm:
            return {}
        made = {key: start for key, start in self.starts.items() if start.firm}
        # One per class. That of the first head stands, which had no turn, so it comes last here.
        return {**made, **self._promises.list_untouched()}

    def can_promise(self, waiting: WaitingClass) -> bool:
        """Whether a claim behind the class, of its tenant and priority and for such cards, could be
        promised a start.
        """
        if self._work.quotas.has_limits:
            return self._searches < SEARCHES and not self._is_hopeless(waiting)
        parts = self._trials.list_parts(waiting)
        if not parts or not self._can_search(""):
            return False
        return self._backfill is None or self._backfill.is_due(
            parts, self._depth, priority=waiting.priority
        )

    def estimate_start(self, waiting: WaitingClass) -> PlannedStart | None:
        """Estimate the start if all classes without room before it start first, each as early as it
        can.

        What it looks at stays on the timeline as held, so it is the last question to a cycle.

        Returns:
            None where the start is unknown: more than FORECAST claims before it, or jobs in the way
            whose end is unknown.
        """
        before = self._list_before(waiting)
        if before is None or not self._trials.list_parts(waiting):
            return None
        backfill = self._backfill or self._begin_timeline()
        backfill.restore_holds()
        for one in before:
            if (found := self._find_next_start(backfill, one)) is not None:
                until = backfill.timeline.compute_end(one.seconds, found[0])
                backfill.timeline.hold(Hold(found[1], found[0], until))
                self._quotas.keep_start(
                    one.tenant, found[1], found[0], until, firm=not one.preemptible
                )
        mine = self._find_next_start(backfill, waiting)
        return None if mine is None else PlannedStart(mine[0], tuple(mine[1].rows.tolist()))

    def add_hold_rejections(
        self, rejections: Mapping[ClassKey, Rejection]
    ) -> dict[ClassKey, Rejection]:
        """Replace rejections of claims for which there is room that is held for others."""
        told = dict(rejections)
        for waiting in (
            self._unplaced
            if self.find_held_cards() is not None or self._work.quotas.promised_uses
            else ()
        ):
            if waiting.key in told and told[waiting.key].dominant is not RejectionReason.QUOTA:
                told[waiting.key] = self._reject_truly(waiting, told[waiting.key])
        return told

    def _reject_truly(self, waiting: WaitingClass, said: Rejection) -> Rejection:
        hold = self.find_met_hold(waiting)
        if hold is not None and self._has_room(waiting, said):
            return reject_for_hold(waiting, hold, self._now_ns)
        until = self._get_timeline().compute_end(self._get_seconds(waiting))
        self._work.quotas.firm = not waiting.preemptible
        later = self._work.quotas.find_promise_in_way(
            *self._trials.get_demand(waiting), (self._now_ns, until)
        )
        return (
            said
            if later is None or said.dominant is not RejectionReason.BEHIND
            else reject_for_quota(waiting, later)
        )

    # --- parts ------------------------------------------------------------------------------

    def _list_before(self, waiting: WaitingClass) -> list[WaitingClass] | None:
        """Classes that found no room before the class, once per claim, without those promised a
        start.
        """
        found = list[WaitingClass]()
        for one in self._unplaced:
            if one.key == waiting.key:
                break
            claims = (1 if one.gang else one.count) - (one.key in self.starts)
            if len(found) + claims > FORECAST:
                return None
            found += [one] * claims
        return found

    def _find_next_start(
        self, backfill: Backfill, waiting: WaitingClass
    ) -> tuple[int, SeatAmounts] | None:
        """The earliest known start beside all that is held."""
        owner = name_owner(waiting.tenant, waiting.reservation)
        free = self._work.free
        found = find_earliest_start(
            backfill.timeline,
            free,
            self._trials.list_parts(waiting),
            waiting.seconds,
            self._trials.make_trial(waiting),
            owner,
        )
        return found if found is not None and found[0] < UNKNOWN_END else None

    def _has_last_promise(self, waiting: WaitingClass) -> bool:
        """Whether it waited for something else, cards or quota, when it was promised its start:
        that is kept.
        """
        has_quotas = bool(self._work.quotas.tree.resources)
        return (
            has_quotas
            and waiting.key in self._work.snapshot.previous_starts
            and waiting.key not in self._served
        )

    def _can_search(self, lacks: str) -> bool:
        return self._searches < SEARCHES and (not lacks or self._quota_searches < QUOTA_SEARCHES)

    def _is_hopeless(self, waiting: WaitingClass) -> bool:
        """Whether enough heads like it were not due, or it has no card: processors cannot be held."""
        if waiting.gang is None and waiting.shape.count == 0:
            return True
        return self._work.quotas.has_limits and self._failed_lines[self._get_line(waiting)] >= LOOKS

    def _get_line(self, waiting: WaitingClass) -> Hashable:
        return (
            waiting.tenant,
            waiting.priority,
            self._work.board.sleeping_classes.get_card_kind(waiting),
        )

    def _promise_start(
        self,
        backfill: Backfill,
        waiting: WaitingClass,
        claim: str,
        parts: StartParts,
        lacks: str,
        *,
        inside: bool,
    ) -> bool:
        # A gang never finds all its seats free at once in a busy pool, so it collects from the
        # start. A single claim waits for a start that it knows, and collects only when its patience
        # is over.
        collects = waiting.gang is not None or self._now_ns - waiting.oldest_ns >= PATIENCE_NS
        before = self._promised.get(claim) or self._work.snapshot.previous_starts.get(waiting.key)
        seconds = self._get_seconds(waiting)
        owner = name_owner(waiting.tenant, waiting.reservation)
        found = backfill.promise_start(
            parts,
            seconds,
            self._trials.make_trial(waiting, inside=inside),
            owner,
            collects=collects,
            before=before,
            lacks=lacks,
            priority=waiting.priority,
            unless=self._trials.make_trial(waiting) if inside else None,
        )
        if found is None:
            return False
        firm = not waiting.preemptible
        # Without a known start quota is collected from now on: kept only from the cards' instant,
        # it would be lent in between to jobs that in turn stand on the cards (decision 0005).
        if found.at_ns >= UNKNOWN_END:
            self._quotas.collect_quota(
                waiting.tenant, found.taken, found.at_ns, firm=firm, inside=inside
            )
        else:
            until = backfill.timeline.compute_end(seconds, found.at_ns)
            self._quotas.keep_start(waiting.tenant, found.taken, found.at_ns, until, firm=firm)
        if found.hold is not None:
            self.own_holds[waiting.key] = found.hold
            if found.at_ns < UNKNOWN_END:
                self.starts[waiting.key] = self._make_start(waiting, claim, found.hold)
        return True

    def _make_start(self, waiting: WaitingClass, claim: str, hold: Hold) -> PlannedStart:
        """The start to remember: a promise if it was one and comes no later, or can be one now."""
        start = replace(make_start(hold), claim=claim)
        before = self._promised.get(claim)
        # A promise that comes no later is kept without a new proof: what made it certain was the
        # plan that gave it, and a job that runs late by now must not turn it back into an estimate.
        stands = before is not None and hold.start_ns <= before.at_ns
        usable = self._trials.find_usable_cards(waiting)
        if not stands and not self._certain.is_certain(waiting, hold.start_ns, hold.taken, usable):
            return start
        self._any_firm = True
        return make_promise(start, hold.taken, self._work.snapshot.cards)

    def _has_room(self, waiting: WaitingClass, said: Rejection) -> bool:
        """Whether it would find room if nothing were held. Gangs are tried, the first TRIED of
        them.
        """
        if waiting.gang is None or said.dominant is RejectionReason.BEHIND:
            return said.dominant is RejectionReason.BEHIND
        self._tried += 1
        return self._tried <= TRIED and self._trials.try_place(waiting) is not None

    def _find_lack(self, waiting: WaitingClass, *, inside: bool) -> str:
        """The node below the pool whose quota holds it back; empty where it waits for cards.

        A claim that waits until its tenant's own jobs return what it is guaranteed waits for that.
        Otherwise it would hold cards for an unknown time on which jobs run that an owner may evict
        today.
        """
        lacks = self._work.quotas.find_exhausted_node(*self._trials.get_demand(waiting))
        return lacks or (self._work.quotas.format_guarantors(waiting.tenant) if inside else "")

    def find_met_hold(self, waiting: WaitingClass) -> Hold | None:
        """The earliest hold of others that its run would meet on cards that it could use."""
        timeline = self._get_timeline()
        could = self._trials.find_usable_cards(waiting)
        until = timeline.compute_end(self._get_seconds(waiting))
        owner = name_owner(waiting.tenant, waiting.reservation)
        own = self.own_holds.get(waiting.key)
        met = list[Hold]()
        for hold in timeline.holds:
            is_mine = hold is own or (owner and hold.owner == owner)
            if not is_mine and hold.start_ns < until and could[hold.taken.rows].any():
                met.append(hold)
        return min(met, key=lambda hold: hold.start_ns, default=None)
