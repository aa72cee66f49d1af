"""Writes Events about pods and nodes (`events.k8s.io/v1`), which `kubectl describe` shows.

Events are written beside the main work, at a limited rate. An event that cannot be written is
dropped, and placement never waits for it. Its name is derived from what it is about, so a new
leader repeats none, and a repeated event increases the count of the existing one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import socket
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gpupool.base.errors import ApiServerRejection, GpupoolError
from gpupool.base.silence import mark_busy
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.reporting.counters import ControllerCounters
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import GpuNode, Mode
from gpupool.kubernetes.resources.pod import Pod
from gpupool.model.device import DeviceHealth

PER_SECOND = 5.0
BURST = 25.0
#: More are not kept: the oldest are dropped.
MOST_DUE = 256
REMEMBERED = 4096
#: The namespace of events about what has none.
NODES_IN = "default"
WELL = (DeviceHealth.OK, DeviceHealth.WARNING)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Event:
    """One thing to tell. `about` tells it from others of that reason and object; told again, the
    first note stays."""

    kind: str
    namespace: str
    name: str
    uid: str
    reason: str
    note: str
    about: str = ""
    warning: bool = False
    #: Of its kind.
    version: str = "v1"

    @property
    def object_name(self) -> str:
        said = hashlib.sha256(f"{self.uid}/{self.reason}/{self.about}".encode()).hexdigest()[:16]
        return f"{self.name[:200]}.{said}"

    @property
    def path(self) -> str:
        return f"/apis/events.k8s.io/v1/namespaces/{self.namespace or NODES_IN}/events"

    def to_json(self, now_ns: int, instance: str, part: str = "controller") -> dict[str, Any]:
        place = {"namespace": self.namespace} if self.namespace else {}
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": self.object_name, "namespace": self.namespace or NODES_IN},
            "eventTime": format_micro_time(now_ns),
            "reportingController": f"{names.GROUP}/{part}",
            "reportingInstance": instance[:128],
            "action": self.reason,
            "reason": self.reason,
            "regarding": {
                "apiVersion": self.version,
                "kind": self.kind,
                "name": self.name,
                "uid": self.uid,
                **place,
            },
            "note": self.note[:1024],
            "type": "Warning" if self.warning else "Normal",
        }


def format_micro_time(now_ns: int) -> str:
    """As a MicroTime."""
    return datetime.fromtimestamp(now_ns / NANOS_PER_SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass
class EventWriter:
    """What is to be told. `now_ns` is the wall clock, `part` of gpupool tells it."""

    api: KubeApi
    counts: ControllerCounters
    now_ns: Callable[[], int]
    part: str = "controller"
    _due: OrderedDict[str, Event] = field(default_factory=OrderedDict)
    #: By name, how often.
    _told: OrderedDict[str, int] = field(default_factory=OrderedDict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def pending_events(self) -> list[Event]:
        """Not written yet, oldest first."""
        return list(self._due.values())

    def report_pod(
        self, pod: Pod, reason: str, note: str, about: str = "", *, warning: bool = False
    ) -> None:
        self.enqueue_event(
            Event("Pod", pod.namespace, pod.name, pod.uid, reason, note, about, warning)
        )

    def report_node(
        self, name: str, reason: str, note: str, about: str = "", *, warning: bool = False
    ) -> None:
        """With the name for a uid, as kubelets do it: `describe` looks for both."""
        self.enqueue_event(Event("Node", "", name, name, reason, note, about, warning))

    def report_waiting_ledger(self, name: str, uid: str, note: str) -> None:
        """Of a ledger itself: its Node is gone."""
        self.enqueue_event(
            Event(
                "GpuNode",
                "",
                name,
                uid,
                "LedgerWaits",
                note,
                note,
                warning=True,
                version=names.API_VERSION,
            )
        )

    def report_ledger_change(self, before: GpuNode | None, now: GpuNode | None) -> None:
        """What became of a node: taken in or let go, a card lost or back. Of a first look there is
        nothing to tell."""
        if before is None or now is None:
            return
        if (before.mode is Mode.OBSERVE) != (now.mode is Mode.OBSERVE):
            if now.mode is Mode.OBSERVE:
                self.report_node(now.name, "Released", "gpupool only looks at this node now")
            else:
                self.report_node(
                    now.name,
                    "Adopted",
                    f"gpupool hands out its {len(now.cards)} cards, in mode {now.mode.value}",
                )
        if not (before.ready and now.ready):
            return
        had = set()
        for card in before.cards:
            if card.health in WELL:
                had.add(card.uuid)
        has = {card.uuid: card for card in now.cards}
        for uuid in sorted(had - has.keys()):
            self.report_node(
                now.name, "CardLost", f"{uuid} is not there any more", uuid, warning=True
            )
        for uuid, card in has.items():
            if uuid in had and card.health not in WELL:
                why = card.health_reason or card.health.value
                self.report_node(
                    now.name, "CardLost", f"{uuid} is given to nobody: {why}", uuid, warning=True
                )
            elif (
                uuid not in had
                and card.health in WELL
                and any(one.uuid == uuid for one in before.cards)
            ):
                self.report_node(now.name, "CardBack", f"{uuid} is well again", uuid)

    def enqueue_event(self, event: Event) -> None:
        """Have it written; in the event loop."""
        self._due.pop(event.object_name, None)
        self._due[event.object_name] = event
        while len(self._due) > MOST_DUE:
            self._due.popitem(last=False)
        self._wake.set()

    async def run(self) -> None:
        """Writes what is due, at its pace; until it is cancelled."""
        loop = asyncio.get_running_loop()
        left = BURST
        since = loop.time()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._due:
                left = min(BURST, left + (loop.time() - since) * PER_SECOND)
                since = loop.time()
                if left < 1:
                    await asyncio.sleep((1 - left) / PER_SECOND)
                    continue
                left -= 1
                _, event = self._due.popitem(last=False)
                with mark_busy():
                    await self._write(event)

    async def _write(self, event: Event) -> None:
        known = self._told.pop(event.object_name, 0)
        self._told[event.object_name] = known + 1
        while len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        self.counts.event_writes += 1
        try:
            if known and await self._raise_count(event, known + 1):
                return
            self._told[event.object_name] = 1
            await self.api.create(
                event.path, event.to_json(self.now_ns(), socket.gethostname(), self.part)
            )
        except ApiServerRejection as error:
            if not error.is_conflict:  # else one who led before has told it
                self._told.pop(event.object_name)
                log.debug("the event %s of %s is refused: %s", event.reason, event.name, error)
        except GpupoolError as error:
            self._told.pop(event.object_name)
            log.info("the event %s of %s is not written: %s", event.reason, event.name, error)

    async def _raise_count(self, event: Event, count: int) -> bool:
        """Count the event once more; False if it has expired, by default after an hour."""
        series = {"count": count, "lastObservedTime": format_micro_time(self.now_ns())}
        try:
            await self.api.patch(f"{event.path}/{event.object_name}", {"series": series})
        except ApiServerRejection as error:
            if error.is_not_found:
                return False
            raise
        return True
