"""Reports what the machine shows of planes, with each heartbeat: a reading that is not renewed ends."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from gpupool.agent.network.planes.host_reader import read_planes
from gpupool.probes.contract import Machine
from gpupool.wire.network.planes import PlaneReading

log = logging.getLogger(__name__)


class Machines(Protocol):
    """The machines that an agent serves, by node."""

    @property
    def machines(self) -> Mapping[str, Machine]: ...


class PlaneReports:
    """Reads and reports. One thread."""

    def __init__(
        self, nodes: Machines, report: Callable[[PlaneReading], None], root: Path = Path("/")
    ) -> None:
        """Make the object; nothing is read yet.

        Args:
            report: queues a reading for the server; never blocks.
            root: of the machine's files.
        """
        self._nodes = nodes
        self._report = report
        self._root = root

    def report(self) -> None:
        """Read the machine and queue what it shows. Of simulated machines there is nothing to read."""
        for node, machine in self._nodes.machines.items():
            if machine.simulated:
                continue
            try:
                reading = read_planes(self._root, node)
            except (OSError, ValueError) as error:
                # The server takes the last reading for too old after a while.
                log.warning("planes of %s cannot be read: %s", node, error)
                continue
            if reading is not None:
                self._report(reading)
