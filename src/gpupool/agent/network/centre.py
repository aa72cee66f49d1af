"""The databases of an engine on the machine that is its centre, and where they listen.

They listen only in a pool of several machines, on the address of the machine's tunnels, and only
over TLS.
"""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Collection, Sequence
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
from gpupool.network.ovn.credentials import show_certificate
from gpupool.wire.network.engine import NetworkEngineWork

#: What the helpers' records name as their user.
_USER: Final = "centre"
#: Ports that are tried, from OVN's usual ones on: another pool of the machine may have some.
_PORTS: Final = range(6641, 6741)
_SCHEMAS: Final = {"northbound": "OVN_Northbound", "southbound": "OVN_Southbound"}

log = logging.getLogger(__name__)


def has_own_databases(work: NetworkEngineWork) -> bool:
    """Whether a machine has the databases alone: the centre, unless they are a cluster."""
    is_in_cluster = work.databases is not None and work.databases.step != "prepare"
    return work.role == "centre" and not work.southbound and not is_in_cluster


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

    def stop(self) -> None:
        """End the databases and the compiler; their files stay. Idempotent."""
        self._helpers.release(_USER)

    def open(self, address: str, work: NetworkEngineWork) -> dict[str, str]:
        """Let the databases be reached, where the machine has them, and forget other machines.

        Idempotent.

        Args:
            address: of the machine's tunnels; empty where the pool has one machine.

        Returns:
            Where they are, as a report says it.

        Raises:
            NetworkingUnavailable: no port is free, or a database does not answer.
        """
        if not has_own_databases(work):
            _forget_machines(work)
            return {}
        places = {"northbound": self._files.remote("northbound")}
        if address:
            remotes = self.listen(address, work)
            places["northbound_tls"] = remotes["northbound"]
            places["southbound"] = remotes["southbound"]
        else:
            self.close(work)
        return places

    def listen(self, address: str, work: NetworkEngineWork) -> dict[str, str]:
        """Let the databases listen on an address, and forget machines that are no members.

        Idempotent.

        Returns:
            Where each database is reached, by its name.

        Raises:
            NetworkingUnavailable: no port is free, or a database does not answer.
        """
        ports = self.read_ports(address)
        if ports is None:
            ports = choose_ports(address, list(_SCHEMAS))
            # Members find the databases there again.
            text = f"{address} {' '.join(map(str, ports.values()))}\n"
            write_durably(self._record, text.encode())
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
        self.stop()
        for name in CENTRE_DATABASES:
            self._files.database(name).unlink(missing_ok=True)
        self._record.unlink(missing_ok=True)

    def read_ports(self, address: str) -> dict[str, int] | None:
        """Return where the databases have listened on an address; None where they have not."""
        try:
            known, *ports = self._record.read_text().split()
        except FileNotFoundError:
            return None
        return dict(zip(_SCHEMAS, map(int, ports), strict=True)) if known == address else None


def _forget_machines(work: NetworkEngineWork) -> None:
    """Remove the rows of machines that are no members from a cluster's database."""
    if not work.southbound or work.certificate is None:
        return
    show_certificate(**work.certificate.model_dump())
    try:
        remove_chassis(work.southbound, {work.chassis, *work.members})
    except NetworkingUnavailable as error:
        # A cluster without a majority: the next work does it.
        log.warning("rows of machines that are no members stay: %s", error.message)


def choose_ports(address: str, names: Sequence[str], taken: Collection[int] = ()) -> dict[str, int]:
    """Choose a free port of an address for each name.

    Args:
        taken: ports that are not chosen although they are free.

    Raises:
        NetworkingUnavailable: there are too few, or the machine has no such address.
    """
    free = (port for port in _PORTS if port not in taken and _is_free(address, port))
    ports = dict(zip(names, free, strict=False))
    if len(ports) < len(names):
        raise NetworkingUnavailable(
            f"fewer than {len(names)} ports of {address} from {_PORTS[0]} to {_PORTS[-1]} are free"
        )
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
