"""Writes the ledgers of one reconciliation: the plan, and what became of pods with entries.

Each ledger is written at most once per reconciliation. The answer to a write is noted in the cache,
unless the watch has reported more by then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from gpupool.base.errors import ApiServerRejection
from gpupool.kubernetes.cache import gang_members, ledger_restore
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.concurrency import gather_limited
from gpupool.kubernetes.controller import gang_seat_retention as returning
from gpupool.kubernetes.controller import plan_entries
from gpupool.kubernetes.controller.entry_withdrawal import EntryWithdrawal
from gpupool.kubernetes.controller.gang_timeouts import GangTimeouts
from gpupool.kubernetes.eviction.pod_removal import PodRemoval
from gpupool.kubernetes.ledger import entry_lifecycle, ledger
from gpupool.kubernetes.ledger.journal import IntervalJournal
from gpupool.kubernetes.reporting.counters import ControllerCounters
from gpupool.kubernetes.resources import gang
from gpupool.kubernetes.resources.gpu_node import Entry, EvictionOrder, GpuNode
from gpupool.kubernetes.resources.pod import Pod
from gpupool.scheduling import Plan

#: Seconds until a refused write is tried again: no event says when it would be allowed.
AGAIN_SECONDS = 10.0

log = logging.getLogger(__name__)


class _EntryFates(NamedTuple):
    """What becomes of entries in one pass: the arguments of `entry_lifecycle.reconcile_entries`."""

    claimed: Mapping[str, Pod]
    given_up: frozenset[str]
    leaving: Mapping[str, EvictionOrder]
    returning: frozenset[str]
    stay: frozenset[str]


class LedgerWriter:
    """The writes of one leader."""

    def __init__(
        self,
        api: KubeApi,
        cluster: ClusterCache,
        counts: ControllerCounters,
        holding: GangTimeouts,
        removing: PodRemoval,
        journal: IntervalJournal | None,
        now_ns: Callable[[], int],
        noted: Callable[[str, GpuNode | None, GpuNode | None], None],
        note: Callable[[dict[str, Any], bool], None],
        restored: Callable[[Pod, str], None] = lambda pod, node: None,
        forgets: Callable[[], bool] = lambda: False,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """Connect the writes to the controller.

        Args:
            journal: where closed intervals go; None where nothing is metered.
            now_ns: wall clock, in nanoseconds since the epoch.
            noted: takes what an answer changed: the node's name, the ledger before and after.
            note: takes an event of the watch that was deferred during a write.
            restored: takes a pod that was released before it got its entry, and its node.
            forgets: whether the record of field managers is cleared.
            seconds: a monotonic clock, in seconds.
        """
        self._seconds = seconds
        #: By ledger whose write was refused, when it is tried again.
        self._again: dict[str, float] = {}
        self._restored = restored
        self._forgets = forgets
        self._api = api
        self._cluster = cluster
        self._counts = counts
        self._now_ns = now_ns
        self._holding = holding
        self._removing = removing
        self._journal = journal
        self._noted = noted
        self._note = note
        self._withdrawing = EntryWithdrawal(api, cluster)
        #: By ledger that is being written, the latest event of the watch about it.
        self._under_way: dict[str, tuple[dict[str, Any], bool] | None] = {}
        #: Ledgers known by answers to our own requests since the last list was requested.
        self.answered = set[str]()

    def note_relist(self) -> None:
        """Forget answers and deferred events: the list that is requested now is newer."""
        self.answered.clear()
        self._under_way = dict.fromkeys(self._under_way)

    def defer_event(self, found: dict[str, Any], gone: bool) -> bool:
        """Keep a watch event of a ledger that is being written; False if it is not being
        written."""
        name = found["metadata"]["name"]
        if name not in self._under_way:
            return False
        self._under_way[name] = found, gone
        return True

    async def write_plan(self, plan: Plan) -> bool:
        """Write every ledger that the plan or a change of its pods affects.

        A refused write concerns one node, which stays marked as unsettled, and is tried again later.

        Returns:
            Whether a ledger had changed meanwhile, so that another pass is due.

        Raises:
            ApiServerRejection: a look-up was refused. The nodes stay marked as unsettled.
            ServiceUnavailable: the API server cannot be reached.
        """
        added = plan_entries.entries_by_node(plan.placements, self._cluster)
        claimed = self._cluster.gang_seats.match_seats()
        planned = plan_entries.planned_generations(plan.placements)
        given_up = (
            self._holding.expired_seats(self._cluster) | self._cluster.gang_seats.surplus_seats()
        )
        leaving = await self._removing.decide_orders(plan.evictions)
        jobs = (*leaving, *self._cluster.eviction_orders())
        seats = self._find_nodes(
            given_up, [*claimed, *(gang.split_job_name(job)[0] for job in jobs)]
        )
        refused = set(self._again)
        names = sorted((self._cluster.unsettled | set(added) | seats) - refused)
        # Taken before the first await: a change that is noted meanwhile marks its node for the next
        # pass.
        self._cluster.unsettled = refused
        try:
            # From here on each ledger is as it was read now: a write that comes between is met as a
            # conflict.
            known = []
            for name in names:
                if name in self._cluster.ledgers:
                    known.append(self._cluster.ledgers[name])
            # A node that is gone frees all its cards, whatever became of its pods.
            existing = [one for one in known if one.name in self._cluster.hosts]
            stay = await self._withdrawing.find_staying_pods(existing, given_up)
            outdated = set()
            for node in known:
                if planned.get(node.name, node.version) != node.version:
                    outdated.add(node.name)
            fates = _EntryFates(
                claimed, given_up, leaving, returning.retained_seats(self._cluster, names), stay
            )
            changes = []
            for node in known:
                # The plan read an older ledger: what it adds may be given out by now.
                arrivals = () if node.name in outdated else added.get(node.name, ())
                entries = self._next_entries(node, arrivals, fates)
                if entries != node.entries:
                    changes.append((node, entries))
            written = await gather_limited([self._swap_planned(node, now) for node, now in changes])
            for (node, now), done in zip(changes, written, strict=True):
                self._report_restored(node, now if done else ())
        except BaseException:
            self._cluster.unsettled |= set(names)
            raise
        return bool(outdated) or False in written

    def next_look(self) -> float | None:
        """Seconds until a refused write is tried again; None if none was refused."""
        return min(self._again.values()) - self._seconds() if self._again else None

    def expire_refusals(self) -> None:
        """Let nodes whose refused write is due take pods again; called before a plan is made."""
        now = self._seconds()
        self._again = {name: at for name, at in self._again.items() if at > now}
        self._cluster.note_unwritable(self._again)

    def _find_nodes(self, given_up: Iterable[str], uids: Sequence[str]) -> set[str]:
        """Return the nodes of the seats that are given up, by gang or alone, and of these pods."""
        nodes = {self._cluster.ledger_node_of(uid) for uid in uids}
        for name in given_up:
            nodes.add(self._cluster.ledger_node_of(name))
            for uid in self._cluster.members.present_members(name).entered:
                nodes.add(self._cluster.ledger_node_of(uid))
        return nodes

    def _next_entries(
        self, node: GpuNode, added: Iterable[Entry], fates: _EntryFates
    ) -> tuple[Entry, ...]:
        """Return the entries that the node's ledger should have."""
        exists = node.name in self._cluster.hosts
        version = node.version + 1
        settled = entry_lifecycle.reconcile_entries(
            node,
            self._cluster.pods,
            node_exists=exists,
            claimed=fates.claimed,
            given_up=fates.given_up,
            leaving=fates.leaving,
            kept=self._cluster.handover,
            returning=fates.returning,
            stay=fates.stay,
        )
        # The node may have gone while orders and look-ups were awaited. A pod with an entry would
        # be released to it.
        arrivals = added if exists else ()
        return *settled, *(replace(entry, generation=version) for entry in arrivals)

    def _report_restored(self, before: GpuNode, now: Iterable[Entry]) -> None:
        had = gang_members.ledger_uids(before)
        for uid in dict.fromkeys(entry.uid for entry in now if entry.uid not in had):
            pod = self._cluster.pods.get(uid)
            if pod is not None and ledger_restore.is_released(pod):
                self._restored(pod, before.name)

    async def confirm_ledger(self, name: str) -> bool:
        """Read the node's ledger and write it unchanged, so that older writes in flight are
        refused.

        Returns:
            False if another write came between, or there is no ledger.
        """
        known = self._cluster.ledgers.get(name)
        now = await ledger.read_ledger(self._api, name)
        if known is not None:
            self._note_answer(known, now)
        return now is not None and await self._swap_entries(now, now.entries)

    async def _swap_planned(self, node: GpuNode, entries: tuple[Entry, ...]) -> bool | None:
        """Return whether the ledger was as it was read; None if the write was refused."""
        try:
            return await self._swap_entries(node, entries)
        except ApiServerRejection as error:
            log.warning("the ledger of %s is not written: %s", node.name, error)
            self._again[node.name] = self._seconds() + AGAIN_SECONDS
            self._cluster.note_unwritable(self._again)
            self._cluster.unsettled.add(node.name)
            return None

    async def _swap_entries(self, node: GpuNode, entries: tuple[Entry, ...]) -> bool:
        self._under_way[node.name] = None
        try:
            return await self._write_ledger(node, entries)
        finally:
            # A pass and a confirmation may write the same ledger at the same time: the first to end
            # passes the deferred event on.
            if (held := self._under_way.pop(node.name, None)) is not None:
                self._note(*held)

    async def _write_ledger(self, node: GpuNode, entries: tuple[Entry, ...]) -> bool:
        now = await ledger.write_entries(
            self._api, node, entries, self._now_ns(), self._journal, forget=self._forgets()
        )
        self._counts.ledger_writes += 1
        if now is None:
            # Read at once instead of waiting for the watch: the next pass follows immediately.
            self._counts.ledger_conflicts += 1
            self._cluster.unsettled.add(node.name)
            self._note_answer(node, await ledger.read_ledger(self._api, node.name))
            return False
        self._note_answer(node, now)
        return True

    def _note_answer(self, node: GpuNode, now: GpuNode | None) -> None:
        """Note a ledger from an answer, unless the watch has reported a newer state by now."""
        known = self._cluster.ledgers.get(node.name)
        newer = (
            known is not None
            and node.version <= known.version
            and (now is None or known.version < now.version)
        )
        if known is node or newer:
            if self._cluster.note_ledger(node.name, now, sure=known is node):
                self._noted(node.name, known, now)
            self.answered.add(node.name)
