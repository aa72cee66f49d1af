"""Decides when bandwidth limits are enforced and read back again: what a switch lost is put back."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.limiting.port_limits import PortLimits
from gpupool.agent.network.switch_ports import SwitchPorts
from gpupool.base.errors import NetworkingUnavailable
from gpupool.wire.network.promises import LimitReading, LimitWork

#: Seconds between two looks at limits that are in force, at least; and how often the time that a
#: look took: with many limits it takes a twentieth of the time.
_CALM_SECONDS: Final = 5.0
_CALM_LOOKS: Final = 20

log = logging.getLogger(__name__)


class LimitWatch:
    """The limits of an engine that runs. One thread at a time."""

    def __init__(self, files: EngineFiles) -> None:
        self._files = files
        self._limits = PortLimits(files)
        self._due = 0.0
        self._switch = ""
        #: Whether ports may have limits: also those that an earlier agent set.
        self._has_any = True

    def is_due(self) -> bool:
        """Whether it is time to look again: some are not in force, or the switch was restarted."""
        if not self._has_any:
            return False
        return time.monotonic() >= self._due or self._read_switch() != self._switch

    def apply(self, limits: Sequence[LimitWork]) -> list[LimitReading]:
        """Enforce limits, and return what was read back; each has the reason where it is not."""
        if not limits and not self._has_any:
            return []
        begin = time.monotonic()
        self._switch = self._read_switch()
        try:
            # A connection of its own: that of the jobs waits for their ports.
            ports = SwitchPorts(self._files.remote("switch"))
            try:
                readings = self._limits.apply(ports, limits)
            finally:
                ports.close()
        except (NetworkingUnavailable, OSError) as error:
            log.warning("bandwidth limits wait for the switch: %s", error)
            reason = str(error)[:200]
            readings = [
                LimitReading(key=limit.key, in_reason=reason, out_reason=reason) for limit in limits
            ]
        else:
            self._has_any = bool(limits)
        is_calm = not any(reading.in_reason or reading.out_reason for reading in readings)
        end = time.monotonic()
        pause = max(_CALM_SECONDS, _CALM_LOOKS * (end - begin))
        self._due = end + (pause if is_calm else 0)
        return readings

    def _read_switch(self) -> str:
        """Read the process id of the switch; empty while there is none."""
        try:
            return (self._files.run / "ovs-vswitchd.pid").read_text().strip()
        except FileNotFoundError:
            return ""
