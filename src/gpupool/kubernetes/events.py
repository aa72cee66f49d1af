"""Events on pods and nodes, as `kubectl describe` shows them (`events.k8s.io/v1`): what was done and why, for people.

They are written beside the work, at a pace of their own; what cannot be written is dropped and placing never waits
for it. An event's name is made of what it is about, so a new leader tells nothing twice, and the same thing happening
again counts up on the one that is there.
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

from gpupool.base.errors import ApiRefused, GpupoolError
from gpupool.base.silence import busy
from gpupool.kubernetes import names
from gpupool.kubernetes.api import KubeApi
from gpupool.kubernetes.counts import Counts
from gpupool.kubernetes.objects import GpuNode, Mode
from gpupool.kubernetes.pods import Pod
from gpupool.model.device import Health

PER_SECOND, BURST = 5.0, 25.0
MOST_DUE = 256
"""More are not kept: the oldest are dropped."""
REMEMBERED = 4096
NODES_IN = "default"
"""The namespace of events about what has none."""
WELL = (Health.OK, Health.WARNING)

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Event:
    """One thing to tell. `about` tells it from others of that reason and object; told again, the first note stays."""

    kind: str
    namespace: str
    name: str
    uid: str
    reason: str
    note: str
    about: str = ""
    warning: bool = False
    version: str = "v1"
    """Of its kind."""

    @property
    def called(self) -> str:
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
            "metadata": {"name": self.called, "namespace": self.namespace or NODES_IN},
            "eventTime": stamp(now_ns),
            "reportingController": f"{names.GROUP}/{part}",
            "reportingInstance": instance[:128],
            "action": self.reason,
            "reason": self.reason,
            "regarding": {"apiVersion": self.version, "kind": self.kind, "name": self.name, "uid": self.uid, **place},
            "note": self.note[:1024],
            "type": "Warning" if self.warning else "Normal",
        }


def stamp(now_ns: int) -> str:
    """As a MicroTime."""
    return datetime.fromtimestamp(now_ns / 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass
class Events:
    """What is to be told. `now_ns` is the wall clock, `part` of gpupool tells it."""

    api: KubeApi
    counts: Counts
    now_ns: Callable[[], int]
    part: str = "controller"
    _due: OrderedDict[str, Event] = field(default_factory=OrderedDict)
    _told: OrderedDict[str, int] = field(default_factory=OrderedDict)
    """By name, how often."""
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def due(self) -> list[Event]:
        """Not written yet, oldest first."""
        return list(self._due.values())

    def pod(self, pod: Pod, reason: str, note: str, about: str = "", *, warning: bool = False) -> None:
        self.tell(Event("Pod", pod.namespace, pod.name, pod.uid, reason, note, about, warning))

    def node(self, name: str, reason: str, note: str, about: str = "", *, warning: bool = False) -> None:
        """With the name for a uid, as kubelets do it: `describe` looks for both."""
        self.tell(Event("Node", "", name, name, reason, note, about, warning))

    def ledger_waits(self, name: str, uid: str, note: str) -> None:
        """Of a ledger itself: its Node is gone."""
        self.tell(Event("GpuNode", "", name, uid, "LedgerWaits", note, note, warning=True, version=names.API_VERSION))

    def ledger(self, before: GpuNode | None, now: GpuNode | None) -> None:
        """What became of a node: taken in or let go, a card lost or back. Of a first look there is nothing to tell."""
        if before is None or now is None:
            return
        if (before.mode is Mode.OBSERVE) != (now.mode is Mode.OBSERVE):
            if now.mode is Mode.OBSERVE:
                self.node(now.name, "Released", "gpupool only looks at this node now")
            else:
                self.node(
                    now.name, "Adopted", f"gpupool hands out its {len(now.cards)} cards, in mode {now.mode.value}"
                )
        if not (before.ready and now.ready):
            return
        had = {card.uuid for card in before.cards if card.health in WELL}
        has = {card.uuid: card for card in now.cards}
        for uuid in sorted(had - has.keys()):
            self.node(now.name, "CardLost", f"{uuid} is not there any more", uuid, warning=True)
        for uuid, card in has.items():
            if uuid in had and card.health not in WELL:
                why = card.health_reason or card.health.value
                self.node(now.name, "CardLost", f"{uuid} is given to nobody: {why}", uuid, warning=True)
            elif uuid not in had and card.health in WELL and any(one.uuid == uuid for one in before.cards):
                self.node(now.name, "CardBack", f"{uuid} is well again", uuid)

    def tell(self, event: Event) -> None:
        """Have it written; in the event loop."""
        self._due.pop(event.called, None)
        self._due[event.called] = event
        while len(self._due) > MOST_DUE:
            self._due.popitem(last=False)
        self._wake.set()

    async def run(self) -> None:
        """Writes what is due, at its pace; until it is cancelled."""
        loop = asyncio.get_running_loop()
        left, since = BURST, loop.time()
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._due:
                left, since = min(BURST, left + (loop.time() - since) * PER_SECOND), loop.time()
                if left < 1:
                    await asyncio.sleep((1 - left) / PER_SECOND)
                    continue
                left -= 1
                _, event = self._due.popitem(last=False)
                with busy():
                    await self._write(event)

    async def _write(self, event: Event) -> None:
        known = self._told.pop(event.called, 0)
        self._told[event.called] = known + 1
        while len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        self.counts.event_writes += 1
        try:
            if known:
                series = {"count": known + 1, "lastObservedTime": stamp(self.now_ns())}
                await self.api.patch(f"{event.path}/{event.called}", {"series": series})
            else:
                await self.api.create(event.path, event.to_json(self.now_ns(), socket.gethostname(), self.part))
        except ApiRefused as error:
            if not error.conflict:  # else one who led before has told it
                self._told.pop(event.called)
                log.debug("the event %s of %s is refused: %s", event.reason, event.name, error)
        except GpupoolError as error:
            self._told.pop(event.called)
            log.info("the event %s of %s is not written: %s", event.reason, event.name, error)
