"""Read from a running QEMU in which state its guest is, and at which port its SSH is reached."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from gpupool.vm.qmp import QmpConnection

#: A line of `info usernet`: protocol[state], descriptor, source address and port, destination.
_FORWARD = re.compile(r"TCP\[HOST_FORWARD\]\s+\d+\s+(\S+)\s+(\d+)\s+\S+\s+22\s")


@dataclass(frozen=True)
class LiveVm:
    """What a running QEMU says of its guest.

    Attributes:
        status: QEMU's word for the guest's state, as `running`.
        address: Host and port at which the guest's SSH is reached; None without a network.
    """

    status: str
    address: tuple[str, int] | None

    @property
    def address_text(self) -> str | None:
        """Return the address as `host:port`."""
        return None if self.address is None else f"{self.address[0]}:{self.address[1]}"


def read_live_vm(control: Path) -> LiveVm:
    """Ask QEMU. Blocks for the deadlines of QMP. Raises VmUnreachable."""
    with QmpConnection(control) as connection:
        status = connection.execute("query-status")["status"]
        # QMP has no command for it: the text of the human monitor is what there is.
        usernet = connection.execute("human-monitor-command", **{"command-line": "info usernet"})
    return LiveVm(status, parse_ssh_address(usernet))


def parse_ssh_address(usernet: str) -> tuple[str, int] | None:
    """Find the forwarded SSH port in what `info usernet` prints."""
    found = _FORWARD.search(usernet)
    return None if found is None else (found[1], int(found[2]))
