"""The databases of an engine on the machine that is its centre, and where they listen.

They listen only in a pool of several machines, on the address of the machine's tunnels, and only
over TLS.
"""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from typing import Final

from gpupool.agent.jobs.helpers import HelperProcesses
from gpupool.agent.network.daemons import (
    CENTRE_DATABASES,
    EngineFiles,
    list_centre_databases,
    make_compiler,
)
from gpupool.base.durable import write_durably
from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.ovn.control import listen_on, remove_chassis
from gpupool.wire.network.networks import NetworkEngineWork

#: What the helpers' records name as their user.
_USER: Final = "centre"
#: Ports that are tried, from OVN's usual ones on: another pool of the machine may have some.
_PORTS: Final = range(6641, 6741)
_SCHEMAS: Final = {"northbound": "OVN_Northbound", "southbound": "OVN_Southbound"}


class Centre:
    """The databases of one engine and the compiler between them."""

    def __init__(self, files: EngineFiles, root: Path, helpers: HelperProcesses) -> None:
        self._files = files
        self._record = root / "ports"
        self._helpers = helpers

    def start(self) -> None:
        """Start what does not run. Idempotent. Raises SupervisorError."""
        self._helpers.start(
            _USER, (*list_centre_databases(self._files), make_compiler(self._files))
        )

    def listen(self, address: str, work: NetworkEngineWork) -> dict[str, str]:
        """Let the databases listen on an address, and forget machines that are no members.

        Idempotent.

        Returns:
            Where each database is reached, by its name.

        Raises:
            NetworkingUnavailable: no port is free, or a database does not answer.
        """
        ports = self._read_ports(address) or self._choose_ports(address)
        for name, schema in _SCHEMAS.items():
            listen_on(self._files.remote(name), schema, [f"pssl:{ports[name]}:{address}"])
        remove_chassis(self._files.remote("southbound"), {work.chassis, *work.members})
        return {name: f"ssl:{address}:{port}" for name, port in ports.items()}

    def close(self, work: NetworkEngineWork) -> None:
        """Let the databases listen nowhere. Idempotent. Raises NetworkingUnavailable."""
        if not self._record.exists():
            return
        for name, schema in _SCHEMAS.items():
            listen_on(self._files.remote(name), schema, [])
        remove_chassis(self._files.remote("southbound"), {work.chassis})
        self._record.unlink()

    def remove(self) -> None:
        """End the databases and remove them: another machine is the centre. Idempotent.

        Raises SupervisorError where one does not end.
        """
        self._helpers.release(_USER)
        for name in CENTRE_DATABASES:
            self._files.database(name).unlink(missing_ok=True)
        self._record.unlink(missing_ok=True)

    def _read_ports(self, address: str) -> dict[str, int] | None:
        try:
            known, *ports = self._record.read_text().split()
        except FileNotFoundError:
            return None
        return dict(zip(_SCHEMAS, map(int, ports), strict=True)) if known == address else None

    def _choose_ports(self, address: str) -> dict[str, int]:
        """Choose free ports and write them down: members find the databases there again."""
        free = (port for port in _PORTS if _is_free(address, port))
        ports = dict(zip(_SCHEMAS, free, strict=False))
        if len(ports) < len(_SCHEMAS):
            raise NetworkingUnavailable(
                f"no two ports of {address} from {_PORTS[0]} to {_PORTS[-1]} are free"
            )
        write_durably(self._record, f"{address} {' '.join(map(str, ports.values()))}\n".encode())
        return ports


def _is_free(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise NetworkingUnavailable(f"cannot listen on {address}: {error}") from error
    return True
