"""Watches the servers of this machine: a dead one is started at once, and the compiler is restarted
when a database has another leader.

ovn-northd doubles its wait up to 8 s each time it meets a server that does not lead, and has no
setting for it. Its start tries every server at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection
from typing import Final

from gpupool.agent.supervisor.client import SupervisorError
from gpupool.base.supervision import SupervisedThread
from gpupool.network.ovn.cluster_control import ClusterStatus

#: Seconds between two looks: a part of how long a change waits after the end of a leader.
_LOOK_SECONDS: Final = 0.1

log = logging.getLogger(__name__)


class LeaderWatch:
    """A thread that looks at the servers: `start`, then `close`."""

    def __init__(
        self,
        databases: Collection[str],
        read_status: Callable[[str], ClusterStatus | None],
        start_servers: Callable[[], None],
        restart_compiler: Callable[[], None],
        lock: threading.RLock,
    ) -> None:
        """Make the watch; nothing is looked at yet.

        Args:
            read_status: how the server of a database is; None: it does not answer.
            lock: held for what is started or ended.
        """
        self._databases = databases
        self._read_status = read_status
        self._start_servers = start_servers
        self._restart_compiler = restart_compiler
        self._lock = lock
        #: By database, term and leader of the last look that found one.
        self._leaders = dict[str, tuple[int, str]]()
        self._closing = threading.Event()
        self._thread = SupervisedThread("network-leaders", self._run)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop looking: a look that is under way begins nothing more. Idempotent."""
        self._closing.set()
        self._thread.stop()

    def look(self) -> None:
        """Look once."""
        found = {name: self._read_status(name) for name in self._databases}
        with self._lock:
            if self._closing.is_set():
                return
            try:
                if None in found.values():
                    self._start_servers()
                if self._note_leaders(found):
                    self._restart_compiler()
            except SupervisorError as error:
                log.error("the databases of this machine: %s", error)

    def _note_leaders(self, found: dict[str, ClusterStatus | None]) -> bool:
        """Whether a database has another leader than at the looks before."""
        has_changed = False
        for name, status in found.items():
            if status is None or not status.leader:
                continue
            leader = (status.term, status.leader)
            if self._leaders.get(name, leader) != leader:
                log.warning("the %s database has another leader: term %d", name, status.term)
                has_changed = True
            self._leaders[name] = leader
        return has_changed

    def _run(self) -> None:
        while not self._closing.wait(_LOOK_SECONDS):
            self.look()
            self._thread.mark_well()
