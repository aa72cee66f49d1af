"""Networks of a pool for benches: as values, and as rows of a pool's database that are read back."""

import sqlite3
from collections.abc import Iterable, Mapping
from ipaddress import IPv4Network
from pathlib import Path

from gpupool.network.model import Network, Port, Subnet, make_domain
from gpupool.network.reading import read_networks
from gpupool.server.migrate import prepare_database
from gpupool.store.database import connect, sqlite_url

PORTS = 4
PREFIX = IPv4Network("10.0.0.0/24")
#: Bytes that a packet of a network can have: those of Geneve less than 1500.
MTU = 1442


def make_network(number: int) -> Network:
    """Make a network with four ports; each has the same prefix."""
    subnet = Subnet(number, f"s-{number:010}", "default", PREFIX, PREFIX[1])
    first = number * PORTS
    ports = tuple(
        Port(first + each, f"n-{first + each:010}", subnet.key, PREFIX[10 + each], f"job-{each}")
        for each in range(PORTS)
    )
    name = f"net{number}"
    return Network(f"v-{number:010}", name, make_domain(name), MTU, (subnet,), ports, id=number)


class NetworkRows:
    """The database of a pool that has many networks and nothing else."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._engine = connect(sqlite_url(file))
        prepare_database(self._engine, 1, "p-many")

    def close(self) -> None:
        self._engine.dispose()

    def add(self, networks: Iterable[Network]) -> None:
        """Write networks with their ports, which no allocations belong to."""
        # Without the product's connection, which enforces foreign keys.
        with sqlite3.connect(self._file) as connection:
            for network in networks:
                _insert(connection, "networks", _make_row(network))
                for subnet in network.subnets:
                    row = {"id": subnet.id, "public_id": subnet.key, "network_id": network.id}
                    row |= {"name": subnet.name, "cidr": str(subnet.cidr)}
                    _insert(connection, "subnets", row)
                    for port in network.ports:
                        _insert(connection, "network_ports", _make_port_row(network, subnet, port))

    def read(self) -> list[Network]:
        """Read all networks, as the pool's reconciler does."""
        with self._engine.connect() as connection:
            return list(read_networks(connection).values())


def _make_row(network: Network) -> dict[str, object]:
    return {
        "id": network.id,
        "public_id": network.key,
        "tenant_id": 1,
        "name": network.name,
        "mtu": network.mtu,
        "created_ns": 0,
    }


def _make_port_row(network: Network, subnet: Subnet, port: Port) -> dict[str, object]:
    return {
        "id": port.id,
        "public_id": port.key,
        "network_id": network.id,
        "subnet_id": subnet.id,
        "allocation_id": port.id,
        "address": str(port.address),
        "name": port.name,
    }


def _insert(connection: sqlite3.Connection, table: str, row: Mapping[str, object]) -> None:
    columns = ", ".join(row)
    marks = ", ".join("?" for _ in row)
    connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(row.values()))
