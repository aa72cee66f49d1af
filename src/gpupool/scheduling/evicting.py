"""The evictions of one cycle: who asks for them, what they may cost, and the seats kept for whom they are made.

A claimant's seats are kept from the moment its victims are told to leave until it sits on them: cycle by cycle it finds
them again among what is free and what `Running.leaving_for` it gives back, before anybody of lower rank has a turn.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from gpupool.scheduling.gang import Missing, least_amount
from gpupool.scheduling.preemption import Claimant, Preemption, Preemptor, evictions
from gpupool.scheduling.snapshot import Bools, ClassKey, Eviction, Start, Waiting
from gpupool.scheduling.victims import SECOND, Budgets, PreemptionRules, Victim, of_lower_priority, together
from gpupool.scheduling.work import Work


class Evicting:
    """`make_room` for those who found none, in the order of the queue."""

    def __init__(
        self, work: Work, rules: PreemptionRules, now_ns: int, held: Callable[[], Bools | None] = lambda: None
    ) -> None:
        """`held` tells which cards are promised to somebody: who sits there leaves for nobody else."""
        self.evictions: list[Eviction] = []
        self.starts: dict[ClassKey, Start] = {}
        self._work, self._rules, self._now_ns = work, rules, now_ns
        self._held, self._budgets = held, Budgets(rules)
        self._preemptor = Preemptor(work, self._budgets)
        self._victims: list[Victim] | None = None
        self._vain: set[Hashable] = set()

    def make_room(self, waiting: Waiting, job: str, asked: Missing | None = None) -> bool:
        """Whether its seats are free once those leave who are told to, now or before; they are kept for it then."""
        if not self._rules.enabled or not self._work.snapshot.running or not self._may(waiting, asked):
            return False
        claimant = Claimant(waiting, job, asked)
        candidates, vain = self._candidates(waiting), self._sort(waiting, asked)
        comes = any(one.leaving_for == job for one in self._work.snapshot.running)
        if not comes and (not candidates or vain in self._vain):
            return False
        found = self._preemptor.find(claimant, candidates)
        if found is None:
            self._vain.add(vain)
            return False
        self._note(claimant, found)
        return True

    def _may(self, waiting: Waiting, asked: Missing | None) -> bool:
        """A tenant's own quota is no reason to evict, and nobody leaves for members beyond a gang's minimum."""
        if asked is not None and not asked.needed:
            return False
        least = self._work.least(waiting.shape) if asked is None else least_amount(self._work, asked)
        return self._work.covers(waiting.tenant, waiting.shape, least)

    def _candidates(self, waiting: Waiting) -> Sequence[Victim]:
        if self._victims is None:
            self._victims = together(self._work.snapshot.running, self._now_ns)
        found, held = of_lower_priority(self._victims, waiting.priority, self._rules, self._now_ns), self._held()
        return found if held is None else [victim for victim in found if not held[victim.rows].any()]

    def _sort(self, waiting: Waiting, asked: Missing | None) -> Hashable:
        """Equal claims of one rank would look in vain for the same victims."""
        what = waiting.shape if asked is None else asked.sort
        return waiting.priority, waiting.tenant, what

    def _note(self, claimant: Claimant, found: Preemption) -> None:
        gone = set(map(id, found.victims))
        self._victims = [victim for victim in self._victims or () if id(victim) not in gone]
        self._budgets.use(found.victims)
        self.evictions += evictions(found, claimant)
        self._work.hold(found.seats)
        rows = tuple(row for seated in found.seats for row in seated.rows.tolist())
        start = Start(self._now_ns + self._rules.grace_s * SECOND, rows, reserved=True)
        self.starts.setdefault(claimant.waiting.key, start)
