"""Writing the ledgers of one round: what was planned, and what became of the pods that stand there.

Each is written once a round at most. What an answer says is known from then on, unless the watch has told more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from gpupool.kubernetes import bookkeeping, gangs, ledger, members, placing, restoring, returning
from gpupool.kubernetes.api import KubeApi
from gpupool.kubernetes.counts import Counts
from gpupool.kubernetes.holding import Holding
from gpupool.kubernetes.journal import Journal
from gpupool.kubernetes.objects import Entry, GpuNode, Order
from gpupool.kubernetes.pods import Pod
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.removing import Removing
from gpupool.kubernetes.together import together
from gpupool.kubernetes.withdrawing import Withdrawing
from gpupool.scheduling.snapshot import Plan


class _Fate(NamedTuple):
    """What is to become of entries in a round, as `bookkeeping.settled` has it."""

    claimed: Mapping[str, Pod]
    given_up: frozenset[str]
    leaving: Mapping[str, Order]
    returning: frozenset[str]
    stay: frozenset[str]


class Writing:
    """One leader's. With a journal, what ends is kept until the meter has told it."""

    def __init__(
        self,
        api: KubeApi,
        pool: Pool,
        counts: Counts,
        holding: Holding,
        removing: Removing,
        journal: Journal | None,
        now_ns: Callable[[], int],
        noted: Callable[[str, GpuNode | None, GpuNode | None], None],
        note: Callable[[dict[str, Any], bool], None],
        restored: Callable[[Pod, str], None] = lambda pod, node: None,
        forgets: Callable[[], bool] = lambda: False,
    ) -> None:
        """`noted` is told of what an answer brought: the node's name, what was known, and what is now. `note` takes
        what the watch told meanwhile. `restored`: of a pod that was let go before it got its entry, and where.
        `forgets`: whether the record of who wrote which field is cleared."""
        self._restored, self._forgets = restored, forgets
        self._api, self._pool, self._counts, self._now_ns = api, pool, counts, now_ns
        self._holding, self._removing, self._journal = holding, removing, journal
        self._noted, self._note = noted, note
        self._withdrawing = Withdrawing(api, pool)
        self._under_way: dict[str, tuple[dict[str, Any], bool] | None] = {}
        """By ledger that is being written, the latest that the watch told of it."""
        self.answered = set[str]()
        """Ledgers known by answers to our own requests since they were asked for in a list last."""

    def begin_list(self) -> None:
        """A list is asked for: what is known by answers or was told before it is older than that."""
        self.answered.clear()
        self._under_way = dict.fromkeys(self._under_way)

    def hold(self, found: dict[str, Any], gone: bool) -> bool:
        """Whether the watch's word of a ledger is kept until the answer to our write of it is known."""
        name = found["metadata"]["name"]
        if name not in self._under_way:
            return False
        self._under_way[name] = found, gone
        return True

    async def write(self, plan: Plan) -> bool:
        """Every ledger that the plan or its pods' fate changes, each once; whether one of them was stale."""
        added, claimed = placing.entries_by_node(plan.placements, self._pool), self._pool.claimed()
        planned = placing.generations(plan.placements)
        given_up = self._holding.given_up(self._pool) | self._pool.useless()
        seats = {
            self._pool.ledger_of(uid) for name in given_up for uid in (name, *self._pool.members.present(name).entered)
        }
        seats |= {self._pool.ledger_of(uid) for uid in claimed}
        leaving = await self._removing.orders(plan.evictions)
        seats |= {self._pool.ledger_of(gangs.parts_of(job)[0]) for job in (*leaving, *self._pool.orders())}
        names, self._pool.unsettled = sorted(self._pool.unsettled | set(added) | seats), set()
        try:
            # From here on each ledger is as it was read now: a write that comes between is met as a conflict.
            known = [self._pool.ledgers[name] for name in names if name in self._pool.ledgers]
            stay = await self._withdrawing.staying([one for one in known if one.name in self._pool.hosts], given_up)
            outdated = {node.name for node in known if planned.get(node.name, node.version) != node.version}
            fate = _Fate(claimed, given_up, leaving, returning.kept(self._pool, names), stay)
            changes = [
                (node, self._entries(node, () if node.name in outdated else added.get(node.name, ()), fate))
                for node in known
            ]
            changes = [(node, now) for node, now in changes if now != node.entries]
            written = await together([self._swap(node, now) for node, now in changes])
            for (node, now), done in zip(changes, written, strict=True):
                self._tell_restored(node, now if done else ())
        except BaseException:
            self._pool.unsettled |= set(names)
            raise
        return bool(outdated) or not all(written)

    def _entries(self, node: GpuNode, added: Iterable[Entry], fate: _Fate) -> tuple[Entry, ...]:
        """What the node's ledger has to become."""
        exists, version = node.name in self._pool.hosts, node.version + 1
        settled = bookkeeping.settled(
            node,
            self._pool.pods,
            node_exists=exists,
            claimed=fate.claimed,
            given_up=fate.given_up,
            leaving=fate.leaving,
            kept=self._pool.heirs,
            returning=fate.returning,
            stay=fate.stay,
        )
        return *settled, *(replace(entry, generation=version) for entry in added)

    def _tell_restored(self, before: GpuNode, now: Iterable[Entry]) -> None:
        had = members.uids(before)
        for uid in dict.fromkeys(entry.uid for entry in now if entry.uid not in had):
            pod = self._pool.pods.get(uid)
            if pod is not None and restoring.is_let_go(pod):
                self._restored(pod, before.name)

    async def confirm(self, name: str) -> bool:
        """Read the node's ledger and write it as it is: what others have under way for it is refused from then on.

        False where another write came between, or there is none.
        """
        known, now = self._pool.ledgers.get(name), await ledger.read(self._api, name)
        if known is not None:
            self._heard(known, now)
        return now is not None and await self._swap(now, now.entries)

    async def _swap(self, node: GpuNode, entries: tuple[Entry, ...]) -> bool:
        self._under_way[node.name] = None
        try:
            return await self._write_one(node, entries)
        finally:
            # Two writes of one ledger may be under way, a round's and one that confirms it: the first to end tells.
            if (held := self._under_way.pop(node.name, None)) is not None:
                self._note(*held)

    async def _write_one(self, node: GpuNode, entries: tuple[Entry, ...]) -> bool:
        now = await ledger.write(self._api, node, entries, self._now_ns(), self._journal, forget=self._forgets())
        self._counts.ledger_writes += 1
        if now is None:
            self._counts.ledger_conflicts += 1
            self._pool.unsettled.add(node.name)
            self._heard(node, await ledger.read(self._api, node.name))
            return False
        self._heard(node, now)
        return True

    def _heard(self, node: GpuNode, now: GpuNode | None) -> None:
        """An answer about a ledger, unless the watch has told more by now: a newer one, another, or that it is gone."""
        known = self._pool.ledgers.get(node.name)
        newer = known is not None and node.version <= known.version and (now is None or known.version < now.version)
        if known is node or newer:
            if self._pool.note_ledger(node.name, now, sure=known is node):
                self._noted(node.name, known, now)
            self.answered.add(node.name)
