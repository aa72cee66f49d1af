"""Waits for events of NVIDIA cards, and remembers the worst of each card.

NVML cannot end a wait for an event, and can be closed only when none is under way. So a long wait
is made of slices, and goes on while a step needs NVML closed. Events of that time are lost; what
they did to a card is in its counters.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from gpupool.base.errors import ProbeSuspended
from gpupool.model.device import DeviceHealth
from gpupool.model.faults.diagnosis import judge_xid
from gpupool.probes.contract import HealthEvent
from gpupool.probes.nvml.driver import NvmlDriver
from gpupool.probes.nvml.recovery import read_recovery

#: Seconds of one wait in the driver; shorter than `gate.CLOSE_SECONDS`.
SLICE_SECONDS = 5.0
#: Health from the best to the worst; a card has the worst that is known of it.
_GRAVITY = (DeviceHealth.UNKNOWN, DeviceHealth.OK, DeviceHealth.WARNING, DeviceHealth.FAILED)


class CardEvents:
    """The events of all cards of a driver. One thread waits; the others are thread-safe."""

    def __init__(self, driver: NvmlDriver) -> None:
        self._driver = driver
        self._events: Any = None
        #: Of the event set, which ends with a shutdown of NVML.
        self._epoch = -1
        self._watched = False
        self._lost_told = False
        self._worst: dict[str | None, tuple[DeviceHealth, str]] = {}
        self._closed = threading.Event()
        self._waiting = threading.Lock()

    def get_worst(self, uuid: str) -> tuple[DeviceHealth, str]:
        """Return the worst health that an event of a card told."""
        return self._worst.get(uuid, (DeviceHealth.OK, ""))

    def wait(self, timeout_seconds: float) -> tuple[HealthEvent, ...]:
        """Block until an event, the timeout or `close`.

        Raises:
            ServiceUnavailable: the driver does not start.
        """
        deadline = time.monotonic() + timeout_seconds
        with self._waiting:
            while not self._closed.is_set():
                left = deadline - time.monotonic()
                if left <= 0:
                    break
                try:
                    found = self._wait_slice(min(left, SLICE_SECONDS))
                except ProbeSuspended:
                    self._driver.gate.await_end(min(left, SLICE_SECONDS))
                    continue
                if found is None:
                    # The driver would be asked again and again without a pause.
                    self._closed.wait(left)
                elif found:
                    return found
        return ()

    def close(self) -> None:
        """End the wait, and return when no thread waits any more. Idempotent."""
        self._closed.set()
        with self._waiting:
            if self._driver.gate.is_current(self._epoch):
                self._driver.ask(self._driver.nvml.nvmlEventSetFree, self._events)
            self._events = None
            self._epoch = -1

    def _wait_slice(self, seconds: float) -> tuple[HealthEvent, ...] | None:
        """Wait for one event; None where there is no use in waiting again."""
        with self._driver.session():
            if self._epoch != self._driver.epoch:
                self._epoch = self._driver.epoch
                self._register()
            nvml = self._driver.nvml
            if not self._watched:
                return None  # waiting on an empty set would return at once
            data, error = self._driver.try_call(
                nvml.nvmlEventSetWait, self._events, int(seconds * 1000)
            )
            if data is not None:
                return (self._build_event(data),)
        if error == nvml.NVML_ERROR_GPU_IS_LOST and not self._lost_told:
            self._lost_told = True
            return (HealthEvent(None, DeviceHealth.FAILED, "the driver has lost a card"),)
        return () if error == nvml.NVML_ERROR_TIMEOUT else None

    def _register(self) -> None:
        """Register every card for what it can report."""
        nvml = self._driver.nvml
        self._watched = False
        self._events = self._driver.ask(nvml.nvmlEventSetCreate)
        wanted = nvml.nvmlEventTypeXidCriticalError | nvml.nvmlEventTypeDoubleBitEccError
        for _, handle in self._driver.iterate_handles() if self._events is not None else ():
            kinds = (self._driver.ask(nvml.nvmlDeviceGetSupportedEventTypes, handle) or 0) & wanted
            _, error = self._driver.try_call(
                nvml.nvmlDeviceRegisterEvents, handle, kinds, self._events
            )
            self._watched = self._watched or (kinds != 0 and error is None)

    def _build_event(self, data: Any) -> HealthEvent:
        """Return the event and the card's health after it."""
        # A harmless event does not heal a card that failed before.
        uuid = self._driver.read_uuid(data.device) or None
        xid = (
            int(data.eventData)
            if data.eventType == self._driver.nvml.nvmlEventTypeXidCriticalError
            else None
        )
        # What the driver recommends may be graver than what the number says, or come later with
        # XID 154 alone.
        recovery = None if xid is None else read_recovery(self._driver, data.device)
        judged = (
            (DeviceHealth.WARNING, "uncorrected memory error")
            if xid is None
            else judge_xid(xid, recovery)
        )
        worst = max(
            self._worst.get(uuid, judged), judged, key=lambda found: _GRAVITY.index(found[0])
        )
        if uuid is not None and worst[0] is not DeviceHealth.OK:
            self._worst[uuid] = worst
        return HealthEvent(uuid, worst[0], judged[1], xid, recovery)
