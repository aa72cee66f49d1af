"""The placement controller: watches what waits, has it planned, writes ledgers, then lets pods go.

Every round does the same three things from what is known: bring ledgers in line with their pods, plan and write what
was planned, release pods that have their cards and still wear their gate. So a crash at any line is mended by the next
round of whoever leads: an entry without a released pod is released, one without a pod drains. A ledger is written once
a round at most, a pod patched once in its life.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

from gpupool.base.errors import GpupoolError
from gpupool.base.silence import busy
from gpupool.base.supervised import watched_task
from gpupool.kubernetes import fitting, gangs, ledger, names, placing, restoring, turned
from gpupool.kubernetes.api import ROUND_SECONDS, KubeApi, Pause
from gpupool.kubernetes.capacity_writing import Capacities
from gpupool.kubernetes.counts import Counts
from gpupool.kubernetes.events import Events
from gpupool.kubernetes.failing import Failing
from gpupool.kubernetes.holding import Holding
from gpupool.kubernetes.hosts import Host
from gpupool.kubernetes.journal import Journal
from gpupool.kubernetes.lookups import Lookups
from gpupool.kubernetes.noting import goes_its_way, only_started
from gpupool.kubernetes.objects import GpuNode
from gpupool.kubernetes.orphans import Orphans
from gpupool.kubernetes.pace import Pace
from gpupool.kubernetes.pods import Pod, read_pod
from gpupool.kubernetes.pool import Pool
from gpupool.kubernetes.queue import HEADS
from gpupool.kubernetes.releasing import Releases
from gpupool.kubernetes.removing import Removing
from gpupool.kubernetes.reservation_status import ReservationStatus
from gpupool.kubernetes.reservations import RESERVATIONS, Reservations
from gpupool.kubernetes.settings import SETTINGS, PoolSettings, Settings
from gpupool.kubernetes.settings_status import SettingsStatus
from gpupool.kubernetes.stuck import Stuck
from gpupool.kubernetes.tenant_status import TenantStatus
from gpupool.kubernetes.tenants import TENANTS, Tenants
from gpupool.kubernetes.told_starts import ToldStarts
from gpupool.kubernetes.wait_parts import WaitParts
from gpupool.kubernetes.waiting import Reasons
from gpupool.kubernetes.watch import Away, keep
from gpupool.kubernetes.writing import Writing
from gpupool.model.claim import Reason, Rejection
from gpupool.scheduling.careful import CarefulCycles
from gpupool.scheduling.guarded import PolicyFault
from gpupool.scheduling.snapshot import Plan

APART_SECONDS = 0.02
"""From the end of a round to the next one: the first pod is placed at once, those after it together."""
SOON_SECONDS = 0.5
"""So long is gathered what no plan waits for: pods that are bound, cards that are made ready."""
LOOK_SECONDS = 60.0
"""While pods wait, time alone can give one its turn."""
PODS = "/api/v1/pods"
LISTS = ("nodes", "ledgers", "tenants", "reservations", "settings", "pods")

STOPPED = Rejection(
    "no pod gets cards now: PoolSettings pool has placing: false, as uninstalling sets it",
    Reason.BEHIND,
    hint='kubectl patch poolsettings pool --type merge -p \'{"spec":{"placing":true}}\'',
)

log = logging.getLogger(__name__)


class Controller:
    """One leader. `now_ns` is the wall clock in nanoseconds since the epoch."""

    def __init__(
        self,
        api: KubeApi,
        now_ns: Callable[[], int],
        settings: Settings | None = None,
        journal: Journal | None = None,
    ) -> None:
        """With a journal, what ends is kept until the meter has told it."""
        self.api, self._now_ns = api, now_ns
        self.settings = PoolSettings(settings or Settings())
        self.pool = Pool(self.settings.in_use.policy)
        self.counts = Counts()
        self.wait_parts = WaitParts(time.monotonic)
        self.events = Events(api, self.counts, now_ns)
        self.reasons = Reasons(api, self.counts, self.events, self.pool)
        self._releases = Releases(
            api,
            self.pool,
            self.counts,
            self.events,
            self._note_release,
            self.reasons.refused,
            lambda: self._wake.set(),
            lambda name: self._writing.confirm(name),
            self._forgets,
        )
        self.tenants = Tenants()
        self.reservations = Reservations(time.monotonic)
        self._reservation_status = ReservationStatus(api, self.reservations, now_ns)
        self._tenant_status = TenantStatus(api, self.tenants, self.counts, now_ns)
        self._cycles = CarefulCycles(self._count_fault)
        self._crowded: dict[str, str] = {}
        self._wake = asyncio.Event()
        self._later: asyncio.TimerHandle | None = None
        self._pace = Pace(_loop_seconds, APART_SECONDS)
        self._holding = Holding(time.monotonic)
        self._stuck = Stuck(time.monotonic, self.settings.in_use.replace_seconds)
        self._failing = Failing(time.monotonic)
        self._capacities = Capacities(api, self.pool, self.counts, self._note_node)
        self._removing = Removing(api, self.pool, self.counts, self._stuck, self._failing, self.events, now_ns)
        self._writing = Writing(
            api,
            self.pool,
            self.counts,
            self._holding,
            self._removing,
            journal,
            now_ns,
            self._look_at_cards,
            self._note_ledger,
            self._note_restored,
            self._forgets,
        )
        self._orphans = Orphans(api, self.pool, self.events, metered=journal is not None, wake=self._wake.set)
        self._lookups, self._again = Lookups(api, self.pool, self._wake.set), False
        self._lists = {name: asyncio.Event() for name in LISTS}
        self.told = ToldStarts(self.pool)
        self._settings_status = SettingsStatus(api, self.settings, self.pool, self._lists["settings"], now_ns)

    async def run(self) -> None:
        """Until it is cancelled, or a watch fails in a way that nobody thought of; returns once the server was away.

        What it knows is of one moment then no more: pods of before beside ledgers of after would free cards in use.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                for watch in self._watches():
                    tasks.create_task(watch)
                tasks.create_task(self._releases.run())
                tasks.create_task(self._lookups.run())
                for name, body in self._bodies():
                    tasks.create_task(watched_task(name, body))
        except* Away:
            log.info("the API server was away: everything is read anew")

    def _bodies(self) -> Iterator[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """What has rounds, each of which is bounded."""
        yield "rounds", self._rounds
        yield "reasons", self.reasons.run
        yield "events", self.events.run
        yield "tenant-status", self._tenant_status.run
        yield "reservation-status", self._reservation_status.run
        yield "settings-status", self._settings_status.run

    def _watches(self) -> Iterator[Coroutine[Any, Any, None]]:
        for path, note, synced in (
            ("/api/v1/nodes", self._note_node, self._lists["nodes"].set),
            (TENANTS, self._note_tenant, self._note_tenants_listed),
            (SETTINGS, self._note_settings, self._lists["settings"].set),
            (RESERVATIONS, self._note_reservation, self._lists["reservations"].set),
        ):
            yield keep(self.api, path, note, synced, lasting=False)
        yield keep(
            self.api,
            ledger.NODES,
            self._note_ledger_unless_written,
            self._lists["ledgers"].set,
            listed=self._list_ledger,
            begins=self._writing.begin_list,
            lasting=False,
        )
        ours = {"labelSelector": f"{names.MANAGED}=true"}
        yield keep(self.api, PODS, self._note_pod, self._lists["pods"].set, query=ours, lasting=False)

    async def _rounds(self) -> None:
        for listed in self._lists.values():
            await listed.wait()
        pause = Pause()
        while True:
            await self._releases.few()
            self._wake.clear()
            if self._later is not None:
                self._later.cancel()
                self._later = None
            try:
                with busy(ROUND_SECONDS):
                    writes = self.counts.ledger_writes
                more = await self.round()
                if len(self.pool.queue) or self.counts.ledger_writes > writes:
                    self._pace.wrote()  # one that found nothing to do keeps no pod waiting
                pause.reset()
            except GpupoolError as error:
                log.warning("a round broke off, it is begun anew: %s", error)
                await pause.wait()
                continue
            if not more:
                await self._next()

    async def _next(self) -> None:
        """Until something is noted, and a moment after the last round."""
        try:
            looks = [self._holding.next_look(), LOOK_SECONDS if len(self.pool.queue) else None]
            looks += [self._stuck.next_look(self.pool), self.pool.heirs.next_look()]
            looks += [self._failing.next_look(), self._removing.next_look(), self._releases.next_look()]
            looks.append(self.pool.turned.next_look())
            looks.append(self.reservations.next_look(self._now_ns()))
            async with asyncio.timeout(min((max(0.1, one) for one in looks if one is not None), default=None)):
                await self._wake.wait()
        except TimeoutError:
            return
        await asyncio.sleep(self._pace.rest())

    # --- what is noted ------------------------------------------------------------------------

    def _note_node(self, found: dict[str, Any], gone: bool) -> None:
        name = found["metadata"]["name"]
        before, now = self.pool.hosts.get(name), None if gone else Host.from_json(found)
        if before != now:
            self.pool.note_host(name, now)
            self._wake.set()

    def _list_ledger(self, found: dict[str, Any], gone: bool) -> None:
        self._note_ledger(found, gone, sure=found["metadata"]["name"] not in self._writing.answered)

    def _note_ledger_unless_written(self, found: dict[str, Any], gone: bool) -> None:
        # The watch often tells our own write before its answer comes: as news it would be read twice, and take a round.
        if not self._writing.hold(found, gone):
            self._note_ledger(found, gone)

    def _note_ledger(self, found: dict[str, Any], gone: bool, *, sure: bool = False) -> None:
        name, before = found["metadata"]["name"], self.pool.ledgers.get(found["metadata"]["name"])
        version = found["metadata"]["resourceVersion"]
        if before is not None and not gone and not before.assumed and before.written == version:
            return  # it was read before
        now = None if gone else GpuNode.from_json(found, ledger.same_entries(found, before))
        if before != now and self.pool.note_ledger(name, now, sure=sure):
            self._look_at_cards(name, before, now)
            (self._soon if only_started(before, now) else self._wake.set)()

    def _look_at_cards(self, name: str, before: GpuNode | None, now: GpuNode | None) -> None:
        """What the node's agent says may have changed: also the answer to a write of its ledger tells that."""
        self._failing.note(name, now)
        self.events.ledger(before, now)
        self._settings_status.note_ledger(before, now)

    def _note_restored(self, pod: Pod, node: str) -> None:
        log.warning("%s/%s was let go to %s without an entry in its ledger, and has one", pod.namespace, pod.name, node)
        self.counts.restorations += 1
        told = placing.told(node, self.pool.entries_of(pod.uid))[names.PLACED]
        self.events.pod(pod, "EntryRestored", f"{restoring.LOST}; now it has cards again: {told}", warning=True)

    def _note_tenant(self, found: dict[str, Any], gone: bool) -> None:
        if self.tenants.note(found, gone):
            self._wake.set()

    def _note_reservation(self, found: dict[str, Any], gone: bool) -> None:
        if self.reservations.note(found, gone):
            self._wake.set()

    def _note_tenants_listed(self) -> None:
        self.tenants.synced()
        self._lists["tenants"].set()
        self._wake.set()

    def _note_settings(self, found: dict[str, Any], gone: bool) -> None:
        if self.settings.note(found, gone):
            now = self.settings.in_use
            log.info("settings in use: %s", now.to_json())
            self.pool.policy, self._stuck.grace = now.policy, now.replace_seconds
            self._wake.set()
        self._settings_status.wake.set()

    def _note_pod(self, found: dict[str, Any], gone: bool) -> None:
        known = self.pool.pods.get(found["metadata"]["uid"])
        if known is None or gone or known.version != found["metadata"]["resourceVersion"]:  # else our own release told
            self._take_pod(found, gone, known)

    def _note_release(self, pod: Pod) -> None:
        """By our own doing; the watch tells it again."""
        self._releases.keep(pod.uid, None)
        self.wait_parts.note_released(pod.uid)
        self.pool.note_pod(pod.uid, pod)
        self._soon()

    def _take_pod(self, found: dict[str, Any], gone: bool, before: Pod | None) -> None:
        uid = found["metadata"]["uid"]
        pod = None if gone else read_pod(found)
        self._releases.keep(uid, found if pod is not None and pod.gated else None)
        if pod is None:
            self.wait_parts.forget(uid)
        elif pod.gated:
            self.wait_parts.note(uid)
        else:
            self.wait_parts.note_released(uid)
        self.pool.note_pod(uid, pod)
        if pod is not None and pod.turned_away and before is not None and not before.ended:
            self.events.pod(pod, "TurnedAway", turned.sentence(pod), warning=True)
        (self._soon if goes_its_way(before, pod, self.pool.ledger_of(uid)) else self._wake.set)()

    def _soon(self) -> None:
        """A round in a while: nothing that a plan depends on has changed."""
        if self._later is None:
            self._later = asyncio.get_running_loop().call_later(SOON_SECONDS, self._wake.set)

    # --- one round ----------------------------------------------------------------------------

    async def round(self) -> bool:
        """Whether another round may do more at once."""
        if self.tenants.settle():
            self.pool.note_tenants(self.tenants.tree)
            self._settings_status.note_size()
        self.pool.end_wills()
        self.pool.forget_turned()
        self.reservations.settle(self.pool, self._now_ns())
        began = self.wait_parts.clock()
        plan = self._plan()
        await self._capacities.write()
        stale = await self._writing.write(plan)
        self.wait_parts.note_written((gangs.parts_of(one.job)[0] for one in plan.placements), began)
        self._releases.look()
        await self._orphans.settle()
        await self._removing.evict()
        await self._removing.replace()
        self._tenant_status.note(self.pool)
        self._reservation_status.note()
        self._lookups.note()
        more = stale or (bool(plan.placements) and (len(plan.placements) >= HEADS or self._again))
        self.reasons.note(plan, self._crowded | self._removing.refused, more)
        return more

    def _plan(self) -> Plan:
        now_ns = self._now_ns()
        self._crowded = fitting.crowded(self.pool)
        snapshot = self.pool.snapshot(now_ns, without=self._crowded)
        if not self.settings.in_use.placing:
            return Plan(snapshot.generation, (), {one.key: STOPPED for one in snapshot.waiting})
        if not self.told.loaded:
            known = self.settings.known or {}
            self.pool.promised = self.told.load((known.get("status") or {}).get("starts") or {}, snapshot)
            snapshot = replace(snapshot, promised=self.pool.promised)
        self.told.settle(now_ns)
        plan = self._cycles.plan(snapshot, now_ns, HEADS, self.settings.in_use.preemption)
        self._settings_status.note_fault(self._cycles.fault)
        self.pool.keep_promises(plan)
        self.told.note(plan, now_ns)
        self._settings_status.note_starts(self.told.to_json())
        self.counts.cycles += 1
        together = fitting.kept(plan.placements, self.pool)
        self._again = len(together) < len(plan.placements)
        return replace(plan, placements=together)

    def _forgets(self) -> bool:
        return self.settings.in_use.forget_field_managers

    def _count_fault(self, fault: PolicyFault) -> None:
        log.error("%s: %s", fault.sentence, fault.error)
        self.counts.policy_failures += 1


def _loop_seconds() -> float:
    return asyncio.get_running_loop().time()
