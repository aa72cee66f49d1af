"""The agent of one node: makes ready what the ledger says, tells what is there, and says when a card is free again.

It watches its own GpuNode and keeps a copy on disk, so that containers restart while the API server is away. A
container is started when the plugin of slots asks and everything agrees (`identity`). It writes its GpuNode's status
and nothing else. An agent that dies leaves everything as it is: shares stay held, and the next one takes up what is on
record.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpupool.base.durable import write_durably
from gpupool.base.errors import ApiRefused, CardNotReady, GpupoolError
from gpupool.base.silence import busy
from gpupool.base.supervised import supervised_step, watched_task
from gpupool.kubernetes import cdi, ledger
from gpupool.kubernetes.api import KubeApi
from gpupool.kubernetes.card_health import CardHealth
from gpupool.kubernetes.identity import Booking, holders
from gpupool.kubernetes.kubelet import Kubelet, runs
from gpupool.kubernetes.node_metrics import Seen, held_of
from gpupool.kubernetes.node_report import status_of
from gpupool.kubernetes.objects import Entry, EntryState, GpuNode, Mode
from gpupool.kubernetes.pace import Pace
from gpupool.kubernetes.preparing import Preparing
from gpupool.kubernetes.reported import SlotUse
from gpupool.kubernetes.slots import HANDED_OUT
from gpupool.kubernetes.spending import Spending
from gpupool.kubernetes.watch import keep
from gpupool.probes.contract import Machine, Probe

SWEEP_SECONDS = 60.0
LOOK_SECONDS = 2.0
"""How often the processes of pods that are over are looked for."""
QUIET_SECONDS = 0.05
COPY = "ledger.json"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Places:
    """Where things are on this node."""

    state: Path
    cdi: Path
    socket: Path


class NodeAgent:
    """One node's. Requests of the plugin come from any thread, all else from the event loop."""

    def __init__(
        self,
        api: KubeApi,
        node: str,
        probe: Probe,
        machine: Machine,
        preparing: Preparing,
        kubelet: Kubelet,
        places: Places,
        slots: int,
    ) -> None:
        self._api, self._node, self._machine = api, node, machine
        self._health = CardHealth(probe, machine, self._look)
        self._preparing, self._kubelet, self._places, self._slot_count = preparing, kubelet, places, slots
        self._ledger = _read_copy(places.state / COPY, node)
        self._spending = Spending(places.state / "spent.json", preparing.spent_ms)
        self._to_copy: dict[str, Any] | None = None
        """The ledger as it is to be copied to disk: by a thread, since that waits for the disk."""
        self._slots: dict[tuple[str, str], str] = {}
        self._pods: dict[str, dict[str, Any]] = {}
        self._told: dict[str, Any] | None = None
        self._pace = Pace(time.monotonic)
        self._one = threading.Lock()
        self._wake = asyncio.Event()
        self._synced = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Until it is cancelled."""
        for place in (self._places.state, self._places.cdi, self._places.socket.parent):
            place.mkdir(parents=True, exist_ok=True)
        self._places.state.chmod(0o700)  # in a container its usage page is anybody's; on the host, nobody's but ours
        self._offer()
        await asyncio.to_thread(self._take_up)
        self._health.start()
        try:
            await self._work()
        finally:
            await asyncio.to_thread(self._health.close)

    def _take_up(self) -> None:
        with supervised_step("agent-start"):
            self._preparing.take_up()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen())
            await self._appear()
            mine = {"fieldSelector": f"metadata.name={self._node}"}
            noted = self._note, self._synced.set
            tasks.create_task(keep(self._api, ledger.NODES, *noted, query=mine, begins=self._forget_told))
            here = {"fieldSelector": f"spec.nodeName={self._node}"}
            tasks.create_task(keep(self._api, "/api/v1/pods", self._note_pod, self._wake.set, query=here))
            tasks.create_task(watched_task("agent-reports", self._reports))

    # --- what the ledger says -----------------------------------------------------------------

    async def _appear(self) -> None:
        """Have a GpuNode; it begins as one that is only looked at."""
        if await ledger.read(self._api, self._node) is None:
            owner = await self._api.get(f"/api/v1/nodes/{self._node}")
            await self._api.create(ledger.NODES, ledger.new_node(self._node, owner))

    def _note(self, found: dict[str, Any], gone: bool) -> None:
        now = GpuNode(self._node) if gone else GpuNode.from_json(found)
        if now.version != self._ledger.version or gone:
            self._to_copy = found
        self._ledger = now
        self._offer()
        self._wake.set()

    def _forget_told(self) -> None:
        """The server was away, and may come back with an older copy of what was told."""
        self._told = None

    def _offer(self) -> None:
        """Whether the plugin hands out slots: it does what the file says, also while no agent runs."""
        place = self._places.socket.with_name(HANDED_OUT)
        if self._ledger.mode is Mode.OBSERVE and not self._ledger.entries:
            place.unlink(missing_ok=True)
        else:
            place.touch()

    def _look(self) -> None:
        """Something else than the ledger has changed; from any thread."""
        self._loop.call_soon_threadsafe(self._wake.set)

    def _note_pod(self, found: dict[str, Any], gone: bool) -> None:
        uid = found["metadata"]["uid"]
        if gone:
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = found
        self._wake.set()

    # --- what the plugin asks -----------------------------------------------------------------

    async def _listen(self) -> None:
        self._places.socket.unlink(missing_ok=True)
        server = await asyncio.start_unix_server(self._answer, self._places.socket)
        os.chmod(self._places.socket, 0o600)
        async with server:
            await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            slot = str(json.loads(await reader.readline())["slot"])
            refused = await asyncio.to_thread(self._ready, slot)
            writer.write(json.dumps({"refused": refused}).encode() + b"\n")
            await writer.drain()
        except (ValueError, KeyError, TypeError, ConnectionError) as error:
            log.warning("a question that cannot be read: %r", error)
        finally:
            writer.close()
        self._wake.set()

    def _ready(self, slot: str) -> str:
        """Make the slot's container ready; empty, or why it has to wait. Twice is once."""
        try:
            with self._one, supervised_step("agent-ready"):  # who waits for the lock does not hang
                self._bind(slot)
        except GpupoolError as error:
            return f"{error.code}: {error.message}"
        except OSError as error:  # the note of what is prepared, or a file of it, is not on disk
            return (
                f"{CardNotReady.code}: what the container needs cannot be written: {error.strerror}; it is tried again"
            )
        return ""

    def _bind(self, slot: str) -> None:
        if self._ledger.mode is Mode.OBSERVE and not self._ledger.entries:
            raise CardNotReady(f"node {self._node} is only looked at", hint=f"kubectl gpupool adopt {self._node}")
        self._copy()
        entries = {entry.key: entry for entry in self._ledger.entries}
        found = holders(slot, self._kubelet.bookings(), entries, self._kubelet.slots)
        devices = {one.booking.device: self._device(one.booking, one.entry) for one in found}
        cdi.write(self._places.cdi, slot, devices)
        self._slots.update({one.entry.key: slot for one in found})

    def _copy(self) -> None:
        """Have what is known of the ledger on disk, before a container relies on it. Raises CardNotReady."""
        found, self._to_copy = self._to_copy, None
        if found is None:
            return
        try:
            write_durably(self._places.state / COPY, json.dumps(found).encode())
        except OSError as error:
            self._to_copy = self._to_copy or found
            raise CardNotReady(
                f"the copy of the ledger of {self._node} cannot be written: {error.strerror}",
                hint=f"free space below {self._places.state}",
            ) from None

    def _device(self, booking: Booking, entry: Entry) -> dict[str, Any]:
        if failed := self._health.failed(seat.device for seat in entry.seats):
            raise CardNotReady(f"{entry.namespace}/{entry.pod}: {failed}", hint="its owner's next pod goes elsewhere")
        return cdi.device(booking.device, self._preparing.prepare(entry))

    def pods(self) -> list[dict[str, Any]]:
        """The node's pods as the API server has them. From any thread."""
        return list(self._pods.values())

    def seen(self) -> Seen:
        """Cards and who has them now, for metrics; blocks for as long as the driver does. From any thread."""
        with supervised_step("agent-metrics"):
            return self._seen()

    def _seen(self) -> Seen:
        cards = {card.uuid: card for card in self._health.cards()}
        bound = [entry for entry in self._ledger.entries if entry.uid in self._pods]
        counted = [(entry, self._preparing.usage(entry)) for entry in bound]
        held = [
            held_of(entry, seat, cards[seat.device], said)
            for entry, said in counted
            for seat in entry.seats
            if seat.device in cards
        ]
        return Seen(self._node, tuple(cards.values()), held, self._health.usages())

    # --- what it tells ------------------------------------------------------------------------

    async def _reports(self) -> None:
        await self._synced.wait()
        swept = 0.0
        while True:
            self._wake.clear()
            over = await asyncio.to_thread(self._give_back)
            try:
                await self._tell()
            except GpupoolError as error:
                log.warning("the report is sent later: %s", error)
            if time.monotonic() - swept > SWEEP_SECONDS:
                swept = time.monotonic()
                await asyncio.to_thread(self._sweep)
            await self._next(busy=over or self._told is None)

    async def _next(self, *, busy: bool) -> None:
        """Until something is noted; for a moment only while processes of pods that are over may still run."""
        try:
            async with asyncio.timeout(LOOK_SECONDS if busy else SWEEP_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            return
        await asyncio.sleep(max(QUIET_SECONDS, self._pace.rest()))

    def _sweep(self) -> None:
        with busy():
            cdi.sweep(self._places.cdi, time.time() - SWEEP_SECONDS)

    def _give_back(self) -> bool:
        """Undo what nobody needs any more; whether something is left that still runs."""
        with self._one, busy():
            try:
                self._copy()
            except CardNotReady as error:
                log.warning("%s", error)
            wanted = {entry.key for entry in self._ledger.entries if entry.state is not EntryState.DRAINING}
            left = False
            record = self._preparing.on_record()
            for uid, container in record.keys() - wanted:
                if runs(uid):
                    left = True
                    continue
                self._spending.close((uid, container), record[uid, container])
                self._preparing.undo(uid, container)
                self._slots.pop((uid, container), None)
            return left

    async def _tell(self) -> None:
        """One write, and only where something changed."""
        status = await asyncio.to_thread(self._status)
        if status == self._told:
            return
        try:
            with busy():
                await self._api.patch(f"{ledger.NODES}/{self._node}/status", {"status": status})
        except ApiRefused as error:
            if not error.gone:
                raise
            self._told = None
            await self._appear()  # it was that of a Node of this name that is gone, or somebody deleted it
        else:
            self._told = status
            self._pace.wrote()

    def _status(self) -> dict[str, Any]:
        with self._one, busy():
            record = self._preparing.on_record()
            spent = self._spending.so_far(record)
            used = [
                SlotUse(*key, self._slots.get(key, ""), generation, gpu_ms=spent.get(key))
                for key, generation in sorted(record.items())
            ]
            used += self._spending.over({entry.key for entry in self._ledger.entries}, record)
            observed = self._ledger.version
        return status_of(self._health.cards(), self._machine.topology, used, self.pods(), self._slot_count, observed)


def _read_copy(place: Path, node: str) -> GpuNode:
    """The ledger as it was known last; an empty one where nothing is known."""
    try:
        return GpuNode.from_json(json.loads(place.read_text()))
    except (FileNotFoundError, ValueError, KeyError):
        return GpuNode(node)
