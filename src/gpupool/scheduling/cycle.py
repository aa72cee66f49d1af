"""One run of the scheduler: `plan = cycle(snapshot, now_ns)`.

Pure and deterministic: the same snapshot gives the same plan, whatever the order of its
mappings. The work is classes times cards once, then one node per placement; nothing is
proportional to the number of jobs.

Backfill without reservation: a class that finds no room does not hold back those behind it,
and a class that its tenant's maximum stops holds back nobody else. A small claim may thus pass a large
one again and again; keeping room for the large one needs to know when cards come back, which
is what reservations (the milestone after this) are for. Until then nothing idles for a promise.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpupool.model.allocation import Seat
from gpupool.model.claim import Rejection, Shape
from gpupool.model.quota import Amount
from gpupool.scheduling import policies, refusal
from gpupool.scheduling.fairness import Queue, borrows, budget
from gpupool.scheduling.feasible import Fit, cheapest_bytes, roomy_nodes
from gpupool.scheduling.free import Free
from gpupool.scheduling.policy import PlacementPolicy
from gpupool.scheduling.ranking import Rankings
from gpupool.scheduling.snapshot import (
    ClassKey,
    Effort,
    Ints,
    Placement,
    Plan,
    Snapshot,
    TenantView,
    Waiting,
)


def cycle(snapshot: Snapshot, now_ns: int, *, limit: int = 64) -> Plan:
    """Place at most `limit` claims and say of every class of which something still waits why it does.

    A plan that places something may leave more to place (its limit, or a class with more jobs than heads):
    apply it and call again until a plan places nothing. Rejections describe the pool as the plan
    leaves it; they carry no `nearest`, which `explain` adds when somebody asks.
    No rule of this first cut looks at the clock; `now_ns` is there for the rules that will.
    """
    return run(snapshot, limit)[0]


def run(snapshot: Snapshot, limit: int) -> tuple[Plan, Run]:
    """The plan and the working copy as it is after it, for `explain`."""
    work = Run(snapshot)
    placed = work.place_all(limit)
    rejections = work.rejections(len(placed))
    effort = Effort(work.free.rows, len(snapshot.waiting), work.attempts)
    return Plan(snapshot.generation, tuple(placed), rejections, effort), work


class Run:
    """What one cycle changes while it decides: free columns, tenants' holdings, judged shapes."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.free = Free(snapshot.cards)
        self.policy = policies.named(snapshot.policy)
        self.rater = self.policy.start(self.free, snapshot.expected, seed=0)
        self.tenants = dict(snapshot.tenants)
        self.attempts = 0
        self._rankings = Rankings(self.free, self.rater)
        self._taken = [0] * len(snapshot.waiting)

    def place_all(self, limit: int) -> list[Placement]:
        """Placements in the order of the queue; a class whose head finds no room is out of this cycle."""
        waiting, placed = self.snapshot.waiting, list[Placement]()
        queue = Queue(waiting, lambda i: self.borrows(waiting[i]))
        while len(placed) < limit and (turn := queue.take()) is not None:
            i, head = turn
            self.attempts += 1
            placement = self._place(waiting[i], waiting[i].heads[head])
            if placement is not None:
                placed.append(placement)
                self._taken[i] += 1
                queue.put_back(i, head + 1)
        return placed

    def fit(self, shape: Shape) -> Fit:
        """The shape judged against what is free now."""
        return self._rankings.of(shape).fit

    def least(self, shape: Shape) -> Amount:
        """The least that the claim will hold, over all its seats."""
        if shape.memory_bytes is not None:
            return Amount(shape.held_milli * shape.count, shape.memory_bytes * shape.count)
        return Amount(shape.held_milli * shape.count, self.fit(shape).least_bytes)

    def borrows(self, waiting: Waiting) -> bool:
        return borrows(self.tenants[waiting.tenant], self.least(waiting.shape))

    def _place(self, waiting: Waiting, job: str) -> Placement | None:
        tenant, shape = self.tenants[waiting.tenant], waiting.shape
        if not budget(tenant).covers(self.least(shape)):
            return None
        ranking = self._rankings.of(shape)
        nodes = roomy_nodes(ranking.fit, self.free, budget(tenant).size)
        node = ranking.best(nodes)
        if node is None:
            return None
        choice = int(np.count_nonzero(nodes))
        rows = _affordable(ranking.choose(node), ranking.fit, budget(tenant).size)
        self._take(waiting.tenant, ranking.fit, node, rows)
        return self._placement(job, ranking.fit, node, rows, choice)

    def _take(self, tenant: str, fit: Fit, node: int, rows: Ints) -> None:
        sizes = fit.need[rows]
        amount = Amount(fit.shape.held_milli * len(rows), int(sizes.sum()))
        view = self.tenants[tenant]
        self.tenants[tenant] = replace(view, held=view.held + amount)
        self.free.take(node, rows, fit.shape.held_milli, sizes, fit.shape.cpu_milli, fit.shape.host_bytes)
        self.rater.took(fit.shape, node)

    def _placement(self, job: str, fit: Fit, node: int, rows: Ints, choice: int) -> Placement:
        cards, milli = self.snapshot.cards, fit.shape.held_milli
        seats = tuple(Seat(cards.uuids[row], milli, int(fit.need[row])) for row in rows)
        generations = tuple(int(cards.generation[row]) for row in rows)
        name = cards.nodes[node]
        return Placement(job, name, seats, generations, _why(self.policy, name, choice, len(rows)))

    def rejections(self, placed: int) -> dict[ClassKey, Rejection]:
        """By class: why what still waits does, in the pool as the plan leaves it."""
        said: dict[Shape, Rejection | None] = {}
        left = [w for w, taken in zip(self.snapshot.waiting, self._taken, strict=True) if w.count > taken]
        return {waiting.key: self._rejection(waiting, placed, said) for waiting in left}

    def _rejection(self, waiting: Waiting, placed: int, said: dict[Shape, Rejection | None]) -> Rejection:
        view, least = self.tenants[waiting.tenant], self.least(waiting.shape)
        ever = refusal.beyond_quota(least, waiting.tenant, view)
        quota = ever or refusal.quota_in_use(least, waiting.tenant, view)
        if quota is not None:
            return quota
        if waiting.shape not in said:
            said[waiting.shape] = self._no_room(waiting.shape)
        return said[waiting.shape] or self._held_up(waiting, view, placed)

    def _no_room(self, shape: Shape) -> Rejection | None:
        fit = self.fit(shape)
        if fit.roomy.any():
            return None
        return refusal.never(fit, self.free) or refusal.not_now(fit, self.free)

    def _held_up(self, waiting: Waiting, view: TenantView, placed: int) -> Rejection:
        # Room there is; then either only cards that are too large for the quota's rest, or it is not its turn.
        fit = self.fit(waiting.shape)
        cheapest = cheapest_bytes(fit, self.free)[fit.roomy]
        amount = Amount(waiting.shape.held_milli * waiting.shape.count, int(cheapest.min()))
        return refusal.quota_in_use(amount, waiting.tenant, view) or refusal.behind(placed)


def _affordable(order: Ints, fit: Fit, room: int | None) -> Ints:
    """The first `count` rows of the order, passing over cards whose seat would break the quota's rest."""
    count = fit.shape.count
    if room is None or fit.shape.memory_bytes is not None:
        return order[:count]
    chosen: list[int] = []
    for place, row in enumerate(order):
        later = np.sort(fit.need[order[place + 1 :]])[: count - len(chosen) - 1]
        if len(chosen) < count and int(fit.need[row]) + int(later.sum()) <= room:
            chosen.append(int(row))
            room -= int(fit.need[row])
    return np.array(chosen, dtype=np.int64)


def _why(policy: PlacementPolicy, node: str, choice: int, seats: int) -> str:
    among = f"{policy.NODE} of {choice} nodes that fit" if choice > 1 else "only node that fits"
    where = f"on its {policy.CARD} card" if seats == 1 else f"on its {policy.CARD} {seats} cards"
    return f"{node} is the {among}; {where}"
