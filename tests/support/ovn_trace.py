"""Packets through compiled networks by the real ovn-trace, without privileges and without a switch."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from gpupool.network.model import Network, Port, make_router_mac
from gpupool.network.northbound import compile_network, name_port
from gpupool.network.ovn.northbound_database import NorthboundDatabase
from gpupool.network.rows import plan_changes
from tests.support.ovsdb import DatabaseServer
from tests.support.supervised import until

_SCHEMA = "/usr/share/ovn/ovn-sb.ovsschema"


class TracedNetworks:
    """Both databases and northd, with the rows of these networks."""

    def __init__(self, networks: Iterable[Network]) -> None:
        self._networks = tuple(networks)
        self._directory = tempfile.TemporaryDirectory(prefix="gpo-")
        self._place = Path(self._directory.name)
        self._southbound = f"unix:{self._place}/sb.sock"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._northbound: DatabaseServer | None = None

    def __enter__(self) -> Self:
        place = self._place
        self._northbound = DatabaseServer(place)
        subprocess.run(["ovsdb-tool", "create", f"{place}/sb.db", _SCHEMA], check=True)
        self._start(
            *("ovsdb-server", f"{place}/sb.db", f"--remote=p{self._southbound}"),
            f"--unixctl={place}/sb.ctl",
        )
        until(lambda: (place / "sb.sock").exists(), "the southbound database")
        self._start(
            *("ovn-northd", f"--ovnnb-db={self._northbound.remote}"),
            *(f"--ovnsb-db={self._southbound}", f"--unixctl={place}/northd.ctl"),
        )
        database = NorthboundDatabase(self._northbound.remote, "p")
        try:
            database.apply(
                {one.key: plan_changes(compile_network(one), {}) for one in self._networks}
            )
        finally:
            database.close()
        self._northbound.command("--wait=sb", "sync")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait(10)
        if self._northbound is not None:
            self._northbound.kill()
        self._directory.cleanup()

    def trace(self, network: Network, source: Port, target: str) -> list[str]:
        """Return the ports at which a TCP packet leaves; none: it is dropped."""
        (subnet,) = network.subnets
        packet = [
            f'inport == "{name_port(source.key)}"',
            f"eth.src == {source.mac}",
            f"eth.dst == {make_router_mac(subnet)}",
            f"ip4.src == {source.address}",
            f"ip4.dst == {target}",
            "ip.ttl == 64",
            "tcp",
            "tcp.dst == 443",
        ]
        words = ["ovn-trace", f"--db={self._southbound}", "--minimal", "--ct=new"]
        words += [f"gpupool-{subnet.key}", " && ".join(packet)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=True)
        return re.findall(r'output\("([^"]+)"\)', done.stdout)

    def _start(self, *words: str) -> None:
        self._processes.append(subprocess.Popen([*words, "-vconsole:off"]))
