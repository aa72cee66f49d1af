"""The placement controller: plans waiting pods, writes ledgers, and removes scheduling gates.

Every reconciliation does the same three things from the cluster cache: it brings ledgers in line
with their pods, it plans and writes the plan, and it releases pods that have their cards and still
have the gate. A crash at any line is mended by the next reconciliation of the next leader: an entry
whose pod is gated leads to a release, an entry without a pod drains. One reconciliation writes a
ledger at most once, and a pod is patched once in its life.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

from gpupool.base.errors import GpupoolError
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import watched_task
from gpupool.kubernetes.cache import plan_conflicts
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.cache.on_demand_watches import OnDemandWatches
from gpupool.kubernetes.cache.pending_pods import HEADS
from gpupool.kubernetes.client.api import ROUND_SECONDS, KubeApi, create_backoff
from gpupool.kubernetes.client.informer import ServerAway
from gpupool.kubernetes.client.write_throttle import WriteThrottle
from gpupool.kubernetes.controller.change_intake import ChangeIntake
from gpupool.kubernetes.controller.gang_timeouts import GangTimeouts
from gpupool.kubernetes.controller.gate_removal import GateRemoval
from gpupool.kubernetes.controller.ledger_writer import LedgerWriter
from gpupool.kubernetes.controller.orphaned_ledgers import OrphanedLedgers
from gpupool.kubernetes.controller.reconcile_trigger import ReconcileTrigger
from gpupool.kubernetes.controller.wait_stages import WaitStages
from gpupool.kubernetes.eviction.failed_cards import FailedCards
from gpupool.kubernetes.eviction.pod_removal import PodRemoval
from gpupool.kubernetes.eviction.unschedulable_pods import UnschedulablePods
from gpupool.kubernetes.ledger.journal import IntervalJournal
from gpupool.kubernetes.networks.reconciler import TenantNetworks
from gpupool.kubernetes.reporting.counters import ControllerCounters
from gpupool.kubernetes.reporting.events import EventWriter
from gpupool.kubernetes.resources import gang
from gpupool.kubernetes.resources.pool_settings import PoolSettings, Settings
from gpupool.kubernetes.resources.tenant import TenantRegistry
from gpupool.kubernetes.status.node_capacity_writer import NodeCapacityWriter
from gpupool.kubernetes.status.pod_conditions import PodConditions
from gpupool.kubernetes.status.reservation import ReservationStatus
from gpupool.kubernetes.status.reservations import ReservationRegistry
from gpupool.kubernetes.status.settings import SettingsStatus
from gpupool.kubernetes.status.start_records import StartRecords
from gpupool.kubernetes.status.tenant import TenantStatus
from gpupool.model.claim import Rejection, RejectionReason
from gpupool.scheduling import FaultTolerantCycles, Plan, PolicyFault

#: Seconds from the end of a reconciliation to the next one. The first pod is placed at once, pods
#: that come meanwhile are placed together.
APART_SECONDS = 0.02
#: Seconds after which waiting pods are planned again though nothing has changed: their priority
#: also depends on the time.
LOOK_SECONDS = 60.0
#: Seconds that the loop waits at least for a deadline.
SHORTEST_WAIT_SECONDS = 0.1

STOPPED = Rejection(
    "no pod gets cards now: PoolSettings pool has placing: false, as uninstalling sets it",
    RejectionReason.BEHIND,
    hint='kubectl patch poolsettings pool --type merge -p \'{"spec":{"placing":true}}\'',
)

log = logging.getLogger(__name__)


class PoolController:
    """The controller of one leader, from the moment it leads."""

    def __init__(
        self,
        api: KubeApi,
        now_ns: Callable[[], int],
        settings: Settings | None = None,
        journal: IntervalJournal | None = None,
        kube_ovn_namespace: str | None = None,
    ) -> None:
        """
        Args:
            now_ns: wall clock, in nanoseconds since the epoch.
            settings: used where the PoolSettings object says nothing.
            journal: where closed intervals are kept until the meter has reported them; None where
                nothing is metered.
            kube_ovn_namespace: where Kube-OVN runs; None where Tenants get no networks.
        """
        self.api = api
        self._now_ns = now_ns
        self.settings = PoolSettings(settings or Settings())
        self.cluster = ClusterCache(self.settings.in_use.policy)
        self.counts = ControllerCounters()
        self.wait_stages = WaitStages(time.monotonic)
        self.events = EventWriter(api, self.counts, now_ns)
        self.conditions = PodConditions(api, self.counts, self.events, self.cluster)
        self.tenants = TenantRegistry()
        self.reservations = ReservationRegistry(time.monotonic)
        self.starts = StartRecords(self.cluster)
        self._trigger = ReconcileTrigger()
        self.networks = TenantNetworks(
            api, self.tenants, kube_ovn_namespace, self._trigger.request_now
        )
        self.intake = ChangeIntake(
            api,
            self.cluster,
            self.settings,
            self.tenants,
            self.reservations,
            self.counts,
            self.events,
            self._trigger,
        )
        self._create_writers(journal)
        self._create_status_writers()
        # The intake and the writers call each other, so the second half is connected here.
        self.intake.connect_parts(
            self._gate_removal,
            self._ledger_writer,
            self._failed_cards,
            self._unschedulable,
            self._settings_status,
            self.wait_stages,
        )
        self._cycles = FaultTolerantCycles(self._count_fault)
        self._throttle = WriteThrottle(_loop_seconds, APART_SECONDS)
        #: Gangs that need more nodes than there are, and the reason.
        self._crowded: dict[str, str] = {}
        #: Whether the last plan had placements that did not fit beside each other.
        self._is_replan_due = False

    def _create_writers(self, journal: IntervalJournal | None) -> None:
        """Create what writes ledgers and pods."""
        api = self.api
        self._gang_timeouts = GangTimeouts(time.monotonic)
        self._unschedulable = UnschedulablePods(
            time.monotonic, self.settings.in_use.replace_seconds
        )
        self._failed_cards = FailedCards(time.monotonic)
        self._pod_removal = PodRemoval(
            api,
            self.cluster,
            self.counts,
            self._unschedulable,
            self._failed_cards,
            self.events,
            self._now_ns,
        )
        self._ledger_writer = LedgerWriter(
            api,
            self.cluster,
            self.counts,
            self._gang_timeouts,
            self._pod_removal,
            journal,
            self._now_ns,
            self.intake.note_cards,
            self.intake.note_ledger,
            self.intake.note_restored_entry,
            self._forgets_field_managers,
        )
        self._gate_removal = GateRemoval(
            api,
            self.cluster,
            self.counts,
            self.events,
            self.intake.note_release,
            self.conditions.note_refused_release,
            self._trigger.request_now,
            self._ledger_writer.confirm_ledger,
            self._forgets_field_managers,
        )
        self._capacities = NodeCapacityWriter(api, self.cluster, self.counts, self.intake.note_node)
        self._orphaned_ledgers = OrphanedLedgers(
            api,
            self.cluster,
            self.events,
            metered=journal is not None,
            wake=self._trigger.request_now,
        )
        self._on_demand = OnDemandWatches(api, self.cluster, self._trigger.request_now)

    def _create_status_writers(self) -> None:
        """Create what reports on tenants, reservations and settings."""
        api = self.api
        now_ns = self._now_ns
        self._tenant_status = TenantStatus(api, self.tenants, self.counts, now_ns, self.networks)
        self._reservation_status = ReservationStatus(api, self.reservations, now_ns)
        self._settings_status = SettingsStatus(
            api, self.settings, self.cluster, self.intake.lists["settings"], now_ns
        )

    async def run(self) -> None:
        """Reconcile until cancelled.

        Returns once the server was away: what the cache holds is then not of one moment any more,
        and old pods beside new ledgers would free cards in use. The caller begins with a new
        controller.
        """
        try:
            async with asyncio.TaskGroup() as tasks:
                for watch in self.intake.iterate_watches():
                    tasks.create_task(watch)
                tasks.create_task(self._gate_removal.run())
                tasks.create_task(self._on_demand.run())
                for name, loop in self._iterate_loops():
                    tasks.create_task(watched_task(name, loop))
        except* ServerAway:
            log.info("the API server was away: everything is read anew")

    def _iterate_loops(self) -> Iterator[tuple[str, Callable[[], Coroutine[Any, Any, None]]]]:
        """Loops whose every pass is bounded in time, so that a hanging one is found."""
        yield "rounds", self._reconcile_forever
        yield "reasons", self.conditions.run
        yield "events", self.events.run
        yield "tenant-status", self._tenant_status.run
        yield "tenant-networks", self.networks.run
        yield "reservation-status", self._reservation_status.run
        yield "settings-status", self._settings_status.run

    async def _reconcile_forever(self) -> None:
        await self.intake.wait_until_listed()
        backoff = create_backoff()
        while True:
            await self._gate_removal.wait_until_few()
            # Before the pass and not after it: a change that is noted while the pass awaits an
            # answer requests the next one.
            self._trigger.clear_requests()
            try:
                with mark_busy(ROUND_SECONDS):
                    writes = self.counts.ledger_writes
                has_more = await self.reconcile()
                if len(self.cluster.queue) or self.counts.ledger_writes > writes:
                    self._throttle.note_write()  # an idle pass delays no pod
                backoff.reset()
            except GpupoolError as error:
                log.warning("a round broke off, it is begun anew: %s", error)
                await asyncio.sleep(backoff.pause())
                continue
            if not has_more:
                await self._wait_for_work()

    async def _wait_for_work(self) -> None:
        """Return when a change is noted or some deadline has come, and the throttle allows it."""
        try:
            async with asyncio.timeout(self._seconds_to_deadline()):
                await self._trigger.wait_for_request()
        except TimeoutError:
            return
        await asyncio.sleep(self._throttle.seconds_to_wait())

    def _seconds_to_deadline(self) -> float | None:
        """Seconds until time alone requires a reconciliation; None where nothing does."""
        looks = (
            self._gang_timeouts.next_look(),
            LOOK_SECONDS if len(self.cluster.queue) else None,
            self._unschedulable.next_look(self.cluster),
            self.cluster.handover.next_look(),
            self._failed_cards.next_look(),
            self._pod_removal.next_look(),
            self._ledger_writer.next_look(),
            self._gate_removal.next_look(),
            self.cluster.rejections.next_look(),
            self.reservations.next_look(self._now_ns()),
        )
        deadlines = [seconds for seconds in looks if seconds is not None]
        # A deadline that has passed and changes nothing would otherwise make the loop spin.
        return max(SHORTEST_WAIT_SECONDS, min(deadlines)) if deadlines else None

    async def reconcile(self) -> bool:
        """Do one pass: bring ledgers in line with pods, plan, write, release.

        Idempotent: a pass after a crash repeats what was not written.

        Returns:
            Whether another pass may place more at once.
        """
        # Everything that time alone changes comes before the snapshot, so that one plan sees it all
        # at the same instant.
        if self.tenants.judge_tree():
            self.cluster.note_tenants(self.tenants.tree)
            self._settings_status.note_size()
        self.networks.note_tenants()
        self.cluster.expire_handovers()
        self.cluster.expire_rejections()
        self._ledger_writer.expire_refusals()
        self.reservations.judge_reservations(self.cluster, self._now_ns())
        began = self.wait_stages.clock()
        plan = self._make_plan()
        await self._capacities.write_capacities()
        is_stale = await self._ledger_writer.write_plan(plan)
        placed = (gang.split_job_name(one.job)[0] for one in plan.placements)
        self.wait_stages.note_written(placed, began)
        # Only after the ledgers are written: a release before its entry would start a pod whose
        # cards another pod may get.
        self._gate_removal.enqueue_ready_pods()
        await self._orphaned_ledgers.clean_up()
        await self._pod_removal.evict_pods()
        await self._pod_removal.replace_pods()
        self._tenant_status.update_due(self.cluster)
        self._reservation_status.update_due()
        self._on_demand.note_waiting_pods()
        is_cut_short = len(plan.placements) >= HEADS or self._is_replan_due
        has_more = is_stale or (bool(plan.placements) and is_cut_short)
        self.conditions.note_plan(plan, self._crowded | self._pod_removal.refused, has_more)
        return has_more

    def _make_plan(self) -> Plan:
        now_ns = self._now_ns()
        self._crowded = plan_conflicts.crowded_gangs(self.cluster)
        snapshot = self.cluster.take_snapshot(now_ns, without=self._crowded)
        if not self.settings.in_use.placing:
            return Plan(snapshot.generation, (), {one.key: STOPPED for one in snapshot.waiting})
        promises = self.cluster.promises
        # A new leader takes over the starts that the last one promised, from the settings object;
        # without them it would promise other starts to the same pods.
        if not self.starts.loaded:
            known = self.settings.known or {}
            recorded = (known.get("status") or {}).get("starts") or {}
            promises.by_class = self.starts.load(recorded, snapshot)
            snapshot = replace(snapshot, previous_starts=promises.by_class)
        self.starts.settle_promises(now_ns)
        plan = self._cycles.make_plan(snapshot, now_ns, HEADS, self.settings.in_use.preemption)
        self._settings_status.note_fault(self._cycles.fault)
        promises.keep_promises(plan)
        self.starts.note_plan(plan, now_ns)
        self._settings_status.note_starts(self.starts.to_json())
        self.counts.cycles += 1
        fitting = plan_conflicts.fitting_placements(plan.placements, self.cluster)
        self._is_replan_due = len(fitting) < len(plan.placements)
        return replace(plan, placements=fitting)

    def _forgets_field_managers(self) -> bool:
        return self.settings.in_use.forget_field_managers

    def _count_fault(self, fault: PolicyFault) -> None:
        log.error("%s: %s", fault.sentence, fault.error)
        self.counts.policy_failures += 1


def _loop_seconds() -> float:
    return asyncio.get_running_loop().time()
