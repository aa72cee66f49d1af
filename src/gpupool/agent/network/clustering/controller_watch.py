"""Watches ovn-controller's connection to a cluster of databases, and begins another one where the
controller waits.

The controller doubles its wait for a server, up to 8 s, each time a connection ends that had less
traffic than the wait is long, and has no setting for it. It reads where the servers are at any
time: the same servers in another order begin a connection that tries each of them at once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.switch_ports import open_ports
from gpupool.base.errors import NetworkingUnavailable
from gpupool.base.supervision import SupervisedThread
from gpupool.network.ovn.control import is_controller_connected

#: Seconds between two looks.
_LOOK_SECONDS: Final = 0.25
#: Seconds without a connection until another one is begun; doubled each time, so that a busy
#: machine has the time to connect.
_LEAST_SECONDS: Final = 0.5
_MOST_SECONDS: Final = 8.0

log = logging.getLogger(__name__)


class ControllerWatch:
    """A thread that looks at the controller while it reads a cluster."""

    def __init__(
        self,
        is_connected: Callable[[], bool],
        renew_connection: Callable[[], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_connected = is_connected
        self._renew_connection = renew_connection
        self._now = now
        #: Since when there is no connection, or since the last one was begun; None: there is one.
        self._since: float | None = None
        self._pause = _LEAST_SECONDS
        self._is_wanted = False
        self._has_started = False
        self._closing = threading.Event()
        self._thread = SupervisedThread("network-controller", self._run)

    def follow(self, southbound: str) -> None:
        """Look from now on where the controller connects to a cluster, else no more."""
        self._is_wanted = "," in southbound
        if self._is_wanted and not self._has_started and not self._closing.is_set():
            self._has_started = True
            self._thread.start()

    def close(self) -> None:
        """Stop looking. Idempotent."""
        self._closing.set()
        self._thread.stop()

    def look(self) -> None:
        """Look once."""
        if self._is_connected():
            self._since = None
            self._pause = _LEAST_SECONDS
            return
        now = self._now()
        if self._since is None:
            self._since = now
        elif now - self._since >= self._pause:
            self._since = now
            self._pause = min(2 * self._pause, _MOST_SECONDS)
            self._renew_connection()

    def _run(self) -> None:
        while not self._closing.wait(_LOOK_SECONDS):
            if self._is_wanted:
                try:
                    self.look()
                except NetworkingUnavailable as error:
                    # The switch's database is away; the engine's look says so.
                    log.warning("the controller waits for its servers: %s", error.message)
            self._thread.mark_well()


def watch_controller(files: EngineFiles) -> ControllerWatch:
    """Make the watch of a machine's controller; it does not look yet."""

    def renew_connection() -> None:
        ports = open_ports(files)
        try:
            ports.rotate_servers()
        finally:
            ports.close()

    return ControllerWatch(lambda: is_controller_connected(files.run), renew_connection)
