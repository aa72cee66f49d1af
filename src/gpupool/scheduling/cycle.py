"""One run of the scheduler: `plan = cycle(snapshot, now_ns)`.

Pure and deterministic: the same snapshot gives the same plan, whatever the order of its mappings. It is planned on a
board, a working copy that may live on between cycles and is as it was when the cycle returns; so the work is what has
changed since, then one node per placement, and nothing is proportional to the number of jobs.

A class that finds no room does not hold back those behind it, and a class that its tenant's maximum stops holds back
nobody else.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from gpupool.model.claim import Rejection
from gpupool.model.quota import Amount
from gpupool.scheduling.ahead import Ahead
from gpupool.scheduling.board import Board
from gpupool.scheduling.evicting import Evicting
from gpupool.scheduling.fairness import NOT_OWED, Standing
from gpupool.scheduling.floors import Floors
from gpupool.scheduling.gang import Gangs, Missing, Muster, least_amount, next_member
from gpupool.scheduling.owed import claim_of, owed_first
from gpupool.scheduling.promises import Promised, firm_starts, promised_claims
from gpupool.scheduling.rejections import After, Rejections
from gpupool.scheduling.sleepers import FEWEST, Asleep, Limits, Sleepers
from gpupool.scheduling.snapshot import ClassKey, Effort, Placement, Plan, Snapshot, Waiting
from gpupool.scheduling.taken_back import Ask
from gpupool.scheduling.turns import Queue
from gpupool.scheduling.verdicts import Verdicts
from gpupool.scheduling.victims import GENTLE, PreemptionRules
from gpupool.scheduling.work import Seated, Work, placement


def cycle(
    snapshot: Snapshot,
    now_ns: int,
    *,
    limit: int = 64,
    board: Board | None = None,
    rules: PreemptionRules = GENTLE,
    said: bool = True,
) -> Plan:
    """Place at most `limit` claims and say of every class of which something still waits why it does.

    A gang counts as its members and is not cut: the last one that is placed may go over the limit. A plan that places
    something may leave more to place (its limit, or a class with more jobs than heads): apply it and call again until a
    plan places nothing. Rejections describe the pool as the plan leaves it; they carry no `nearest`, which `explain`
    adds when somebody asks. `board` is what is remembered from one cycle to the next; without it the plan is the same.
    `rules` say who may be evicted; whoever is placed on seats that others leave is placed once they are gone.
    Without `said` nothing is found out about who waits and the rejections are empty: nobody would read them.
    """
    with planned(snapshot, now_ns, limit, board, rules, said=said, sleeps=True) as (plan, _):
        return plan


@contextmanager
def planned(
    snapshot: Snapshot,
    now_ns: int,
    limit: int = 64,
    board: Board | None = None,
    rules: PreemptionRules = GENTLE,
    *,
    said: bool = True,
    sleeps: bool = False,
) -> Iterator[tuple[Plan, Run]]:
    """The plan, and the run with the working copy as the plan leaves it; the board is rolled back at the end.

    With `sleeps`, classes that cannot have room are passed over (`sleepers`): the plan is the same, the run knows less.
    """
    at_jobs = board.roster.looked if board else 0
    board = Board(snapshot) if board is None else board.follow(snapshot)
    board.restart(snapshot)
    owed = tuple(dict.fromkeys((*snapshot.owed, *board.roster.awaited())))
    snapshot = owed_first(snapshot, owed)
    firm = firm_starts(snapshot)
    among = board.sleepers.promised_at(snapshot, firm) if firm else []
    promised = promised_claims(snapshot, [snapshot.waiting[i] for i in among])
    snapshot = owed_first(snapshot, promised, among)
    looked, mark = board.free.rows, board.mark()
    try:
        run = Run(snapshot, now_ns, board, rules, owed, promised, sleeps=sleeps)
        placed = run.place_all(limit)
        rejections = run.rejections(len(placed)) if said else {}
        effort = Effort(board.free.rows - looked, len(snapshot.waiting), run.attempts, board.roster.looked - at_jobs)
        starts = {**run.ahead.starts, **run.evicting.starts, **run.ahead.promised()}
        evictions = tuple(run.evicting.evictions)
        yield Plan(snapshot.generation, tuple(placed), rejections, effort, evictions, starts), run
    finally:
        board.rollback(mark)


class Run:
    """One plan in the making: whose turn it is, and what comes of it."""

    def __init__(
        self,
        snapshot: Snapshot,
        now_ns: int,
        board: Board,
        rules: PreemptionRules,
        owed: Iterable[str] = (),
        promised: Promised = MappingProxyType({}),
        *,
        sleeps: bool = False,
    ) -> None:
        self.snapshot, self.now_ns = snapshot, now_ns
        self.work = Work(snapshot, board)
        self.attempts = 0
        self._least: dict[str, tuple[Missing, Amount]] = {}
        """By gang, what it takes at least, and of which missing members that was asked."""
        self._vain: set[Hashable] = set()
        """Sorts of gangs that found no room: nothing comes free while a plan is made."""
        self._late: set[ClassKey] = set()
        """Classes that had the turn of a claim inside its guarantee, and cannot be promised a start inside of it."""
        self._owed = {claim: place for place, claim in enumerate(owed)}
        """Those of them who had no first turn yet, or sit after it."""
        self._promised = {claim: place - len(promised) for place, claim in enumerate(promised)}
        self.work.waits |= (
            {claim_of(one, n) for one in snapshot.waiting for n in range(len(one.heads))} if owed else set()
        )
        sleepers = board.sleepers if sleeps and self._may_sleep(rules) else None
        if sleepers is not None:
            sleepers.follow(snapshot.waiting)
        find = None if sleepers is None else sleepers.find_gang
        self.gangs = Gangs(snapshot.waiting, snapshot.cards.node, board.roster.of_gang, find)
        self.asleep = None if sleepers is None else self._fall_asleep(sleepers, promised)
        self._reclaims = rules.enabled and rules.reclaims
        self.floors = self.begin_floors()
        self.verdicts = Verdicts(self.work, self.gangs)
        for kept in snapshot.kept:  # before reservations choose their cards
            self.work.hold_for(kept)
        self.ahead = Ahead(self.work, self.gangs, now_ns, promised)
        self.evicting = Evicting(self.work, rules, now_ns, self.ahead.held, self._asks)

    def place_all(self, limit: int) -> list[Placement]:
        """Placements in the order of the queue; a class whose head finds no room is out of this cycle."""
        waiting, placed, queue = self.snapshot.waiting, list[Placement](), self.queue()
        while len(placed) < limit and (turn := queue.take()) is not None:
            i, head = turn
            if self.asleep is not None and self.asleep.is_over(i):
                self._call_next(queue, i)
                continue
            self.attempts += 1
            has_room = self._has_room(i)
            self.ahead.show(waiting[i], claim_of(waiting[i], head))
            found = self._place(waiting[i], head) if has_room else []
            placed += [self._placement(job, seated, waiting[i].key.gang) for job, seated in found]
            self.verdicts.placed(i, len(found))
            if (after := self._seen_to(waiting[i], head, [seated for _, seated in found])) is not None:
                queue.put_back(i, after)
            if self.asleep is not None:
                if found:
                    self.asleep.note_taken(self.ahead.lift)
                self._call_next(queue, i)
            if waiting[i].key in self.floors:
                stays = after is not None and not self.borrows(waiting[i])
                left = after is not None and after < len(waiting[i].heads)
                owed = left and self.owed(waiting[i], after or 0) != NOT_OWED
                if self.floors.had_turn(waiting[i].key, stays=stays, owed=owed):
                    queue.rank_again()
        self.ahead.lift()
        self.work.lift()
        return placed

    def rejections(self, placed: int) -> Mapping[ClassKey, Rejection]:
        """Why each class waits of which something is left; of those that slept once somebody asks."""
        if self.asleep is None:
            return self._told(placed, self.verdicts.left())
        told = self._told(placed, self.verdicts.left(self.asleep.to_judge()))
        return Rejections(self.verdicts.left, told, After(self.work, placed))

    def _told(self, placed: int, classes: Iterable[Waiting]) -> dict[ClassKey, Rejection]:
        return self.evicting.said(self.ahead.said(self.verdicts.all(placed, classes)))

    def _may_sleep(self, rules: PreemptionRules) -> bool:
        """Whether a class without room has none however the plan goes on, and nothing comes of its turn."""
        snapshot = self.snapshot
        if len(snapshot.waiting) < FEWEST or self.work.quotas.by_model or self.work.quotas.cells.counted or self._owed:
            return False
        kept = snapshot.kept or snapshot.reservations
        return not kept and not (rules.enabled and self.work.roster.anyone_leaves)

    def _fall_asleep(self, sleepers: Sleepers, promised: Promised) -> Asleep:
        limits = Limits(self.work.quotas, self.least) if self.work.quotas.limited else None
        return sleepers.of(self.snapshot, promised, limits)

    def _has_room(self, i: int) -> bool:
        """Whether the class of that number may have room; nothing is out of sight for the looking."""
        if self.asleep is None:
            return True
        if self.asleep.has_room(i):
            self.asleep.note_turn(i)
            return True
        return False

    def _call_next(self, queue: Queue, i: int) -> None:
        """The class has had its turn: another one of its lane comes to the queue."""
        assert self.asleep is not None
        behind = self.asleep.after(i, self.ahead.may_promise)
        if behind is not None:
            queue.put_back(behind, 0)

    def queue(self) -> Queue:
        """Everybody who waits, in the order of their turns now."""
        waiting = self.snapshot.waiting
        return Queue(
            waiting,
            lambda i: self.outranked(waiting[i]),
            lambda i: self.standing(waiting[i]),
            lambda i, head: self.place(waiting[i], head),
            lambda i, head: self.floor(waiting[i], head),
            None if self.asleep is None else self.asleep.in_queue(),
        )

    def owed(self, waiting: Waiting, head: int = 0) -> int:
        """The place of that head, or of the gang, among those for whom others were told to leave."""
        return self._owed.get(claim_of(waiting, head), NOT_OWED) if self._owed and waiting.heads else NOT_OWED

    def place(self, waiting: Waiting, head: int = 0) -> int:
        """Before all others (below 0) where its start is promised, else as `owed`."""
        promised = self._promised.get(claim_of(waiting, head)) if self._promised and waiting.heads else None
        return self.owed(waiting, head) if promised is None else promised

    def floor(self, waiting: Waiting, head: int = 0) -> int | None:
        """The priority that the claim's turn may not pass, as it borrows and others are inside their guarantee."""
        if not self.floors or not self.borrows(waiting):
            return None
        return self.floors.of(waiting.tenant, owed=self.owed(waiting, head) != NOT_OWED)

    def begin_floors(self) -> Floors:
        """With every class that is inside its guarantee now."""
        # Without limits nobody borrows, and where nothing is taken back priority alone decides who borrows.
        tree = self.work.quotas.tree
        if not self._reclaims or not tree.resources:
            return Floors()
        waiting = self.snapshot.waiting
        awake = waiting if self.asleep is None else [waiting[i] for i in self.asleep.restless()]
        inside = (one for one in awake if one.heads and not self.borrows(one))
        return Floors(inside, lambda one: self.owed(one) != NOT_OWED, tree.guarantors)

    def _seen_to(self, waiting: Waiting, head: int, found: list[Seated]) -> int | None:
        """The head of the class that has its turn next; None where the class is out."""
        gang, job = waiting.gang, claim_of(waiting, head)
        following = head + 1 if gang is None else None
        if found:
            self.work.waits.discard(job)
            self.ahead.placed(waiting, found)
            return following
        if self.evicting.make_room(waiting, job, None if gang is None else self.gangs[gang.id]):
            self.ahead.stands(job)
            return following
        if job in self._owed:  # what was left for it is gone: it waits its turn like others
            del self._owed[job]
            return head
        early = not self.outranked(waiting) and self.borrows(waiting)
        if self.ahead.found_none(waiting, job, inside=early):
            return None
        self._late.add(waiting.key)
        return head

    def _asks(self) -> Iterator[Ask]:
        """What waits for its start: of members that a running gang can do without nobody makes room for any."""
        for one in self.snapshot.waiting:
            if one.heads and (one.gang is None or self.gangs[one.gang.id].needed):
                yield one.tenant, one.shape, self.least(one)

    def would_fit(self, waiting: Waiting) -> bool:
        """Whether the class's next claim, or the gang's minimum, finds its seats; they are not taken."""
        mark, self.work.quotas.firm = self.work.mark(), not waiting.preemptible
        if waiting.gang is None:
            found = self.work.seat(waiting.tenant, waiting.shape) is not None
        else:
            found = bool(Muster(self.work, waiting.tenant, self.gangs[waiting.gang.id]).gather_least())
        self.work.rollback(mark)
        return found

    def least(self, waiting: Waiting) -> Amount:
        """The least that the class's next claim, or the gang, will hold; of a gang that runs, its next member."""
        if waiting.gang is None:
            return self.work.least(waiting.shape)
        gang = self.gangs[waiting.gang.id]
        known = self._least.get(waiting.gang.id)
        if known is None or known[0] is not gang:
            known = gang, least_amount(self.work, gang) if gang.needed else next_member(self.work, gang)
            self._least[waiting.gang.id] = known
        return known[1]

    def borrows(self, waiting: Waiting) -> bool:
        """Whether the next claim would go over what its tenant is guaranteed."""
        if not self.work.quotas.limited:
            return False
        return self.work.quotas.borrows(waiting.tenant, waiting.shape, self.least(waiting))

    def outranked(self, waiting: Waiting) -> bool:
        """Whether the next claim's turn comes after those inside what their tenants are guaranteed."""
        if not self.work.quotas.limited:
            return False
        late = bool(self._late) and waiting.key in self._late
        return late or self.work.quotas.outranked(waiting.tenant, waiting.shape, self.least(waiting))

    def standing(self, waiting: Waiting) -> Standing:
        """Where the class's tenant stands in the fair share."""
        return self.work.quotas.standing(waiting.tenant)

    def _place(self, waiting: Waiting, head: int) -> list[tuple[str, Seated]]:
        """The next head's seats, or those of a gang; empty where it finds none."""
        if waiting.gang is not None:
            return self._place_gang(waiting, self.gangs[waiting.gang.id])
        job, tenant = waiting.heads[head], waiting.tenant
        seated = self.work.seat_kept(tenant, job) or self.work.seat(tenant, waiting.shape)
        if seated is None and job in self._promised:
            with self.ahead.due(waiting, job) as due:
                seated = self.work.seat(tenant, waiting.shape) if due else None
        return [(job, seated)] if seated else []

    def _place_gang(self, waiting: Waiting, asked: Missing) -> list[tuple[str, Seated]]:
        if not self.work.covers(waiting.tenant, waiting.shape, self.least(waiting)):
            return []
        sort = waiting.tenant, waiting.seconds, waiting.reservation, asked.sort
        if sort in self._vain:
            return []
        found = self._muster(waiting, asked)
        if found:
            self.gangs[asked.gang.id] = asked.after(found)
        else:
            self._vain.add(sort)
        return found

    def _muster(self, waiting: Waiting, asked: Missing) -> list[tuple[str, Seated]]:
        muster = Muster(self.work, waiting.tenant, asked)
        if not self._others_are_owed(waiting):
            return muster.gather() or self._as_promised(waiting, asked)
        # What was left for others is not for members that the gang can do without: those come in the next plan.
        if not asked.needed:
            return []
        return muster.gather_least() or self._as_promised(waiting, asked)

    def _others_are_owed(self, waiting: Waiting) -> bool:
        """Whether seats were left for others that have none yet."""
        assert waiting.gang is not None
        return any(claim != waiting.gang.id and claim in self.work.waits for claim in self._owed)

    def _as_promised(self, waiting: Waiting, asked: Missing) -> list[tuple[str, Seated]]:
        """The seats that were kept for the gang, where looking everywhere did not find as many."""
        with self.ahead.due(waiting, asked.gang.id) as due:
            return Muster(self.work, waiting.tenant, asked).gather() if due else []

    def _placement(self, job: str, seated: Seated, gang: str = "") -> Placement:
        return placement(self.snapshot, self.work.free, self.work.board.rater, job, seated, gang)
