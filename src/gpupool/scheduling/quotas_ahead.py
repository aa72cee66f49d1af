"""Quotas over time: what comes back of them as jobs end, and what promised starts keep of them.

What somebody is promised is kept on a copy of the quota tree as it will be at that start, with the claim in it. Whoever
would run then has to find room in that copy too; so a promise is not put off by what its own tenant, or another one in
its cohort, starts meanwhile. Between starts, jobs only end: room that is there at a start is there until the next.
Where nobody has a quota, nothing is computed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpupool.model.quota import GPU, MEMORY, Resource
from gpupool.scheduling.columns import Taken
from gpupool.scheduling.ends import Ends, expected_ends
from gpupool.scheduling.quota_node import Use
from gpupool.scheduling.quota_tree import Tree
from gpupool.scheduling.quotas import Later, Quotas
from gpupool.scheduling.reclaim import used
from gpupool.scheduling.snapshot import Ints, Running
from gpupool.scheduling.steps import AT, COLUMNS
from gpupool.scheduling.timeline import NEVER


@dataclass(frozen=True, eq=False)
class _Held:
    """So much is held until then."""

    end_ns: int
    tenant: str
    use: Use
    firm: bool
    rows: Ints
    job: str = ""


class _Gone(Container[str]):
    """Running jobs that have ended by an instant; found when somebody asks, which few plans do."""

    def __init__(self, find: Callable[[], Iterable[str]]) -> None:
        self._find = find

    def __contains__(self, job: object) -> bool:
        return job in self._names

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self._find())


class QuotasAhead:
    """The quotas of one plan at instants to come. Does nothing where there is no limit."""

    def __init__(self, quotas: Quotas, running: Sequence[Running], now_ns: int, ends: Ends | None = None) -> None:
        """`ends` are those of the running jobs, where they are known as columns."""
        self._quotas, self._now_ns, self._running = quotas, now_ns, running
        self._ends = None if ends is None or quotas.by_model or quotas.cells.counted else ends
        self._lines: Ints = np.empty((COLUMNS, 0), dtype=np.int64)
        self._held: list[_Held] = []
        """What ends, of running jobs where they are no columns, and of what is placed."""
        self._freed: dict[tuple[int, int], Mapping[tuple[str, bool], Use]] = {}
        if quotas.limited and self._ends is not None:
            self._lines = self._ends.by_tenant(now_ns)
        elif quotas.limited:
            self._held = self._of_running(running)

    def ends(self, tenant: str, taken: Taken, end_ns: int, *, firm: bool) -> None:
        """What the tenant has just taken is given back then."""
        if self._quotas.tree.resources:
            self._held.append(_Held(end_ns, tenant, self._quotas.use_of(taken), firm, taken.rows))
            self._held.sort(key=_end)
            self._freed.clear()

    @contextmanager
    def at(self, instant_ns: int, until_ns: int) -> Iterator[None]:
        """For now, the quotas are as at that instant, for a claim that starts then and runs until so long."""
        quotas = self._quotas
        if not quotas.tree.resources:
            yield
            return
        mark, seen = quotas.mark(), quotas.window
        for held in self._over(instant_ns) if quotas.cells.counted else ():
            quotas.cells.give(held.tenant, held.rows)
        for (tenant, firm), use in self._back(instant_ns).items():
            quotas.tree.give(tenant, use, firm=firm)
        for later in quotas.later:
            if later.covers(instant_ns):
                quotas.tree.take(later.tenant, later.use, firm=later.firm)
        quotas.window = instant_ns, until_ns
        try:
            yield
        finally:
            quotas.window = seen
            quotas.rollback(mark)

    def keep(self, tenant: str, taken: Taken, start_ns: int, end_ns: int, *, firm: bool, claim: str = "") -> None:
        """From now on nobody may take what these seats need of any quota at that start; `claim` is for `forget`."""
        if self._quotas.tree.resources:
            use, tree = self._quotas.use_of(taken), self._tree_at(start_ns, end_ns)
            self._keep(Later(tree, tenant, use, firm, start_ns, end_ns, self._gone(start_ns), claim=claim))

    def forget(self, claim: str) -> None:
        """As if nothing had been kept for the claim, of what else is kept."""
        kept = list(self._quotas.later)
        if not any(one.claim == claim for one in kept):
            return
        self._quotas.later.clear()
        for one in kept:
            if one.claim != claim:  # made anew: the trees of those behind it have the claim in them
                tree, gone = self._tree_at(one.start_ns, one.end_ns), self._gone(one.start_ns)
                self._keep(replace(one, tree=tree, gone=gone))

    def collect(self, tenant: str, taken: Taken, start_ns: int, *, firm: bool, inside: bool = False) -> None:
        """Nobody may use from now on what these seats need of any quota; nobody knows when `start_ns` is.

        What has ended by then may be more than the quotas lack: cards are waited for too. So it is kept from the first
        instant at which the quotas have room, perhaps now. Else whoever may run beside it only after that start would
        put the quota off again, and with new jobs in the way of the cards for ever. `inside`: at which the tenant has
        room for it inside what it is guaranteed.
        """
        if self._quotas.tree.resources:
            use = self._quotas.use_of(taken)
            since = self._first_room(tenant, use, start_ns, inside=inside)
            tree = self._tree_at(since, NEVER)
            self._keep(Later(tree, tenant, use, firm, since, NEVER, self._gone(since), collects=True))

    def _keep(self, later: Later) -> None:
        met = [one.tree for one in self._quotas.later if one.met(later.start_ns, later.end_ns)]
        for tree in (later.tree, *met):
            tree.take(later.tenant, later.use, firm=later.firm)
        self._quotas.later.append(later)

    def _tree_at(self, start_ns: int, end_ns: int) -> Tree:
        with self.at(start_ns, end_ns):
            return self._quotas.tree.copy()

    def _gone(self, instant_ns: int) -> Container[str]:
        if self._ends is None:
            return frozenset(held.job for held in self._over(instant_ns))
        return _Gone(lambda: (held.job for held in self._of_running(self._running) if held.end_ns <= instant_ns))

    def _first_room(self, tenant: str, use: Use, start_ns: int, *, inside: bool) -> int:
        known: list[int] = self._lines[AT, : self._count(start_ns)].tolist()
        ends = sorted([*known, *(held.end_ns for held in self._over(start_ns))])
        instants = [self._now_ns, *ends, start_ns]

        def has_room(n: int) -> bool:
            with self.at(instants[n], NEVER):
                return self._quotas.covers(tenant, use) and not (inside and self._quotas.tree.borrows(tenant, use))

        return instants[bisect_left(range(len(instants) - 1), True, key=has_room)]

    def _over(self, instant_ns: int) -> list[_Held]:
        return self._held[: bisect_right(self._held, instant_ns, key=_end)]

    def _back(self, instant_ns: int) -> Mapping[tuple[str, bool], Use]:
        """By tenant, and whether it is firm, what has come back by then."""
        over, count = self._over(instant_ns), self._count(instant_ns)
        if (count, len(over)) not in self._freed:
            found = self._of_columns(count)
            for held in over:
                freed = found.setdefault((held.tenant, held.firm), {})
                for resource, amount in held.use.items():
                    freed[resource] = freed.get(resource, 0) + amount
            self._freed[count, len(over)] = found
        return self._freed[count, len(over)]

    def _count(self, instant_ns: int) -> int:
        """How many of the lines have come back by then."""
        return int(np.searchsorted(self._lines[AT], instant_ns, "right"))

    def _of_columns(self, count: int) -> dict[tuple[str, bool], dict[Resource, int]]:
        """By tenant, and whether it is firm, the first so many lines added up."""
        if not count or self._ends is None:
            return {}
        _, tenant, milli, sizes, firm = self._lines[:COLUMNS, :count]
        sums = np.zeros((2, 2 * len(self._ends.tenants)), dtype=np.int64)
        place = 2 * tenant + firm
        np.add.at(sums[0], place, milli)
        np.add.at(sums[1], place, sizes)
        found, leaves = dict[tuple[str, bool], dict[Resource, int]](), self._quotas.tree.leaves
        for name, number in self._ends.tenants.items():
            for is_firm in (False, True):
                gpu, memory = sums[:, 2 * number + is_firm].tolist()
                if (gpu or memory) and name in leaves:
                    found[name, is_firm] = {GPU: gpu, MEMORY: memory}
        return found

    def _of_running(self, running: Sequence[Running]) -> list[_Held]:
        tree, cards = self._quotas.tree, self._quotas.cards
        ends = expected_ends(running, self._now_ns).tolist()
        known = [(end, job) for end, job in zip(ends, running, strict=True) if job.tenant in tree.leaves]
        held = [
            _Held(
                end,
                job.tenant,
                used(job, tree, cards),
                not job.preemptible,
                np.array(job.rows, dtype=np.int64),
                job.job,
            )
            for end, job in known
        ]
        return sorted(held, key=_end)


def _end(held: _Held) -> int:
    return held.end_ns
