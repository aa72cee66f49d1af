"""How this node's cards are now, by the same probe as on one machine: it tells of what befalls them, and is asked anew.

One thread waits for the probe. A card that the probe does not name any more has failed: nobody can use it. Knows no
pod and no ledger.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from gpupool.base.errors import GpupoolError
from gpupool.base.silence import ROUND_SECONDS, busy
from gpupool.base.supervised import SupervisedThread
from gpupool.model.device import Device, DeviceUsage, Health
from gpupool.probes.contract import HealthEvent, Machine, Probe

LOOK_SECONDS = 30.0
"""Asked anew at least so often: of what heals, no driver tells."""
GONE = "the driver does not show it any more"

log = logging.getLogger(__name__)
State = tuple[Health, str]


class CardHealth:
    """`changed` is called from a thread of ours whenever some card is something else than before."""

    def __init__(self, probe: Probe, machine: Machine, changed: Callable[[], None]) -> None:
        self._probe, self._changed = probe, changed
        self._cards = {device.uuid: device for device in machine.devices}
        self._closing = threading.Event()
        self._thread = SupervisedThread("agent-health", self._run)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Closes the probe too: that is how the thread wakes."""
        self._closing.set()
        self._probe.close()
        self._thread.join(LOOK_SECONDS)

    def cards(self) -> tuple[Device, ...]:
        """As they are now, in the order of the scan."""
        return tuple(self._cards.values())

    def failed(self, uuids: Iterable[str]) -> str:
        """The first of these cards that has failed, and why, in words; empty where none has."""
        ill = (self._cards[uuid] for uuid in uuids if uuid in self._cards)
        return next((f"card {one.uuid}: {one.health_reason}" for one in ill if one.health is Health.FAILED), "")

    def usages(self) -> Mapping[str, DeviceUsage]:
        """What they do now, by uuid, as far as they say."""
        try:
            return self._probe.observe(list(self._cards))
        except (GpupoolError, OSError) as error:
            log.warning("what the cards do is unknown for now: %s", error)
            return {}

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                with busy(LOOK_SECONDS + ROUND_SECONDS):
                    self._note(self._now(self._probe.wait_events(LOOK_SECONDS)))
            except (GpupoolError, OSError) as error:
                if not self._closing.is_set():
                    log.warning("the health of the cards is unknown for now: %s", error)
                    self._closing.wait(LOOK_SECONDS)

    def _now(self, events: tuple[HealthEvent, ...]) -> Mapping[str, State]:
        """What is known anew: of those that something befell; of all where nothing did, or nobody said to whom."""
        if events and all(event.uuid for event in events):
            return {event.uuid: (event.health, event.reason) for event in events if event.uuid}
        found = {} if self._closing.is_set() else self._probe.health()
        return {uuid: found.get(uuid, (Health.FAILED, GONE)) for uuid in self._cards} if found else {}

    def _note(self, told: Mapping[str, State]) -> None:
        was = dict(self._cards)
        for uuid, (health, reason) in told.items():
            if uuid in self._cards:
                self._cards[uuid] = replace(self._cards[uuid], health=health, health_reason=reason)
        for uuid in (uuid for uuid, card in self._cards.items() if card != was[uuid]):
            log.warning("card %s is %s %s", uuid, self._cards[uuid].health, self._cards[uuid].health_reason)
        if self._cards != was:
            self._changed()
