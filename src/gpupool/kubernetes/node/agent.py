"""The node agent: prepares what the ledger grants, reports the node's state, and frees cards.

It watches its own GpuNode and keeps a copy on disk, so that containers restart while the API server
is away. A container is prepared when the device plugin asks for its slot and the kubelet and the
ledger agree (`slot_identity`). The agent writes the status of its GpuNode and nothing else. If it
dies, shares stay enforced, and the next agent continues from the records on disk.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpupool.base.errors import ApiServerRejection, CardNotReady, GpupoolError
from gpupool.base.silence import mark_busy
from gpupool.base.supervision import supervised_step, watched_task
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.client.informer import watch_objects
from gpupool.kubernetes.client.write_throttle import WriteThrottle
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.metering.gpu_time import GpuTimeRecord
from gpupool.kubernetes.node import cdi
from gpupool.kubernetes.node.card_health import CardHealth
from gpupool.kubernetes.node.container_limits import ContainerReport
from gpupool.kubernetes.node.held_seats import list_held_seats
from gpupool.kubernetes.node.kubelet import KubeletClient, has_processes
from gpupool.kubernetes.node.ledger_copy import LedgerCopy
from gpupool.kubernetes.node.metrics import NodeObservation
from gpupool.kubernetes.node.own_ledger import await_ledger, ensure_ledger
from gpupool.kubernetes.node.plugin_server import PluginServer
from gpupool.kubernetes.node.prepare import EntryPreparer
from gpupool.kubernetes.node.status_source import PieceFinder, StatusSource
from gpupool.kubernetes.node.undoing import undo_preparation
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState, GpuNode, Mode
from gpupool.kubernetes.resources.slot_identity import SlotBooking, find_holders
from gpupool.probes.contract import Machine, Probe

#: Seconds between two sweeps of old CDI files and looks for foreign pieces, and the age at which a
#: file is old. A start reads its file within a moment.
SWEEP_SECONDS = 60.0
#: Seconds between two looks for processes of pods that have ended.
LOOK_SECONDS = 2.0
#: Seconds for which events of one burst are gathered.
QUIET_SECONDS = 0.05
#: The file of the ledger's copy, below the state directory.
COPY = "ledger.json"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AgentPaths:
    """Directories and the socket of the agent on this node."""

    state: Path
    cdi: Path
    socket: Path


class NodeAgent:
    """The agent of one node.

    Requests of the device plugin come from any thread, everything else from the event loop.
    """

    def __init__(
        self,
        api: KubeApi,
        node: str,
        probe: Probe,
        machine: Machine,
        preparing: EntryPreparer,
        kubelet: KubeletClient,
        places: AgentPaths,
        slots: int,
        *,
        find_pieces: PieceFinder,
    ) -> None:
        self._api = api
        self._node = node
        self._health = CardHealth(probe, machine, self._request_report)
        self._preparing = preparing
        self._kubelet = kubelet
        self._places = places
        self._copy = LedgerCopy(places.state / COPY, node)
        self._ledger = self._copy.read_ledger()
        self._spending = GpuTimeRecord(places.state / "spent.json", preparing.measure_gpu_time)
        self._status = StatusSource(
            self._health,
            self._spending,
            machine.topology,
            slots,
            find_pieces=find_pieces,
            is_limited=preparing.is_limited,
            describe_share=preparing.describe_share,
        )
        #: By entry the slot that its container was started with.
        self._slots: dict[tuple[str, str], str] = {}
        self._pods: dict[str, dict[str, Any]] = {}
        #: The status that the server has; None: unknown.
        self._reported: dict[str, Any] | None = None
        self._throttle = WriteThrottle(time.monotonic)
        #: Held while a container is prepared or undone: the plugin asks from many threads, and the
        #: loop releases at the same time.
        self._preparation = threading.Lock()
        self._wake = asyncio.Event()
        self._plugin = PluginServer(
            places.socket, self._prepare_slot, self._limit_container, self._wake.set
        )
        self._synced = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Run until cancelled."""
        for place in (self._places.state, self._places.cdi, self._places.socket.parent):
            place.mkdir(parents=True, exist_ok=True)
        # Inside its container every user may write the usage page of a share; on the host only root
        # may reach it.
        self._places.state.chmod(0o700)
        self._offer_slots()
        await asyncio.to_thread(self._resume_allocations)
        self._health.start()
        try:
            await self._run_tasks()
        finally:
            await asyncio.to_thread(self._health.close)

    def _resume_allocations(self) -> None:
        with supervised_step("agent-start"):
            self._preparing.resume_allocations()

    async def _run_tasks(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            # First, so that containers restart while the API server is away.
            tasks.create_task(self._plugin.serve_forever())
            await await_ledger(self._api, self._node)
            mine = {"fieldSelector": f"metadata.name={self._node}"}
            noted = self._note_ledger, self._synced.set
            tasks.create_task(
                watch_objects(
                    self._api, ledger.NODES, *noted, query=mine, begins=self._forget_report
                )
            )
            tasks.create_task(
                watch_objects(
                    self._api, "/api/v1/nodes", self._note_node, self._wake.set, query=mine
                )
            )
            here = {"fieldSelector": f"spec.nodeName={self._node}"}
            tasks.create_task(
                watch_objects(self._api, "/api/v1/pods", self._note_pod, self._wake.set, query=here)
            )
            tasks.create_task(watched_task("agent-reports", self._report_forever))

    # --- what the ledger says -----------------------------------------------------------------

    def _note_ledger(self, found: dict[str, Any], gone: bool) -> None:
        now = GpuNode(self._node) if gone else GpuNode.from_json(found)
        # Most events are our own reports, which leave the spec as it was. The generation alone does
        # not tell: a restored server counts generations again.
        known = self._ledger
        if gone or (now.version, now.entries) != (known.version, known.entries):
            self._copy.note_ledger(found)
        self._ledger = now
        self._offer_slots()
        self._wake.set()

    def _forget_report(self) -> None:
        """Have the status reported again: the server may come back with an older copy of it."""
        self._reported = None

    def _offer_slots(self) -> None:
        looks_only = self._ledger.mode is Mode.OBSERVE and not self._ledger.entries
        self._plugin.offer_slots(offered=not looks_only)

    def _request_report(self) -> None:
        """Have the loop report a change other than the ledger's. May be called from any thread."""
        self._loop.call_soon_threadsafe(self._wake.set)

    def _note_node(self, found: dict[str, Any], gone: bool) -> None:
        # The kubelet writes its Node every few minutes; a report is sent only if it has changed.
        self._status.note_node(found, gone)
        self._wake.set()

    def _note_pod(self, found: dict[str, Any], gone: bool) -> None:
        uid = found["metadata"]["uid"]
        if gone:
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = found
        self._wake.set()

    # --- what the plugin asks -----------------------------------------------------------------

    def _prepare_slot(self, slot: str) -> str:
        """Make the slot's container ready; return why it has to wait, or nothing. Idempotent."""
        try:
            # The step begins inside the lock: waiting for another container's preparation is not
            # a hang.
            with self._preparation, supervised_step("agent-ready"):
                self._write_slot(slot)
        except GpupoolError as error:
            return f"{error.code}: {error.message}"
        except OSError as error:
            # The record of the preparation, or a file of it, is not on disk.
            return (
                f"{CardNotReady.code}: what the container needs cannot be written: "
                f"{error.strerror}; it is tried again"
            )
        return ""

    def _write_slot(self, slot: str) -> None:
        if self._ledger.mode is Mode.OBSERVE and not self._ledger.entries:
            raise CardNotReady(
                f"node {self._node} is only looked at", hint=f"kubectl gpupool adopt {self._node}"
            )
        # Before the container starts: it may restart after this agent has died, while the API
        # server is away.
        self._copy.store_ledger()
        entries = {entry.key: entry for entry in self._ledger.entries}
        found = find_holders(slot, self._kubelet.read_bookings(), entries, self._kubelet.read_slots)
        devices = {one.booking.device: self._build_device(one.booking, one.entry) for one in found}
        cdi.write_slot_file(self._places.cdi, slot, devices)
        self._slots.update({one.entry.key: slot for one in found})

    def _build_device(self, booking: SlotBooking, entry: Entry) -> dict[str, Any]:
        if failed := self._health.describe_failure(seat.device for seat in entry.seats):
            raise CardNotReady(
                f"{entry.namespace}/{entry.pod}: {failed}",
                hint="its owner's next pod goes elsewhere",
            )
        return cdi.build_device(booking.device, self._preparing.prepare(entry))

    def _limit_container(self, report: ContainerReport) -> str:
        """Put a container under the driver's memory limit; return why it is not in force."""
        with self._preparation, supervised_step("agent-limits"):
            return self._preparing.limit_container(self._ledger.entries, report)

    def list_pods(self) -> list[dict[str, Any]]:
        """The node's pods as the API server has them. May be called from any thread."""
        return list(self._pods.values())

    def observe_node(self) -> NodeObservation:
        """Cards and the containers that hold them now, for metrics.

        Blocks for as long as the driver does. May be called from any thread.
        """
        with supervised_step("agent-metrics"):
            cards = {card.uuid: card for card in self._health.current_cards()}
            held = list_held_seats(self._ledger.entries, self._pods, cards, self._preparing)
            usages = self._health.read_usages()
            return NodeObservation(self._node, tuple(cards.values()), held, usages)

    # --- what it tells ------------------------------------------------------------------------

    async def _report_forever(self) -> None:
        await self._synced.wait()
        swept = 0.0
        while True:
            # Before the look and not after it: a change during the look causes another one.
            self._wake.clear()
            still_running = await asyncio.to_thread(self._release_unused)
            try:
                await self._send_report()
            except GpupoolError as error:
                log.warning("the report is sent later: %s", error)
            if time.monotonic() - swept > SWEEP_SECONDS:
                swept = time.monotonic()
                await asyncio.to_thread(self._sweep)
            await self._wait_for_change(soon=still_running or self._reported is None)

    async def _wait_for_change(self, *, soon: bool) -> None:
        """Wait until something is noted.

        Args:
            soon: look again after `LOOK_SECONDS`: no event says when the last process of a pod has
                ended, or when the server accepts the report.
        """
        try:
            async with asyncio.timeout(LOOK_SECONDS if soon else SWEEP_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return
        # Events come in bursts: a placed pod changes the ledger, the pod and the slot.
        await asyncio.sleep(max(QUIET_SECONDS, self._throttle.seconds_to_wait()))

    def _sweep(self) -> None:
        with mark_busy():
            cdi.remove_stale_files(self._places.cdi, time.time() - SWEEP_SECONDS)
            if self._status.look_for_pieces():
                self._request_report()

    def _release_unused(self) -> bool:
        """Undo preparations without an entry; return whether some could not be undone yet."""
        with self._preparation, mark_busy():
            try:
                self._copy.store_ledger()
            except CardNotReady as error:
                log.warning("%s", error)
            wanted = set()
            for entry in self._ledger.entries:
                if entry.state is not EntryState.DRAINING:
                    wanted.add(entry.key)
            has_running = False
            record = self._preparing.prepared_generations()
            for uid, container in record.keys() - wanted:
                # Reported as free, its cards would be given to the next pod while processes of this
                # one still use them.
                if has_processes(uid):
                    has_running = True
                    continue
                key = uid, container
                if undo_preparation(self._preparing, self._spending, key, record[key]):
                    self._slots.pop(key, None)
                else:
                    has_running = True
            return has_running

    async def _send_report(self) -> None:
        """Write the status if it has changed since the last report."""
        status = await asyncio.to_thread(self._build_status)
        if status == self._reported:
            return
        try:
            with mark_busy():
                await self._api.patch(f"{ledger.NODES}/{self._node}/status", {"status": status})
        except ApiServerRejection as error:
            if not error.is_not_found:
                raise
            # It belonged to an earlier Node of this name and went with it, or it was deleted by
            # hand.
            self._reported = None
            await ensure_ledger(self._api, self._node)
        else:
            self._reported = status
            self._throttle.note_write()

    def _build_status(self) -> dict[str, Any]:
        # Under the lock, so that the reported version and the preparations belong together: the
        # controller frees an entry when this version shows nothing for it.
        with self._preparation, mark_busy():
            record = self._preparing.prepared_generations()
            uses = self._status.collect_uses(record, self._slots, self._ledger.entries)
            observed = self._ledger.version
        return self._status.build_status(uses, self.list_pods(), observed)
