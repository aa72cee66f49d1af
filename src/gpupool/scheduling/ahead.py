"""The time axis of one cycle: who may take what now, what the head of the queue is promised, and what to say of it.

Nothing is computed until something is reserved or a head finds no room: a pool with room for everybody has no future
to look at. What is held is kept out of sight on the working copy itself, so placing is the same with and without it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial

import numpy as np

from gpupool.model.claim import Reason, Rejection, Shape
from gpupool.model.quota import Amount
from gpupool.scheduling.backfill import Backfill, Parts, Trial, earliest, start_of
from gpupool.scheduling.columns import Taken
from gpupool.scheduling.ends import SECOND, UNTOLD, owner_of
from gpupool.scheduling.gang import Missing, Muster, least_amount
from gpupool.scheduling.promises import Certain, Promised, PromisesAhead, as_promise
from gpupool.scheduling.quotas_ahead import QuotasAhead
from gpupool.scheduling.refusal_kept import kept_back, quota_kept_back
from gpupool.scheduling.reservation import hold_all
from gpupool.scheduling.snapshot import Bools, ClassKey, Start, Waiting
from gpupool.scheduling.timeline import Hold, Timeline
from gpupool.scheduling.work import Seated, Work

PATIENCE_NS = 600 * SECOND
"""A claim whose start nobody can tell lets others pass for so long; then, as a gang does at once, it collects seats."""

DEPTH = 1
"""So many heads that wait for the same cards are promised a start; each further one leaves less to fill gaps with."""

SEARCHES = 32
"""So many heads are looked at for a start in one cycle, whatever comes of it: a queue of thousands costs no more."""

QUOTA_SEARCHES = 16
"""So many of those are heads that a quota holds back: they leave looks for those that only lack cards."""

LOOKS = 4
"""Where somebody has a limit: after so many heads of one tenant and priority that wait for the same cards and were not
due, those behind them are not looked at. They may lack another quota, but a queue of thousands costs no more."""

TRIED = 8
"""So many gangs that found no room are tried without what is held, to tell them why."""

FORECAST = 32
"""So many claims before a claim are placed in time, one by one, for its estimate; behind more, nobody can tell."""


class Ahead:
    """`show` before a class is placed, `placed` or `found_none` after, `lift` when all have had their turn."""

    def __init__(
        self, work: Work, gangs: Mapping[str, Missing], now_ns: int, promised: Promised, depth: int = DEPTH
    ) -> None:
        self.starts: dict[ClassKey, Start] = {}
        self._work, self._gangs, self._now_ns, self._depth = work, gangs, now_ns, depth
        self._backfill: Backfill | None = None
        self._quotas: QuotasAhead
        self._so_far: list[tuple[Sequence[Seated], Waiting]] = []
        self._found_none: list[Waiting] = []
        self._own: dict[ClassKey, Hold] = {}
        self._served: set[ClassKey] = set()
        self._searches = self._quota_searches = self._tried = 0
        self._in_vain: Counter[Hashable] = Counter()
        self._promised, self._certain = promised, Certain(work, now_ns)
        self._any_firm = bool(promised)
        self._promises: PromisesAhead
        if work.snapshot.reservations or promised:
            self._begin()

    def show(self, waiting: Waiting, claim: str = "") -> None:
        """Leave in sight what the class may take that starts now and runs as long as it does; it is `claim`'s turn."""
        self._work.quotas.firm = not waiting.preemptible
        if self._backfill is not None:
            if self._promises.lift(claim):
                self._backfill.lift()
            until = self._backfill.timeline.until(self._seconds(waiting))
            self._backfill.show(until, owner_of(waiting.tenant, waiting.reservation))
            self._work.quotas.window = self._now_ns, until

    def lift(self) -> None:
        self._work.quotas.window = None
        if self._backfill is not None:
            self._backfill.lift()

    def held(self) -> Bools | None:
        """Cards of which something is held, now or later; None where nothing is."""
        held = None if self._backfill is None else self._backfill.timeline.held
        return held if held is not None and held.any() else None

    def placed(self, waiting: Waiting, seated: Sequence[Seated]) -> None:
        """The class's next claim, or its gang, sits there from now on."""
        self._served.add(waiting.key)
        if waiting.guessed:
            self._certain.placed(waiting, taken_by(seated))
        if self._backfill is None:
            self._so_far.append((seated, waiting))
        else:
            taken = taken_by(seated)
            until = self._backfill.timeline.until(waiting.seconds)
            self._backfill.took(taken, until)
            self._quotas.ends(waiting.tenant, taken, until, firm=not waiting.preemptible)

    def stands(self, claim: str) -> None:
        """Others leave for the claim; until it sits on what they leave, what it was promised stays so."""
        if (start := self._promised.get(claim)) is not None:
            self._promises.again(start)

    def found_none(self, waiting: Waiting, claim: str, *, inside: bool = False) -> bool:
        """The class found no room in what was shown: it may be the head that everybody behind it must not delay.

        Where it has the turn of a claim `inside` what its tenant is guaranteed, but would go over that now, it is
        promised no start at which it would; False where there is no other: then its turn comes with those that borrow.
        """
        parts = self._parts(waiting)
        if not parts:
            return True
        known, due, found = claim in self._promised, self._was_promised(waiting), False
        inside = inside and not known  # what it was promised stands, wherever its tenant is by then
        if known or due or not self._is_hopeless(waiting):
            backfill, lacks = self._backfill or self._begin(), self._lacks(waiting, inside=inside)
            due = due or backfill.due(parts, self._depth, lacks, waiting.priority)
            if known or (due and self._may_search(lacks)):
                self._searches += 1
                self._quota_searches += bool(lacks)
                found = self._promise(backfill, waiting, claim, parts, lacks, inside=inside)
            else:
                self._in_vain[self._line(waiting)] += 1
        if found or not inside:
            self._found_none.append(waiting)
        return found or not inside

    def promised(self) -> dict[ClassKey, Start]:
        """Of the starts those that are promises, with those of claims that had no turn."""
        if not self._any_firm:
            return {}
        made = {key: start for key, start in self.starts.items() if start.firm}
        return {**made, **self._promises.untouched()}  # a class has one: that of its first head

    def may_promise(self, waiting: Waiting) -> bool:
        """Whether a start could be promised now to one behind the class, of its tenant and priority, for such cards."""
        if self._work.quotas.limited:
            return self._searches < SEARCHES and not self._is_hopeless(waiting)
        parts = self._parts(waiting)
        if not parts or not self._may_search(""):
            return False
        return self._backfill is None or self._backfill.due(parts, self._depth, priority=waiting.priority)

    @contextmanager
    def due(self, waiting: Waiting, claim: str) -> Iterator[bool]:
        """Whether it was promised a start that has come; if so, the cards of the promise alone are in sight."""
        start = self._promised.get(claim) or self._work.snapshot.promised.get(waiting.key)
        if start is None or not start.reserved or start.at_ns > self._now_ns:
            yield False
            return
        backfill, owner = self._backfill or self._begin(), owner_of(waiting.tenant, waiting.reservation)
        with backfill.only(start, backfill.timeline.until(self._seconds(waiting)), owner):
            yield True

    def estimate(self, waiting: Waiting) -> Start | None:
        """When it would start if all that found no room before it started first, each as early as it can.

        None where nobody can tell: more than FORECAST claims before it, or jobs in the way whose end is not known. What
        it looks at stays on the timeline as held, so it is the last question that a run is asked.
        """
        before = self._before(waiting)
        if before is None or not self._parts(waiting):
            return None
        backfill = self._backfill or self._begin()
        backfill.lift()
        for one in before:
            if (found := self._next(backfill, one)) is not None:
                until = backfill.timeline.until(one.seconds, found[0])
                backfill.timeline.hold(Hold(found[1], found[0], until))
                self._quotas.keep(one.tenant, found[1], found[0], until, firm=not one.preemptible)
        mine = self._next(backfill, waiting)
        return None if mine is None else Start(mine[0], tuple(mine[1].rows.tolist()))

    def said(self, rejections: Mapping[ClassKey, Rejection]) -> dict[ClassKey, Rejection]:
        """With the true reason where there is room that a class may not have; nothing is out of sight any more."""
        told = dict(rejections)
        for waiting in self._found_none if self.held() is not None or self._work.quotas.later else ():
            if waiting.key in told and told[waiting.key].dominant is not Reason.QUOTA:
                told[waiting.key] = self._truly(waiting, told[waiting.key])
        return told

    def _truly(self, waiting: Waiting, said: Rejection) -> Rejection:
        hold = self._kept_from(waiting)
        if hold is not None and self._has_room(waiting, said):
            return kept_back(waiting, hold, self._now_ns)
        assert self._backfill is not None
        until = self._backfill.timeline.until(self._seconds(waiting))
        self._work.quotas.firm = not waiting.preemptible
        later = self._work.quotas.promised(*self._asked(waiting), (self._now_ns, until))
        return said if later is None or said.dominant is not Reason.BEHIND else quota_kept_back(waiting, later)

    # --- parts ------------------------------------------------------------------------------

    def _before(self, waiting: Waiting) -> list[Waiting] | None:
        """What found no room before the class did, a claim each; without those that are promised a start already."""
        found = list[Waiting]()
        for one in self._found_none:
            if one.key == waiting.key:
                break
            claims = (1 if one.gang else one.count) - (one.key in self.starts)
            if len(found) + claims > FORECAST:
                return None
            found += [one] * claims
        return found

    def _next(self, backfill: Backfill, waiting: Waiting) -> tuple[int, Taken] | None:
        """The earliest known start beside all that is held."""
        owner, free = owner_of(waiting.tenant, waiting.reservation), self._work.free
        found = earliest(backfill.timeline, free, self._parts(waiting), waiting.seconds, self._trial(waiting), owner)
        return found if found is not None and found[0] < UNTOLD else None

    def _was_promised(self, waiting: Waiting) -> bool:
        """Whether it waited for something else, cards or quota, when it was promised its start: that is kept."""
        has_quotas = bool(self._work.quotas.tree.resources)
        return has_quotas and waiting.key in self._work.snapshot.promised and waiting.key not in self._served

    def _may_search(self, lacks: str) -> bool:
        return self._searches < SEARCHES and (not lacks or self._quota_searches < QUOTA_SEARCHES)

    def _is_hopeless(self, waiting: Waiting) -> bool:
        """Whether enough before it were not due."""
        return self._work.quotas.limited and self._in_vain[self._line(waiting)] >= LOOKS

    def _line(self, waiting: Waiting) -> Hashable:
        return waiting.tenant, waiting.priority, self._work.board.sleepers.kind(waiting)

    def _seconds(self, waiting: Waiting) -> int | None:
        """How long it runs beside promises: a run time that nothing but the past tells breaks none."""
        return None if waiting.guessed and self._any_firm else waiting.seconds

    def _promise(
        self, backfill: Backfill, waiting: Waiting, claim: str, parts: Parts, lacks: str, *, inside: bool
    ) -> bool:
        collects = waiting.gang is not None or self._now_ns - waiting.oldest_ns >= PATIENCE_NS
        before = self._promised.get(claim) or self._work.snapshot.promised.get(waiting.key)
        seconds = self._seconds(waiting)
        owner = owner_of(waiting.tenant, waiting.reservation)
        found = backfill.promise(
            parts,
            seconds,
            self._trial(waiting, inside=inside),
            owner,
            collects=collects,
            before=before,
            lacks=lacks,
            priority=waiting.priority,
            unless=self._trial(waiting) if inside else None,
        )
        if found is None:
            return False
        firm = not waiting.preemptible
        if found.at_ns >= UNTOLD:
            self._quotas.collect(waiting.tenant, found.taken, found.at_ns, firm=firm, inside=inside)
        else:
            until = backfill.timeline.until(seconds, found.at_ns)
            self._quotas.keep(waiting.tenant, found.taken, found.at_ns, until, firm=firm)
        if found.hold is not None:
            self._own[waiting.key] = found.hold
            self.starts |= {waiting.key: self._told(waiting, claim, found.hold)} if found.at_ns < UNTOLD else {}
        return True

    def _told(self, waiting: Waiting, claim: str, hold: Hold) -> Start:
        """What is remembered of the start: a promise, if it was one and comes no later, or can be one now."""
        start, before = replace(start_of(hold), claim=claim), self._promised.get(claim)
        stands = before is not None and hold.start_ns <= before.at_ns
        usable = self._could_use(waiting)
        if not stands and not self._certain.is_certain(waiting, hold.start_ns, hold.taken, usable):
            return start
        self._any_firm = True
        return as_promise(start, hold.taken, self._work.snapshot.cards)

    def _has_room(self, waiting: Waiting, said: Rejection) -> bool:
        """Whether it would sit somewhere if nothing were held. Gangs are tried, the first TRIED of them."""
        if waiting.gang is None or said.dominant is Reason.BEHIND:
            return said.dominant is Reason.BEHIND
        self._tried += 1
        return self._tried <= TRIED and self._attempt(waiting) is not None

    def _begin(self) -> Backfill:
        snapshot, free = self._work.snapshot, self._work.free
        timeline = Timeline(snapshot.cards, self._work.roster.ends, self._now_ns)
        self._backfill = Backfill(free, timeline)
        hold_all(timeline, free, snapshot.reservations, self._work.roster.reserved())
        self._quotas = QuotasAhead(self._work.quotas, snapshot.running, self._now_ns, self._work.roster.ends)
        for seated, waiting in self._so_far:
            taken = taken_by(seated)
            timeline.ends(taken, timeline.until(waiting.seconds))
            until = timeline.until(waiting.seconds)
            self._quotas.ends(waiting.tenant, taken, until, firm=not waiting.preemptible)
        known = self._work.board.sleepers.promised_at(snapshot, self._promised) if self._promised else []
        classes = [snapshot.waiting[i] for i in known]
        self._promises = PromisesAhead(self._promised, classes, timeline, self._quotas)
        return self._backfill

    def _parts(self, waiting: Waiting) -> Parts:
        """What has to start together; nothing for a gang that runs and only wants more members."""
        if waiting.gang is None:
            return [(self._work.fit(waiting.shape), 1)]
        asked = self._gangs[waiting.gang.id]
        return [(self._work.fit(asked.roles[path].shape), count) for path, count in asked.least.items() if count]

    def _lacks(self, waiting: Waiting, *, inside: bool) -> str:
        """Of which node below the pool the quota holds it back; empty where it waits for cards.

        One that waits until its tenant's own jobs give back what it is guaranteed waits for that. Else it would keep
        cards, for nobody knows how long, on which others sit whom an owner may tell to leave today.
        """
        lacks = self._work.quotas.lacking(*self._asked(waiting))
        return lacks or (self._work.quotas.guarantors(waiting.tenant) if inside else "")

    def _asked(self, waiting: Waiting) -> tuple[str, Shape, Amount]:
        return waiting.tenant, waiting.shape, self._least(waiting)

    def _least(self, waiting: Waiting) -> Amount:
        gang = self._gangs[waiting.gang.id] if waiting.gang else None
        return self._work.least(waiting.shape) if gang is None else least_amount(self._work, gang)

    def _trial(self, waiting: Waiting, *, inside: bool = False) -> Trial:
        attempt, may = partial(self._attempt_at, waiting), partial(self._may_at, waiting, inside=inside)
        return Trial(attempt, may, self._alike(waiting))

    def _alike(self, waiting: Waiting) -> Hashable:
        """Equal for heads that differ in their tenants' room for all they need and in nothing else; None: perhaps not.

        Where quotas are of compute alone, one that may start finds room in them for every seat.
        """
        quotas = self._work.quotas
        if not quotas.by_compute or waiting.gang is None:
            return waiting.shape if quotas.by_compute else None
        asked = self._gangs[waiting.gang.id]
        return asked.sort if asked.whole == asked.least else None

    def _may_at(self, waiting: Waiting, instant_ns: int, *, inside: bool) -> bool:
        """Whether the quotas have room for it then, `inside` what its tenant is guaranteed."""
        quotas, asked = self._work.quotas, self._asked(waiting)
        if not quotas.limited:
            return True
        with self._at(waiting, instant_ns):
            quotas.firm = not waiting.preemptible
            return quotas.admitted(*asked) is not None and not (inside and quotas.borrows(*asked))

    def _attempt_at(self, waiting: Waiting, instant_ns: int) -> Taken | None:
        with self._at(waiting, instant_ns):
            return self._attempt(waiting)

    def _at(self, waiting: Waiting, instant_ns: int) -> AbstractContextManager[None]:
        """The quotas as at that instant, for a run from then on."""
        assert self._backfill is not None
        return self._quotas.at(instant_ns, self._backfill.timeline.until(waiting.seconds, instant_ns))

    def _attempt(self, waiting: Waiting) -> Taken | None:
        """Where the class would sit on the working copy as it is; nothing is taken."""
        self._work.quotas.firm = not waiting.preemptible
        mark = self._work.mark()
        try:
            if waiting.gang is not None:
                found = Muster(self._work, waiting.tenant, self._gangs[waiting.gang.id]).gather()
                return taken_by([seated for _, seated in found]) if found else None
            seated = self._work.seat(waiting.tenant, waiting.shape)
            return taken_by([seated]) if seated else None
        finally:
            self._work.rollback(mark)

    def _kept_from(self, waiting: Waiting) -> Hold | None:
        """The earliest of the holds that its run would meet on cards that it could use; its own is none of them."""
        if self._backfill is None:
            return None
        timeline, could = self._backfill.timeline, self._could_use(waiting)
        until, owner = timeline.until(self._seconds(waiting)), owner_of(waiting.tenant, waiting.reservation)
        met = [hold for hold in timeline.holds if hold.start_ns < until and could[hold.taken.rows].any()]
        own = self._own.get(waiting.key)
        others = [hold for hold in met if hold is not own and (not owner or hold.owner != owner)]
        return min(others, key=lambda hold: hold.start_ns, default=None)

    def _could_use(self, waiting: Waiting) -> Bools:
        could: Bools = np.logical_or.reduce([fit.possible for fit, _ in self._parts(waiting)])
        return could


def taken_by(seated: Sequence[Seated]) -> Taken:
    """All of these seats together."""
    milli = [np.full(len(one.rows), one.shape.held_milli, dtype=np.int64) for one in seated]
    return Taken(
        np.concatenate([one.rows for one in seated]),
        np.concatenate(milli),
        np.concatenate([one.sizes for one in seated]),
        np.array([one.node for one in seated], dtype=np.int64),
        np.array([one.shape.cpu_milli for one in seated], dtype=np.int64),
        np.array([one.shape.host_bytes for one in seated], dtype=np.int64),
        pieces=tuple(pair for one in seated if one.places for pair in zip(one.rows.tolist(), one.places, strict=True)),
    )
