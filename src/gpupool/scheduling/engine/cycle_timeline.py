"""The time axis of one cycle: what is held on it, and what the claim whose turn it is may take.

Nothing is computed until something is reserved or a head finds no room: a pool with room for every
claim has no future to look at. Held capacity is hidden on the working copy itself, so placing is
the same with and without holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from gpupool.scheduling.engine.promises import Promised, StandingPromises, StartCertainty
from gpupool.scheduling.engine.start_trials import StartTrials, sum_seats
from gpupool.scheduling.snapshot.claims import ClassKey, WaitingClass
from gpupool.scheduling.snapshot.columns import Bools
from gpupool.scheduling.timeline.backfill import Backfill
from gpupool.scheduling.timeline.job_end_times import UNKNOWN_END, name_owner
from gpupool.scheduling.timeline.quotas_over_time import QuotasOverTime
from gpupool.scheduling.timeline.reservations import hold_all
from gpupool.scheduling.timeline.timeline import Hold, Timeline
from gpupool.scheduling.workspace.pending_members import PendingMembers
from gpupool.scheduling.workspace.tentative_placement import TentativePlacement
from gpupool.scheduling.workspace.transaction import PlanningTransaction


class CycleTimeline:
    """Holds of one cycle on cards and quotas.

    Call `hide_holds_for` before a class is placed, `record_placed` after, and `restore_holds` when
    all classes had their turn.
    """

    def __init__(
        self,
        work: PlanningTransaction,
        gangs: Mapping[str, PendingMembers],
        now_ns: int,
        promised: Promised,
    ) -> None:
        self._work = work
        self._gangs = gangs
        self._trials = StartTrials(work, gangs)
        self._now_ns = now_ns
        self._backfill: Backfill | None = None
        self._quotas: QuotasOverTime
        #: What started before the time axis was made; `_begin_timeline` puts it there.
        self._placed_so_far: list[tuple[Sequence[TentativePlacement], WaitingClass]] = []
        self._served: set[ClassKey] = set()
        self._promised = promised
        self._certain = StartCertainty(work, now_ns)
        self._any_firm = bool(promised)
        self._promises: StandingPromises
        if work.snapshot.reservations or promised:
            self._begin_timeline()

    def hide_holds_for(self, waiting: WaitingClass, claim: str = "") -> None:
        """Hide what the class may not take if it starts now; it is the turn of `claim`."""
        self._work.quotas.firm = not waiting.preemptible
        if self._backfill is not None:
            # Its own promise must not hide cards from it. What was hidden for the claim before
            # shows again first, because hiding is computed from all free capacity.
            if self._promises.release_hold(claim):
                self._backfill.restore_holds()
            until = self._backfill.timeline.compute_end(self._get_seconds(waiting))
            self._backfill.hide_holds_for(until, name_owner(waiting.tenant, waiting.reservation))
            self._work.quotas.window = self._now_ns, until

    def restore_holds(self) -> None:
        """Show all free capacity again."""
        self._work.quotas.window = None
        if self._backfill is not None:
            self._backfill.restore_holds()

    def list_hold_starts(self) -> list[int]:
        """List the known instants after now from which cards or quotas are kept, earliest first."""
        starts = {hold.start_ns for hold in self._get_timeline().holds}
        for use in self._work.quotas.promised_uses:
            if not use.collects:
                starts.add(use.start_ns)
        return sorted(at for at in starts if self._now_ns < at < UNKNOWN_END)

    def can_start_now(self, waiting: WaitingClass, without: Sequence[Hold] = ()) -> bool:
        """Whether the class could start beside all holds but these; nothing is taken."""
        timeline = self._get_timeline()
        for hold in without:
            timeline.release(hold)
        self.hide_holds_for(waiting)
        try:
            return self._trials.try_place(waiting) is not None
        finally:
            self.restore_holds()
            for hold in without:
                timeline.hold(hold)

    def find_held_cards(self) -> Bools | None:
        """Return the cards on which something is held, now or later; None where nothing is."""
        # None and "no card is held" are one answer: callers skip the work for both.
        held = None if self._backfill is None else self._backfill.timeline.held
        return held if held is not None and held.any() else None

    def record_placed(self, waiting: WaitingClass, seated: Sequence[TentativePlacement]) -> None:
        """Record that the class's next claim, or its gang, runs there from now on."""
        self._served.add(waiting.key)
        if waiting.guessed:
            self._certain.record_placement(waiting, sum_seats(seated))
        if self._backfill is None:
            self._placed_so_far.append((seated, waiting))
        else:
            taken = sum_seats(seated)
            until = self._backfill.timeline.compute_end(waiting.seconds)
            self._backfill.add_taken(taken, until)
            self._quotas.add_end(waiting.tenant, taken, until, firm=not waiting.preemptible)

    def keep_promise(self, claim: str) -> None:
        """Keep the claim's promise as it is: others leave for it, and it starts on their seats."""
        if (start := self._promised.get(claim)) is not None:
            self._promises.restore_hold(start)

    @contextmanager
    def show_due_promise(self, waiting: WaitingClass, claim: str) -> Iterator[bool]:
        """Show only the cards of the claim's promise, and yield True, where that start has come."""
        # A promise belongs to the claim. An estimate is remembered by class, because it is the
        # estimate of whichever head comes first.
        start = self._promised.get(claim) or self._work.snapshot.previous_starts.get(waiting.key)
        if start is None or not start.reserved or start.at_ns > self._now_ns:
            yield False
            return
        backfill = self._backfill or self._begin_timeline()
        owner = name_owner(waiting.tenant, waiting.reservation)
        with backfill.show_only(
            start, backfill.timeline.compute_end(self._get_seconds(waiting)), owner
        ):
            yield True

    def _get_seconds(self, waiting: WaitingClass) -> int | None:
        """Its run time beside promises: a run time that is only estimated breaks none."""
        # An unknown run time never ends before a hold, so such a claim takes no card with a promise
        # on it.
        return None if waiting.guessed and self._any_firm else waiting.seconds

    def _get_timeline(self) -> Timeline:
        return (self._backfill or self._begin_timeline()).timeline

    def _begin_timeline(self) -> Backfill:
        snapshot = self._work.snapshot
        free = self._work.free
        timeline = Timeline(snapshot.cards, self._work.running_jobs.ends, self._now_ns)
        # Reservations take their cards before promises are laid over them: a promise was given
        # beside the reservations of its plan, and one made later breaks it by right (decision
        # 0029).
        self._backfill = Backfill(free, timeline)
        hold_all(timeline, free, snapshot.reservations, self._work.running_jobs.list_reserved())
        self._quotas = QuotasOverTime(
            self._work.quotas, snapshot.running, self._now_ns, self._work.running_jobs.ends
        )
        self._trials.begin(timeline, self._quotas)
        # The axis is made late, but must know what this plan has started already.
        for seated, waiting in self._placed_so_far:
            taken = sum_seats(seated)
            timeline.add_end(taken, timeline.compute_end(waiting.seconds))
            until = timeline.compute_end(waiting.seconds)
            self._quotas.add_end(waiting.tenant, taken, until, firm=not waiting.preemptible)
        known = (
            self._work.board.sleeping_classes.list_promised_classes(snapshot, self._promised)
            if self._promised
            else []
        )
        classes = [snapshot.waiting[i] for i in known]
        self._promises = StandingPromises(self._promised, classes, timeline, self._quotas)
        return self._backfill
