"""Takes what the watches report into the cluster cache, and requests a reconciliation if needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterator
from typing import Any

from gpupool.kubernetes.cache import kubelet_rejections, ledger_restore
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.informer import watch_objects
from gpupool.kubernetes.controller import plan_entries
from gpupool.kubernetes.controller.change_filter import is_agent_progress, is_expected_progress
from gpupool.kubernetes.controller.gate_removal import GateRemoval
from gpupool.kubernetes.controller.ledger_writer import LedgerWriter
from gpupool.kubernetes.controller.reconcile_trigger import ReconcileTrigger
from gpupool.kubernetes.controller.wait_stages import WaitStages
from gpupool.kubernetes.eviction.failed_cards import FailedCards
from gpupool.kubernetes.eviction.unschedulable_pods import UnschedulablePods
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.reporting.counters import ControllerCounters
from gpupool.kubernetes.reporting.events import EventWriter
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pod import Pod, read_pod
from gpupool.kubernetes.resources.pool_settings import SETTINGS, PoolSettings
from gpupool.kubernetes.resources.tenant import TENANTS, TenantRegistry
from gpupool.kubernetes.status.reservations import RESERVATIONS, ReservationRegistry
from gpupool.kubernetes.status.settings import SettingsStatus

PODS = "/api/v1/pods"
#: Kinds of objects that must have been listed before the first plan: a pod without its ledger would
#: get its cards twice.
LISTS = ("nodes", "ledgers", "tenants", "reservations", "settings", "pods")

log = logging.getLogger(__name__)


class ChangeIntake:
    """The watches of one leading controller, and a handler for each kind of object.

    A handler takes the object as the API server has it and whether it was deleted. `connect` must
    be called before the watches run.
    """

    def __init__(
        self,
        api: KubeApi,
        cluster: ClusterCache,
        settings: PoolSettings,
        tenants: TenantRegistry,
        reservations: ReservationRegistry,
        counts: ControllerCounters,
        events: EventWriter,
        trigger: ReconcileTrigger,
    ) -> None:
        self._api = api
        self._cluster = cluster
        self._settings = settings
        self._tenants = tenants
        self._reservations = reservations
        self._counts = counts
        self._events = events
        self._trigger = trigger
        #: By kind of object, set once all objects were listed.
        self.lists = {name: asyncio.Event() for name in LISTS}

    def connect_parts(
        self,
        gate_removal: GateRemoval,
        ledger_writer: LedgerWriter,
        failed_cards: FailedCards,
        unschedulable: UnschedulablePods,
        settings_status: SettingsStatus,
        wait_stages: WaitStages,
    ) -> None:
        """Name the parts that changes are passed on to; some of them call this object back."""
        self._gate_removal = gate_removal
        self._ledger_writer = ledger_writer
        self._failed_cards = failed_cards
        self._unschedulable = unschedulable
        self._settings_status = settings_status
        self._wait_stages = wait_stages

    def iterate_watches(self) -> Iterator[Coroutine[Any, Any, None]]:
        """One coroutine for each kind of object; each runs until the server is away."""
        for path, note, synced in (
            ("/api/v1/nodes", self.note_node, self.lists["nodes"].set),
            (TENANTS, self.note_tenant, self._note_tenants_listed),
            (SETTINGS, self.note_settings, self.lists["settings"].set),
            (RESERVATIONS, self.note_reservation, self.lists["reservations"].set),
        ):
            yield watch_objects(self._api, path, note, synced, lasting=False)
        yield watch_objects(
            self._api,
            ledger.NODES,
            self._note_watched_ledger,
            self.lists["ledgers"].set,
            listed=self._note_listed_ledger,
            begins=self._ledger_writer.note_relist,
            lasting=False,
        )
        managed = {"labelSelector": f"{names.MANAGED}=true"}
        yield watch_objects(
            self._api, PODS, self.note_pod, self.lists["pods"].set, query=managed, lasting=False
        )

    async def wait_until_listed(self) -> None:
        """Return once every kind of object was listed."""
        for listed in self.lists.values():
            await listed.wait()

    # --- nodes and ledgers --------------------------------------------------------------------

    def note_node(self, found: dict[str, Any], gone: bool) -> None:
        """Take a Node."""
        name = found["metadata"]["name"]
        before = self._cluster.hosts.get(name)
        now = None if gone else NodeFacts.from_json(found)
        if before != now:
            self._cluster.note_host(name, now)
            self._trigger.request_now()

    def _note_listed_ledger(self, found: dict[str, Any], gone: bool) -> None:
        sure = found["metadata"]["name"] not in self._ledger_writer.answered
        self.note_ledger(found, gone, sure=sure)

    def _note_watched_ledger(self, found: dict[str, Any], gone: bool) -> None:
        # The watch often reports our own write before its answer arrives. Taken as a change, it
        # would be parsed twice and cause a reconciliation.
        if not self._ledger_writer.defer_event(found, gone):
            self.note_ledger(found, gone)

    def note_ledger(self, found: dict[str, Any], gone: bool, *, sure: bool = False) -> None:
        """Take a GpuNode.

        Args:
            sure: it was read after the known one (`ClusterCache.note_ledger`).
        """
        name = found["metadata"]["name"]
        before = self._cluster.ledgers.get(name)
        # A list tells of a deletion that no watch has seen by the name alone.
        version = found["metadata"].get("resourceVersion")
        # The same version is read again after each list. One that only its answer's metadata told
        # (`assumed`) is parsed: an admission webhook may have changed what was written.
        if before is not None and not gone and not before.assumed and before.written == version:
            return
        now = None if gone else GpuNode.from_json(found, ledger.reuse_entries(found, before))
        if before != now and self._cluster.note_ledger(name, now, sure=sure):
            self.note_cards(name, before, now)
            # Agents prepare each pod right after it was placed: a reconciliation for each report
            # would plan the same queue again and again.
            if is_agent_progress(before, now):
                self._trigger.request_soon()
            else:
                self._trigger.request_now()

    def note_cards(self, name: str, before: GpuNode | None, now: GpuNode | None) -> None:
        """Compare what the node's agent reports.

        Also called for answers to our own writes: they carry the agent's newest report.
        """
        self._failed_cards.note_ledger(name, now)
        self._events.report_ledger_change(before, now)
        self._settings_status.note_ledger(before, now)

    def note_restored_entry(self, pod: Pod, node: str) -> None:
        """Report that a released pod without an entry has one again on `node`."""
        log.warning(
            "%s/%s was let go to %s without an entry in its ledger, and has one",
            pod.namespace,
            pod.name,
            node,
        )
        self._counts.restorations += 1
        entries = self._cluster.entries_of(pod.uid)
        cards = plan_entries.placement_annotation(node, entries)[names.PLACED]
        note = f"{ledger_restore.LOST}; now it has cards again: {cards}"
        self._events.report_pod(pod, "EntryRestored", note, warning=True)

    # --- tenants, reservations, settings ------------------------------------------------------

    def note_tenant(self, found: dict[str, Any], gone: bool) -> None:
        """Take a Tenant."""
        if self._tenants.note_tenant(found, gone):
            self._trigger.request_now()

    def _note_tenants_listed(self) -> None:
        self._tenants.mark_listed()
        self.lists["tenants"].set()
        self._trigger.request_now()

    def note_reservation(self, found: dict[str, Any], gone: bool) -> None:
        """Take a Reservation."""
        if self._reservations.note_reservation(found, gone):
            self._trigger.request_now()

    def note_settings(self, found: dict[str, Any], gone: bool) -> None:
        """Take the PoolSettings object."""
        if self._settings.note_settings(found, gone):
            now = self._settings.in_use
            log.info("settings in use: %s", now.to_json())
            self._cluster.policy = now.policy
            self._unschedulable.grace = now.replace_seconds
            self._trigger.request_now()
        self._settings_status.wake.set()

    # --- pods ---------------------------------------------------------------------------------

    def note_pod(self, found: dict[str, Any], gone: bool) -> None:
        """Take a managed pod. A version that our own release has reported is skipped."""
        known = self._cluster.pods.get(found["metadata"]["uid"])
        if known is None or gone or known.version != found["metadata"]["resourceVersion"]:
            self._take_pod(found, gone, known)

    def note_release(self, pod: Pod) -> None:
        """Take a pod that this controller has just released; the watch reports it again later."""
        self._gate_removal.note_gated_pod(pod.uid, None)
        self._wait_stages.note_released(pod.uid)
        self._cluster.note_pod(pod.uid, pod)
        self._trigger.request_soon()

    def _take_pod(self, found: dict[str, Any], gone: bool, before: Pod | None) -> None:
        uid = found["metadata"]["uid"]
        pod = None if gone else read_pod(found)
        is_gated = pod is not None and pod.gated
        self._gate_removal.note_gated_pod(uid, found if is_gated else None)
        if pod is None:
            self._wait_stages.forget_pod(uid)
        elif pod.gated:
            self._wait_stages.note_queued(uid)
        else:
            self._wait_stages.note_released(uid)
        self._cluster.note_pod(uid, pod)
        # Once, at the change: a new leader lists rejected pods whose event was written before.
        if pod is not None and pod.kubelet_rejection and before is not None and not before.ended:
            note = kubelet_rejections.rejection_message(pod)
            self._events.report_pod(pod, "TurnedAway", note, warning=True)
        if is_expected_progress(before, pod, self._cluster.ledger_node_of(uid)):
            self._trigger.request_soon()
        else:
            self._trigger.request_now()
