"""Why what still waits does, class by class, in the pool as the plan leaves it.

Finds out which kind of "not now" it is; `refusal` has the counts and the words. Equal shapes and equal gangs are judged
once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from gpupool.model.claim import Rejection, Shape
from gpupool.model.gang import Group
from gpupool.model.quota import Amount
from gpupool.scheduling import refusal, refusal_gang, refusal_near
from gpupool.scheduling.feasible import cheapest_bytes
from gpupool.scheduling.gang import Missing, Path, least_amount, room_by_role
from gpupool.scheduling.snapshot import ClassKey, Waiting
from gpupool.scheduling.work import Work

GangKey = tuple[Group, tuple[tuple[Path, int], ...]]


class Verdicts:
    """What to say of each class; `placed` notes what no longer waits."""

    def __init__(self, work: Work, gangs: Mapping[str, Missing]) -> None:
        self._work, self._gangs = work, gangs
        self._taken = [0] * len(work.snapshot.waiting)
        self._tried: set[ClassKey] = set()
        self._said: dict[Shape | GangKey, Rejection | None] = {}

    def placed(self, i: int, count: int) -> None:
        """So many more jobs of the class number i have their seats; of a gang, and if 0, there is no room for more."""
        waiting = self._work.snapshot.waiting[i]
        self._taken[i] += count
        if not count or waiting.gang is not None:
            self._tried.add(waiting.key)

    def left(self, among: Iterable[int] | None = None) -> list[Waiting]:
        """Every class of which something still waits; of those with these numbers."""
        waiting, taken = self._work.snapshot.waiting, self._taken
        each = range(len(waiting)) if among is None else among
        return [waiting[i] for i in each if waiting[i].count > taken[i]]

    def all(self, placed: int, classes: Iterable[Waiting]) -> dict[ClassKey, Rejection]:
        """By class."""
        return {one.key: self.of(one, placed) for one in classes}

    def of(self, waiting: Waiting, placed: int) -> Rejection:
        """`placed`: how many claims the plan places, for the one that comes in the next round."""
        self._work.quotas.firm = not waiting.preemptible
        quotas, asked = self._work.quotas, (waiting.tenant, waiting.shape, self._least(waiting))
        said = quotas.rejection(*asked)
        if said is None or (said.fits_ever and not quotas.lacking(*asked)):  # what the pool as a whole lacks is cards
            said = self._no_room(waiting) or said
        return said or self._held_up(waiting, placed)

    def _least(self, waiting: Waiting) -> Amount:
        if waiting.gang is None:
            return self._work.least(waiting.shape)
        return least_amount(self._work, self._gangs[waiting.gang.id])

    def _no_room(self, waiting: Waiting) -> Rejection | None:
        if waiting.gang is None:
            return self._one(waiting.tenant, waiting.shape)
        asked = self._gangs[waiting.gang.id]
        if not asked.needed:
            return self._rest(asked, tried=waiting.key in self._tried)
        if short := self._remembered((asked.gang.root, tuple(asked.least.items())), lambda: self._gang(asked)):
            return short
        return refusal_gang.apart(asked.gang, asked.needed) if waiting.key in self._tried else None

    def _one(self, tenant: str, shape: Shape) -> Rejection | None:
        quotas = self._work.quotas
        kept = quotas.admitted(tenant, shape, self._work.least(shape)) or shape
        said = self._remembered(kept, lambda: self._shape(kept))
        if said is None:
            closed = quotas.closed(tenant)
            return None if closed is None else refusal.kept_whole(self._work.fit(kept), self._work.free, closed)
        return said if kept == shape else replace(said, sentence=f"{said.sentence}; {quotas.models_out(tenant, shape)}")

    def _remembered(self, key: Shape | GangKey, judge: Callable[[], Rejection | None]) -> Rejection | None:
        if key not in self._said:
            self._said[key] = judge()
        return self._said[key]

    def _shape(self, shape: Shape) -> Rejection | None:
        fit = self._work.fit(shape)
        if fit.roomy.any():
            together = self._work.together(fit, fit.roomy).any()
            return None if together else refusal_near.not_now(fit, self._work.free)
        return refusal.never(fit, self._work.free) or refusal.not_now(fit, self._work.free)

    def _gang(self, asked: Missing) -> Rejection | None:
        """The first role that finds too few seats."""
        room, free = room_by_role(self._work, asked), self._work.free
        for path, role in asked.roles.items():
            if (least := asked.least[path]) > room[path]:
                fit, within = self._work.fit(role.shape), asked.gang.root.within
                return refusal.never(fit, free) or refusal_gang.too_few(within, role, room[path], least, fit, free)
        return None

    def _rest(self, asked: Missing, *, tried: bool) -> Rejection | None:
        """Of a gang that has all it needs, the first member that waits speaks for the others."""
        path = next(path for path, jobs in asked.waiting.items() if jobs)
        said = self._remembered(asked.roles[path].shape, lambda: self._shape(asked.roles[path].shape))
        return said or (refusal_gang.no_room_beside(asked.gang.root.within) if tried else None)

    def _held_up(self, waiting: Waiting, placed: int) -> Rejection:
        # Room there is; then either only cards that are too large for the quota's rest, or it is not its turn.
        if waiting.gang is not None:
            return refusal.behind(placed)
        fit = self._work.fit(waiting.shape)
        cheapest = cheapest_bytes(fit, self._work.free)[fit.roomy]
        amount = Amount(waiting.shape.held_milli * waiting.shape.count, int(cheapest.min()))
        return self._work.quotas.in_use(waiting.tenant, waiting.shape, amount) or refusal.behind(placed)
