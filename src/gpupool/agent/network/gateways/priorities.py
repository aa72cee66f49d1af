"""The priorities of the pair in the northbound database, followed by a thread of its own.

A database that is away blocks this thread alone: the watchdog goes on with what it read last.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any, Final

from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.gateways.model import BFD_OPTIONS, GROUP
from gpupool.network.ovn.session import OvsdbSession

_TABLES: Final = {
    "HA_Chassis_Group": ("name", "ha_chassis"),
    "HA_Chassis": ("chassis_name", "priority", "external_ids"),
    "NB_Global": ("options",),
}
#: What a row says of its last change.
REASON: Final = "gpupool-reason"
#: Seconds between two looks at an idle connection, and between two attempts.
_LOOK_SECONDS: Final = 5.0
_RETRY_SECONDS: Final = 0.2
#: Seconds in which a change is taken, or tried again with what is there by then.
_WRITE_SECONDS: Final = 2.0

log = logging.getLogger(__name__)


class GatewayGroup:
    """The chassis group of all gateways over one connection. One thread."""

    def __init__(self, remote: str) -> None:
        """Connect. Raises NetworkingUnavailable."""
        self.session = OvsdbSession(remote, "OVN_Northbound", _TABLES)

    def read_priorities(self) -> dict[str, int]:
        """Read the priorities by chassis; empty where there is no pair."""
        return {row.chassis_name: row.priority for row in self._list_rows()}

    def read_reasons(self) -> dict[str, str]:
        """Read why each machine came to its role, by chassis."""
        return {row.chassis_name: row.external_ids.get(REASON, "") for row in self._list_rows()}

    def write(self, priorities: Mapping[str, int], reason: str) -> None:
        """Write priorities in one change. Raises NetworkingUnavailable."""

        def change(_transaction: Any) -> None:
            for row in self._list_rows():
                wanted = priorities.get(row.chassis_name, row.priority)
                if wanted != row.priority:
                    row.priority = wanted
                    row.external_ids = {**row.external_ids, REASON: reason}

        self.session.refresh()
        self.session.commit(change, _WRITE_SECONDS)

    def write_bfd(self) -> None:
        """Let tunnels notice a silent machine in 0.3 s. Idempotent; raises NetworkingUnavailable."""

        def change(_transaction: Any) -> None:
            for row in self.session.get_rows("NB_Global").values():
                if not BFD_OPTIONS.items() <= row.options.items():
                    row.options = {**row.options, **BFD_OPTIONS}

        self.session.commit(change, _WRITE_SECONDS)

    def close(self) -> None:
        self.session.close()

    def _list_rows(self) -> list[Any]:
        groups = self.session.get_rows("HA_Chassis_Group").values()
        group = next((one for one in groups if one.name == GROUP), None)
        return [] if group is None else list(group.ha_chassis)


class GatewayPriorities:
    """The priorities as a watchdog needs them: read at once, written by a thread."""

    def __init__(self, remote: str, known: Mapping[str, int]) -> None:
        """Make the object; `start` connects.

        Args:
            known: what an earlier process read last.
        """
        self._remote = remote
        self._lock = threading.Condition()
        self._priorities = dict(known)
        self._reasons = dict[str, str]()
        self._wanted: tuple[dict[str, int], str] | None = None
        self._session: OvsdbSession | None = None
        #: How often what was read came into doubt, and which of these doubts a later read has ended.
        self._doubts = 0
        self._settled = 0
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="priorities", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the thread, within some seconds. Idempotent."""
        self._closing.set()
        self._wake()
        self._thread.join()

    def read(self) -> dict[str, int]:
        """Return what the database had last. Never blocks."""
        with self._lock:
            return dict(self._priorities)

    def find_reason(self, chassis: str) -> str:
        """Return why a machine came to its role; empty where the database does not say."""
        with self._lock:
            return self._reasons.get(chassis, "")

    def doubt(self) -> None:
        """Read all over a new connection: this machine was cut off, and others may have written.

        Never blocks. An old connection would bring their news only after seconds (TCP waits longer
        with each attempt).
        """
        with self._lock:
            self._doubts += 1
        self._wake()

    def is_doubtful(self) -> bool:
        """Whether the priorities may be those of a time before this machine was cut off."""
        with self._lock:
            return self._doubts != self._settled

    def is_writing(self) -> bool:
        """Whether a change is not written yet: the priorities are about to be others."""
        with self._lock:
            return self._wanted is not None

    def wait_until_written(self, seconds: float) -> bool:
        """Block until no change waits; false when the time is over before."""
        with self._lock:
            return self._lock.wait_for(lambda: self._wanted is None, seconds)

    def request(self, priorities: Mapping[str, int], reason: str) -> None:
        """Have priorities written. Never blocks; a later request replaces one that waits."""
        with self._lock:
            self._wanted = (dict(priorities), reason)
        self._wake()

    def _wake(self) -> None:
        with self._lock:
            if self._session is not None:
                self._session.wake()

    def _run(self) -> None:
        while not self._closing.is_set():
            with self._lock:
                doubts = self._doubts
            try:
                group = GatewayGroup(self._remote)
            except NetworkingUnavailable as error:
                log.warning("%s", error.message)
                self._drop_request()
                self._closing.wait(_RETRY_SECONDS)
                continue
            with self._lock:
                self._session = group.session
            try:
                group.session.refresh()
                self._keep(group)
                with self._lock:
                    self._settled = doubts
                group.write_bfd()
                self._follow(group)
            except NetworkingUnavailable as error:
                log.warning("%s", error.message)
            finally:
                self._drop_request()
                with self._lock:
                    self._session = None
                group.close()

    def _follow(self, group: GatewayGroup) -> None:
        while not self._closing.is_set() and not self.is_doubtful():
            group.session.refresh()
            self._keep(group)
            with self._lock:
                wanted = self._wanted
            if wanted is not None:
                group.write(*wanted)
                self._keep(group)
                with self._lock:
                    if self._wanted is wanted:
                        self._wanted = None
                        self._lock.notify_all()
                continue
            group.session.wait(_LOOK_SECONDS)

    def _keep(self, group: GatewayGroup) -> None:
        found = group.read_priorities()
        reasons = group.read_reasons()
        with self._lock:
            self._priorities = found
            self._reasons = reasons

    def _drop_request(self) -> None:
        """Forget a change that could not be written: the watchdog decides again by then."""
        with self._lock:
            self._wanted = None
            self._lock.notify_all()
