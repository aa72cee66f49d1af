"""The one timer of the fleet: wakes when a node may have missed its third heartbeat, and never otherwise."""

from __future__ import annotations

import logging
import threading

from gpupool.base.errors import GpupoolError
from gpupool.fleet.service import HEARTBEAT_SECONDS, Fleet

log = logging.getLogger(__name__)


class SilenceWatch:
    """A thread that sleeps until the earliest moment a node can be overdue. `close` waits for it to end."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="silence", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(self._next_seconds()):
            pass

    def _next_seconds(self) -> float:
        try:
            return self._fleet.check_silence()
        except GpupoolError as error:  # a full disk must not end the watch
            log.warning("nodes could not be checked for silence: %s", error)
            return HEARTBEAT_SECONDS
