"""Quotas over time: what returns as jobs end, and what promised starts keep.

A promised start is kept on a copy of the quota tree as it will be at that start, with the claim in
it. A claim that would run then must find room in that copy too; so no later claim of the same
tenant or cohort delays a promised start. Between starts jobs only end: room at a start stays until
the next. Where no tenant has a quota, nothing is computed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from gpupool.model.quota import GPU, MEMORY, Resource
from gpupool.scheduling.filtering.capacity_columns import SeatAmounts
from gpupool.scheduling.quota.promised_use import (
    PromisedUse,
)
from gpupool.scheduling.quota.reclaim import compute_job_use
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.quota.tree_node import Use
from gpupool.scheduling.quota.working_quotas import (
    WorkingQuotas,
)
from gpupool.scheduling.snapshot.claims import RunningJob
from gpupool.scheduling.snapshot.columns import Ints
from gpupool.scheduling.timeline.job_end_times import JobEndTimes, compute_expected_ends
from gpupool.scheduling.timeline.step_function import AT, COLUMNS
from gpupool.scheduling.timeline.timeline import NEVER


@dataclass(frozen=True, eq=False)
class _HeldUse:
    """So much is held until then."""

    end_ns: int
    tenant: str
    use: Use
    firm: bool
    rows: Ints
    job: str = ""


class _EndedJobs(Container[str]):
    """Jobs that have ended by an instant; computed on first use, which few plans need."""

    def __init__(self, find: Callable[[], Iterable[str]]) -> None:
        self._find = find

    def __contains__(self, job: object) -> bool:
        return job in self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self._find())


class QuotasOverTime:
    """The quotas of one plan at future instants. Does nothing where there is no limit."""

    def __init__(
        self,
        quotas: WorkingQuotas,
        running: Sequence[RunningJob],
        now_ns: int,
        ends: JobEndTimes | None = None,
    ) -> None:
        """Take the present quotas; `ends` are the running jobs' ends as columns where they are
        known.
        """
        self._quotas = quotas
        self._now_ns = now_ns
        self._running = running
        self._ends = (
            # Columns know compute and memory by tenant. Models and cells need each job's cards.
            None if ends is None or quotas.has_model_limits or quotas.cells.has_cells else ends
        )
        self._lines: Ints = np.empty((COLUMNS, 0), dtype=np.int64)
        #: Use that ends: of running jobs where they are no columns, and of what the plan places.
        self._held: list[_HeldUse] = []
        self._freed: dict[tuple[int, int], Mapping[tuple[str, bool], Use]] = {}
        if quotas.has_limits and self._ends is not None:
            self._lines = self._ends.list_tenant_steps(now_ns)
        elif quotas.has_limits:
            self._held = self._make_held_uses(running)

    def add_end(self, tenant: str, taken: SeatAmounts, end_ns: int, *, firm: bool) -> None:
        """Add the end of what the tenant has just taken."""
        if self._quotas.tree.resources:
            self._held.append(
                _HeldUse(end_ns, tenant, self._quotas.compute_use(taken), firm, taken.rows)
            )
            self._held.sort(key=_get_end)
            self._freed.clear()

    @contextmanager
    def at_instant(self, instant_ns: int, until_ns: int) -> Iterator[None]:
        """Show the quotas as of that instant, for a claim that starts then and runs until
        `until_ns`.
        """
        quotas = self._quotas
        if not quotas.tree.resources:
            yield
            return
        mark = quotas.mark()
        seen = quotas.window
        for held in self._list_ended(instant_ns) if quotas.cells.has_cells else ():
            quotas.cells.remove_seats(held.tenant, held.rows)
        for (tenant, firm), use in self._sum_returned(instant_ns).items():
            quotas.tree.remove_use(tenant, use, firm=firm)
        for later in quotas.promised_uses:
            if later.is_running_at(instant_ns):
                quotas.tree.add_use(later.tenant, later.use, firm=later.firm)
        quotas.window = instant_ns, until_ns
        try:
            yield
        finally:
            quotas.window = seen
            quotas.rollback(mark)

    def keep_start(
        self,
        tenant: str,
        taken: SeatAmounts,
        start_ns: int,
        end_ns: int,
        *,
        firm: bool,
        claim: str = "",
    ) -> None:
        """Keep the quota that these seats need at that start; `claim` is the name for
        `forget_start`.
        """
        if self._quotas.tree.resources:
            use = self._quotas.compute_use(taken)
            tree = self._copy_tree_at(start_ns, end_ns)
            self._add_promised_use(
                PromisedUse(
                    tree,
                    tenant,
                    use,
                    firm,
                    start_ns,
                    end_ns,
                    self._list_ended_jobs(start_ns),
                    claim=claim,
                )
            )

    def forget_start(self, claim: str) -> None:
        """Remove what was kept for the claim."""
        kept = list(self._quotas.promised_uses)
        if not any(one.claim == claim for one in kept):
            return
        self._quotas.promised_uses.clear()
        for one in kept:
            # Made anew: the trees of those behind it have the claim in them.
            if one.claim != claim:
                tree = self._copy_tree_at(one.start_ns, one.end_ns)
                gone = self._list_ended_jobs(one.start_ns)
                self._add_promised_use(replace(one, tree=tree, gone=gone))

    def collect_quota(
        self, tenant: str, taken: SeatAmounts, start_ns: int, *, firm: bool, inside: bool = False
    ) -> None:
        """Keep the quota that these seats need from now on, without a known start.

        What has ended by `start_ns` may be more than the quotas lack, because the claim also waits
        for cards. So quota is kept from the first instant at which the quotas have room, perhaps
        now. Otherwise a claim that may run only after that start would put the quota off again,
        with new jobs on the cards, for ever.

        Args:
            tenant: the claimant's tenant.
            taken: its seats.
            start_ns: an order, not a time (UNKNOWN_END).
            firm: whether the claim is non-preemptible.
            inside: keep it from the instant at which the tenant has room inside its guarantee.
        """
        if self._quotas.tree.resources:
            use = self._quotas.compute_use(taken)
            since = self._find_first_room(tenant, use, start_ns, inside=inside)
            tree = self._copy_tree_at(since, NEVER)
            self._add_promised_use(
                PromisedUse(
                    tree,
                    tenant,
                    use,
                    firm,
                    since,
                    NEVER,
                    self._list_ended_jobs(since),
                    collects=True,
                )
            )

    def _add_promised_use(self, later: PromisedUse) -> None:
        later.tree.add_use(later.tenant, later.use, firm=later.firm)
        # Starts promised before that fall into this run must find room beside it too.
        for one in self._quotas.promised_uses:
            if one.is_met_by(later.start_ns, later.end_ns):
                one.tree.add_use(later.tenant, later.use, firm=later.firm)
        self._quotas.promised_uses.append(later)

    def _copy_tree_at(self, start_ns: int, end_ns: int) -> QuotaTree:
        with self.at_instant(start_ns, end_ns):
            return self._quotas.tree.copy()

    def _list_ended_jobs(self, instant_ns: int) -> Container[str]:
        if self._ends is None:
            return frozenset(held.job for held in self._list_ended(instant_ns))
        return _EndedJobs(partial(self._find_ended_jobs, instant_ns))

    def _find_ended_jobs(self, instant_ns: int) -> Iterator[str]:
        for held in self._make_held_uses(self._running):
            if held.end_ns <= instant_ns:
                yield held.job

    def _find_first_room(self, tenant: str, use: Use, start_ns: int, *, inside: bool) -> int:
        known: list[int] = self._lines[AT, : self._count_returned(start_ns)].tolist()
        ends = sorted([*known, *(held.end_ns for held in self._list_ended(start_ns))])
        instants = [self._now_ns, *ends, start_ns]

        def has_room(n: int) -> bool:
            with self.at_instant(instants[n], NEVER):
                return self._quotas.has_room(tenant, use) and not (
                    inside and self._quotas.tree.is_borrowing(tenant, use)
                )

        return instants[bisect_left(range(len(instants) - 1), True, key=has_room)]

    def _list_ended(self, instant_ns: int) -> list[_HeldUse]:
        return self._held[: bisect_right(self._held, instant_ns, key=_get_end)]

    def _sum_returned(self, instant_ns: int) -> Mapping[tuple[str, bool], Use]:
        """By tenant and whether it is non-preemptible, what has returned by then."""
        over = self._list_ended(instant_ns)
        count = self._count_returned(instant_ns)
        # By how many have ended, not by the instant: many instants lie between two ends.
        if (count, len(over)) not in self._freed:
            found = self._sum_columns(count)
            for held in over:
                freed = found.setdefault((held.tenant, held.firm), {})
                for resource, amount in held.use.items():
                    freed[resource] = freed.get(resource, 0) + amount
            self._freed[count, len(over)] = found
        return self._freed[count, len(over)]

    def _count_returned(self, instant_ns: int) -> int:
        """How many lines have returned by then."""
        return int(np.searchsorted(self._lines[AT], instant_ns, "right"))

    def _sum_columns(self, count: int) -> dict[tuple[str, bool], dict[Resource, int]]:
        """By tenant and whether it is non-preemptible, the sum of the first `count` lines."""
        if not count or self._ends is None:
            return {}
        _, tenant, milli, sizes, firm = self._lines[:COLUMNS, :count]
        sums = np.zeros((2, 2 * len(self._ends.tenants)), dtype=np.int64)
        place = 2 * tenant + firm
        np.add.at(sums[0], place, milli)
        np.add.at(sums[1], place, sizes)
        found = dict[tuple[str, bool], dict[Resource, int]]()
        leaves = self._quotas.tree.leaves
        for name, number in self._ends.tenants.items():
            for is_firm in (False, True):
                gpu, memory = sums[:, 2 * number + is_firm].tolist()
                if (gpu or memory) and name in leaves:
                    found[name, is_firm] = {GPU: gpu, MEMORY: memory}
        return found

    def _make_held_uses(self, running: Sequence[RunningJob]) -> list[_HeldUse]:
        tree = self._quotas.tree
        cards = self._quotas.cards
        ends = compute_expected_ends(running, self._now_ns).tolist()
        held = list[_HeldUse]()
        for end, job in zip(ends, running, strict=True):
            if job.tenant in tree.leaves:
                use = compute_job_use(job, tree, cards)
                rows = np.array(job.rows, dtype=np.int64)
                held.append(_HeldUse(end, job.tenant, use, not job.preemptible, rows, job.job))
        return sorted(held, key=_get_end)


def _get_end(held: _HeldUse) -> int:
    return held.end_ns
