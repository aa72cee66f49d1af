"""Keeps the health of this node's cards current: the probe reports events and is polled.

One thread waits for the probe. A card that the probe does not report any more has failed. The
module knows no pods and no ledger.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from gpupool.base.errors import GpupoolError
from gpupool.base.silence import ROUND_SECONDS, mark_busy
from gpupool.base.supervision import SupervisedThread
from gpupool.model.device import Device, DeviceHealth, DeviceUsage
from gpupool.probes.contract import HealthEvent, Machine, Probe

#: Seconds between two polls of all cards: no driver reports an event when a card recovers.
LOOK_SECONDS = 30.0
#: Reason for a card that the probe does not report any more.
GONE = "the driver does not show it any more"

log = logging.getLogger(__name__)
State = tuple[DeviceHealth, str]


class CardHealth:
    """The cards of one node. `changed` is called from a thread of this object after every
    change."""

    def __init__(self, probe: Probe, machine: Machine, changed: Callable[[], None]) -> None:
        self._probe = probe
        self._changed = changed
        self._cards = {device.uuid: device for device in machine.devices}
        self._closing = threading.Event()
        self._thread = SupervisedThread("agent-health", self._watch_cards)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread; closes the probe too, because that wakes the thread."""
        self._closing.set()
        self._probe.close()
        self._thread.join(LOOK_SECONDS)

    def current_cards(self) -> tuple[Device, ...]:
        """The cards as they are now, in the order of the scan."""
        return tuple(self._cards.values())

    def describe_failure(self, uuids: Iterable[str]) -> str:
        """Name the first of these cards that has failed, and why; empty if none has."""
        for uuid in uuids:
            one = self._cards.get(uuid)
            if one is not None and one.health is DeviceHealth.FAILED:
                return f"card {one.uuid}: {one.health_reason}"
        return ""

    def read_usages(self) -> Mapping[str, DeviceUsage]:
        """What the cards do now, by uuid, as far as the driver reports it. Blocks."""
        try:
            return self._probe.observe(list(self._cards))
        except (GpupoolError, OSError) as error:
            log.warning("what the cards do is unknown for now: %s", error)
            return {}

    def _watch_cards(self) -> None:
        while not self._closing.is_set():
            try:
                with mark_busy(LOOK_SECONDS + ROUND_SECONDS):
                    events = self._probe.wait_events(LOOK_SECONDS)
                    self._note_states(self._read_states(events))
            except (GpupoolError, OSError) as error:
                if not self._closing.is_set():
                    log.warning("the health of the cards is unknown for now: %s", error)
                    self._closing.wait(LOOK_SECONDS)

    def _read_states(self, events: tuple[HealthEvent, ...]) -> Mapping[str, State]:
        """Return the new states: of the cards that the events name, or of all cards."""
        # Without events it is time for a poll; an event without a card may be about any of them.
        if events and all(event.uuid for event in events):
            states = {}
            for event in events:
                if event.uuid:
                    states[event.uuid] = (event.health, event.reason)
            return states
        # The closed probe reports no card, which must not be taken for a failure of all.
        found = {} if self._closing.is_set() else self._probe.health()
        return (
            {uuid: found.get(uuid, (DeviceHealth.FAILED, GONE)) for uuid in self._cards}
            if found
            else {}
        )

    def _note_states(self, states: Mapping[str, State]) -> None:
        was = dict(self._cards)
        for uuid, (health, reason) in states.items():
            if uuid in self._cards:
                self._cards[uuid] = replace(self._cards[uuid], health=health, health_reason=reason)
        for uuid, card in self._cards.items():
            if card != was[uuid]:
                log.warning("card %s is %s %s", uuid, card.health, card.health_reason)
        if self._cards != was:
            self._changed()
