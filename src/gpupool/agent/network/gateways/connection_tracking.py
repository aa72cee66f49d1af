"""Lets the kernel's connection tracking go on with connections that another machine had meanwhile.

A machine that gets gateways back still knows their connections as they were when it had them last.
By its default the kernel takes what the other side has acknowledged since for forged, and drops it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from gpupool.agent.network.namespaces import enter_namespace
from gpupool.base.durable import write_durably

#: Of nf_conntrack-sysctl in the kernel's documentation; each network namespace has its own.
_LIBERAL: Final = Path("/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal")

log = logging.getLogger(__name__)


class ConnectionTracking:
    """The setting of one machine, and of the namespace of its switch."""

    def __init__(self, record: Path, switch: Path) -> None:
        """Make the object; nothing changes yet.

        Args:
            record: file for what the machine had before.
            switch: network namespace of the switch, which the pool made.
        """
        self._record = record
        self._switch = switch

    def set_up(self) -> None:
        """Accept TCP segments outside of known windows. Idempotent.

        Where the kernel refuses that, moves of gateways end connections and nothing else.
        """
        try:
            if not self._record.exists():
                write_durably(self._record, _LIBERAL.read_bytes())
            _LIBERAL.write_text("1")
            with enter_namespace(self._switch):
                # A switch in user space has its own tracking, and its namespace may have none.
                if _LIBERAL.exists():
                    _LIBERAL.write_text("1")
        except OSError as error:
            log.warning("moves of gateways may end connections: %s", error)

    def restore(self) -> None:
        """Set what the machine had before. Idempotent; raises OSError."""
        if self._record.exists():
            _LIBERAL.write_bytes(self._record.read_bytes())
            self._record.unlink()
