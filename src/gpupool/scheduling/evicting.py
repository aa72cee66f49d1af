"""The evictions of one cycle: who asks for them, what they may cost, and the seats kept for whom they are made.

A claimant's seats are kept from the moment its victims are told to leave until it sits on them: cycle by cycle it finds
them again among what is free and what `Running.leaving_for` it gives back, before anybody else of its priority has a
turn (`owed`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

import numpy as np

from gpupool.model.claim import Reason, Rejection
from gpupool.model.quota import Amount
from gpupool.scheduling import wording
from gpupool.scheduling.fair_share import Dues, dues
from gpupool.scheduling.feasible import FITS
from gpupool.scheduling.gang import Missing, least_amount
from gpupool.scheduling.preemption import Claimant, Preemption, Preemptor, evictions
from gpupool.scheduling.snapshot import Bools, ClassKey, Eviction, Running, Start, Waiting
from gpupool.scheduling.taken_back import Ask, has_quota_beside_collected, kept_inside
from gpupool.scheduling.victims import (
    HIGHEST,
    SECOND,
    Budgets,
    PreemptionRules,
    Victim,
    of_lower_priority,
    together,
    whole,
    without,
)
from gpupool.scheduling.work import Work

MOST_IN_VAIN = 16
"""After so many sorts of claims for which nothing was found, those behind them do not evict before they do."""

MOST_OWN = 8
"""So many of a tenant's own jobs are tried at most, one more each time, until the rest can be taken from others."""


_SEATS = attrgetter("rows"), attrgetter("sizes")


class Evicting:
    """`make_room` for those who found none, in the order of the queue."""

    def __init__(
        self,
        work: Work,
        rules: PreemptionRules,
        now_ns: int,
        held: Callable[[], Bools | None] = lambda: None,
        asks: Callable[[], Iterable[Ask]] = tuple,
    ) -> None:
        """`held` tells which cards are promised to somebody: who sits there leaves for nobody else.

        `asks` tells what waits, of a gang its minimum.
        """
        self.evictions: list[Eviction] = []
        self.starts: dict[ClassKey, Start] = {}
        self.rules = rules
        self._work, self._now_ns = work, now_ns
        self._held, self._budgets = held, Budgets(rules)
        self._asks = asks
        self._kept: tuple[int, frozenset[str]] | None = None
        """Jobs in whose place a claim would be inside its guarantee, and after how many changes of the quotas."""
        self._preemptor = Preemptor(work, self._budgets)
        self._victims: list[Victim] | None = None
        self._may_leave: tuple[bytes, list[Victim]] | None = None
        """Which cards were promised when it was last looked who does not sit there, and who that is."""
        self._lower: dict[int, list[Victim]] = {}
        """Of those, who may leave for a priority."""
        self._dues: Dues | None = None
        self._vain: set[Hashable] = set()
        self._vain_in_quota: dict[str, set[Hashable]] = {}
        """By tenant, sorts that lack quota and find nobody; they hold back no other tenant."""

    def make_room(self, waiting: Waiting, job: str, asked: Missing | None = None) -> bool:
        """Whether its seats are free once those leave who are told to, now or before; they are kept for it then."""
        if not self.rules.enabled or not self._work.roster.anyone_leaves or not self._may(waiting, asked):
            return False
        claimant, vain = Claimant(waiting, job, asked), self._sort(waiting, asked)
        comes = self._work.roster.awaits(job)
        if (full := self._full(waiting, asked)) is not None:
            return self._make_quota(claimant, full)
        if not comes and (vain in self._vain or len(self._vain) >= MOST_IN_VAIN):
            return False
        for candidates in self._rounds(waiting, asked):
            worth = comes or self._budgets.could_free(candidates, self._short(waiting, asked))
            if worth and (found := self._found(claimant, candidates)) and self._stands(claimant, found):
                self._note(claimant, found)
                return True
        self._vain.add(vain)
        return False

    def _stands(self, claimant: Claimant, found: Preemption) -> bool:
        """Whether the claimant will have the seats that are left for it.

        A claim before it that collects quota may come sooner once these have left, and takes quota first then. What a
        tenant is guaranteed no other collects.
        """
        waiting, least = claimant.waiting, self._least(claimant.waiting, claimant.asked)
        quotas, gone = self._work.quotas, [job for one in found.victims for job in one.jobs]
        if not gone or not quotas.borrows(waiting.tenant, waiting.shape, least):
            return True
        return has_quota_beside_collected(quotas, waiting.tenant, waiting.shape, least, gone)

    def _make_quota(self, claimant: Claimant, full: frozenset[str]) -> bool:
        """The same for one that finds no room in a quota: what these tenants hold there has to become less."""
        waiting, asked = claimant.waiting, claimant.asked
        vain = self._sort(waiting, asked)
        in_quota = self._vain_in_quota.setdefault(waiting.tenant, set())
        if vain in self._vain or vain in in_quota or len(in_quota) >= MOST_IN_VAIN:
            return False
        inside = not self._work.quotas.borrows(waiting.tenant, waiting.shape, self._least(waiting, asked))
        back = self._back(waiting, asked) if inside and self.rules.reclaims else []
        below = [one for one in self._below(waiting, asked) if one.tenant in full]
        below.sort(key=lambda victim: (victim.priority, victim.key))
        others = full - {waiting.tenant}
        over = [one for one in self._overdrawn(waiting, asked) if one.tenant in others] if others else []
        for candidates in (back, below, over):
            found = self._preemptor.take_back(claimant, candidates) if candidates else None
            if found is not None and self._stands(claimant, found):
                self._note(claimant, found)
                return True
        if others and (found := self._own_first(claimant, below)) and self._stands(claimant, found):
            self._note(claimant, found)
            return True
        (self._vain if back else in_quota).add(vain)
        return False

    def _own_first(self, claimant: Claimant, below: Sequence[Victim]) -> Preemption | None:
        """The fewest of its own tenant's work, in order, without which it may take back from others, and those."""
        waiting, asked = claimant.waiting, claimant.asked
        own = [one for one in below if one.tenant == waiting.tenant][:MOST_OWN]
        for count in range(1, len(own) + 1):
            first = whole(own[:count])
            mark = self._work.mark()
            for one in first:
                self._work.release(one.jobs)
            others = (self._back(waiting, asked), self._overdrawn(waiting, asked))
            self._work.rollback(mark)
            for candidates in others:
                if candidates and (found := self._preemptor.take_back(claimant, candidates, first)):
                    return found
        return None

    def _found(self, claimant: Claimant, candidates: Sequence[Victim]) -> Preemption | None:
        """Victims for cards; where the pool keeps so much that quota lacks beside free cards, the cheapest of all."""
        found = self._preemptor.find(claimant, candidates)
        waiting, asked = claimant.waiting, claimant.asked
        if found is not None or self._work.covers(waiting.tenant, waiting.shape, self._least(waiting, asked)):
            return found
        return self._preemptor.take_back(claimant, sorted(candidates, key=lambda victim: victim.key))

    def open_at(self, priority: int) -> tuple[list[Running], int]:
        """All that may ever leave for a claim of that priority, and when the last of it is past its protected start."""
        protected = self.rules.protected_s * SECOND if self.rules.enabled else 0
        every = together(self._work.snapshot.running, self._now_ns) if protected else []
        found = of_lower_priority(every, priority, self.rules, self._now_ns + protected)
        jobs = [job for victim in found for job in victim.jobs]
        return jobs, max((job.started_ns + protected for job in jobs), default=0)

    def said(self, rejections: Mapping[ClassKey, Rejection]) -> dict[ClassKey, Rejection]:
        """With what those wait for whose seats are being left."""
        told = dict(rejections)
        for key, start in self.starts.items():
            if key in told:
                sentence = wording.being_left(len(start.rows), self.rules.grace_s)
                told[key] = replace(told[key], sentence=sentence, dominant=Reason.RESERVED)
        return told

    def _may(self, waiting: Waiting, asked: Missing | None) -> bool:
        """Nobody leaves for members beyond a gang's minimum."""
        return asked is None or bool(asked.needed)

    def _full(self, waiting: Waiting, asked: Missing | None) -> frozenset[str] | None:
        """The tenants whose quota, or whose cohort's, has no room for it; None where it is cards alone that it lacks.

        A tenant at its own maximum makes room with its own work of lower priority; at a cohort's, with that of its
        siblings, and inside its guarantee with what they borrowed.
        """
        return self._work.quotas.full(waiting.tenant, waiting.shape, self._least(waiting, asked))

    def _short(self, waiting: Waiting, asked: Missing | None) -> int:
        """The compute that has to come back at least, in thousandths of a card."""
        shapes = [waiting.shape] if asked is None else [role.shape for role in asked.roles.values()]
        usable = np.logical_or.reduce([self._work.fit(shape).fixed == FITS for shape in shapes])
        free = int(np.maximum(self._work.free.milli[usable], 0).sum())
        return self._least(waiting, asked).gpu_milli - free

    def _least(self, waiting: Waiting, asked: Missing | None) -> Amount:
        return self._work.least(waiting.shape) if asked is None else least_amount(self._work, asked)

    def _rounds(self, waiting: Waiting, asked: Missing | None) -> Iterator[Sequence[Victim]]:
        """Who may leave for it: those of lower priority; then also borrowers, twice as many each time."""
        lower = self._below(waiting, asked)
        yield lower
        for more in (self._back, self._overdrawn):
            found = more(waiting, asked)
            for count in _doubled(len(found)):
                yield list({id(victim): victim for victim in (*lower, *found[:count])}.values())

    def _below(self, waiting: Waiting, asked: Missing | None) -> Sequence[Victim]:
        """Who may leave for its priority.

        None that is inside what its own tenant is guaranteed, though of lower priority: it would take back at once.
        Where one node guarantees both what they hold, the seats only change hands.
        """
        quotas, running = self._work.quotas, self._work.snapshot.running
        every = self._all()
        lower = self._lower.get(waiting.priority)
        if lower is None:
            lower = of_lower_priority(every, waiting.priority, self.rules, self._now_ns)
            self._lower[waiting.priority] = lower
        if lower and quotas.limited:
            borrowed = quotas.borrowed(running)
            beside = {name for name in quotas.tree.leaves if quotas.tree.guaranteed_alike(waiting.tenant, name)}
            may = borrowed - self._kept_inside() if borrowed else borrowed
            lower = [one for one in lower if one.tenant in beside or all(job.job in may for job in one.jobs)]
        return lower

    def _kept_inside(self) -> frozenset[str]:
        """Whoever evicted one of these would have to give the seats back to another claim at once."""
        quotas = self._work.quotas
        if self._kept is None or self._kept[0] != quotas.tree.changes:
            found = kept_inside(quotas, self._work.snapshot.running, self._asks())
            self._kept = quotas.tree.changes, found
        return self._kept[1]

    def _back(self, waiting: Waiting, asked: Missing | None) -> list[Victim]:
        """Who runs on quota that the claimant's tenant may take back, in order."""
        if not (self._work.quotas.tree.resources and self.rules.reclaims):
            return []
        quotas, running = self._work.quotas, self._work.snapshot.running
        lots = quotas.reclaimable(waiting.tenant, waiting.shape, self._least(waiting, asked), running)
        by_job = _by_job(self._all())
        return [by_job[lot.jobs[0].job] for lot in lots if lot.jobs[0].job in by_job]

    def _overdrawn(self, waiting: Waiting, asked: Missing | None) -> list[Victim]:
        """Who runs beyond what its tenant is due, for a claim within its own tenant's that may be taken back itself."""
        if not (self.rules.fair and self.rules.reclaims and waiting.preemptible):
            return []
        past_start = {job.job: one for one in self._past_start() for job in one.jobs}
        if not any(one.tenant != waiting.tenant for one in past_start.values()):
            return []
        if self._dues is None:
            self._dues = dues(self._work.quotas.tree, wanted(self._work))
        quotas, running = self._work.quotas, self._work.snapshot.running
        least = self._least(waiting, asked)
        found = quotas.overdrawn(waiting.tenant, waiting.shape, least, running, self._dues, waiting.priority)
        kept = self._kept_inside() if found else frozenset[str]()
        alike = {lot.tenant for lot in found if quotas.tree.guaranteed_alike(waiting.tenant, lot.tenant)}
        first = ((lot.jobs[0].job, lot.tenant in alike) for lot in found)
        return [past_start[name] for name, own in first if name in past_start and (own or name not in kept)]

    def _past_start(self) -> list[Victim]:
        """Who may be interrupted at all, and is past its protected start."""
        return of_lower_priority(self._all(), HIGHEST, self.rules, self._now_ns)

    def _all(self) -> list[Victim]:
        """Everybody who is not told to leave, and does not sit where somebody is promised a seat."""
        if self._victims is None:
            self._victims = together(self._work.snapshot.running, self._now_ns)
        held = self._held()
        promised = b"" if held is None else held.tobytes()
        if self._may_leave is None or self._may_leave[0] != promised:
            stay = set() if held is None else set(np.flatnonzero(held).tolist())
            self._may_leave = promised, [one for one in self._victims if stay.isdisjoint(one.rows)]
            self._lower = {}
        return self._may_leave[1]

    def _sort(self, waiting: Waiting, asked: Missing | None) -> Hashable:
        """Equal claims of one rank would look in vain for the same victims."""
        what = waiting.shape if asked is None else asked.sort
        return waiting.priority, waiting.tenant, what

    def _note(self, claimant: Claimant, found: Preemption) -> None:
        waiting, asked = claimant.waiting, claimant.asked
        quotas, least = self._work.quotas, self._least(waiting, asked)
        guaranteed = bool(quotas.tree.resources) and not quotas.borrows(waiting.tenant, waiting.shape, least)
        self._victims = without(self._victims or (), found.victims)
        self._may_leave = None
        self._budgets.use(found.victims)
        self.evictions += evictions(found, claimant, guaranteed=guaranteed)
        leaving = [job for victim in found.victims for job in victim.jobs]
        leaving += self._work.roster.leaving_for(claimant.job)
        self._work.trade(waiting.tenant, found.seats, leaving)
        rows, sizes = (tuple(n for seated in found.seats for n in column(seated).tolist()) for column in _SEATS)
        milli = tuple(seated.shape.held_milli for seated in found.seats for _ in seated.rows)
        start = Start(self._gone_by(claimant), rows, True, milli, sizes, claim=claimant.job)
        self.starts.setdefault(waiting.key, start)

    def _gone_by(self, claimant: Claimant) -> int:
        """When the last of those who leave for it has left, told now or before.

        Who was told before has been given its time then: the start that was promised then stands, and does not move on
        with each look.
        """
        latest = self._now_ns + self.rules.grace_s * SECOND
        before = self._work.roster.leaving_for(claimant.job)
        if not before or any(one.beneficiary == claimant.job for one in self.evictions):
            return latest
        promised = self._work.snapshot.promised.get(claimant.waiting.key)
        if promised is not None and promised.reserved and self._now_ns < promised.at_ns < latest:
            latest = promised.at_ns
        ends = [latest if job.ends_ns is None else min(latest, job.ends_ns) for job in before]
        return max(self._now_ns + SECOND, *ends)


def wanted(work: Work) -> dict[str, Amount]:
    """By tenant, what it holds and waits for."""
    found = {name: view.held for name, view in work.snapshot.tenants.items()}
    for one in work.snapshot.waiting:
        roles = one.gang.role_of() if one.gang else {}
        shapes = Counter(roles[job].shape for job in one.heads) if roles else {one.shape: one.count}
        for shape, count in shapes.items():
            least = work.least(shape)
            found[one.tenant] += Amount(least.gpu_milli * count, least.memory_bytes * count)
    return found


def _by_job(victims: Iterable[Victim]) -> Mapping[str, Victim]:
    return {job.job: victim for victim in victims for job in victim.jobs}


def _doubled(most: int) -> Iterator[int]:
    """1, 2, 4 and so on, at last all."""
    count = 1
    while count < most:
        yield count
        count *= 2
    if most:
        yield most
