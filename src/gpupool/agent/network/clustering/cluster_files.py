"""The files and command lines of one machine's databases in a cluster. Pure but for the record.

A cluster has a number, which is in the names of its files: files of an earlier cluster are never
opened by a server of a later one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from gpupool.agent.network.daemons import DATABASE_SCHEMAS, EngineFiles, make_database_server
from gpupool.base.durable import write_durably
from gpupool.mechanisms.contract import HelperProcess

#: By database, the name of its schema.
SCHEMAS: Final[Mapping[str, str]] = {
    "northbound": "OVN_Northbound",
    "southbound": "OVN_Southbound",
}


@dataclass(frozen=True)
class ServerRecord:
    """What a machine has written down of its part in a cluster, before anything else is done.

    Attributes:
        cluster: number of the cluster.
        address: of the machine; all ports are on it.
        ports: by database, where clients connect.
        peer_ports: by database, where the other servers connect.
    """

    cluster: int
    address: str
    ports: Mapping[str, int]
    peer_ports: Mapping[str, int]

    def remote(self, name: str) -> str:
        """Return where clients reach a database."""
        return f"ssl:{self.address}:{self.ports[name]}"

    def peer(self, name: str) -> str:
        """Return where other servers reach a database."""
        return f"ssl:{self.address}:{self.peer_ports[name]}"


def read_record(path: Path) -> ServerRecord | None:
    """Read the record; None where the machine has no part in a cluster."""
    try:
        return ServerRecord(**json.loads(path.read_text()))
    except FileNotFoundError:
        return None


def write_record(path: Path, record: ServerRecord) -> None:
    """Write the record durably."""
    write_durably(path, json.dumps(asdict(record)).encode())


def locate_replica(files: EngineFiles, name: str, cluster: int) -> Path:
    """Return the file of a database in a cluster."""
    return files.data / f"{name}-{cluster}.db"


def make_create_command(
    files: EngineFiles, name: str, record: ServerRecord, target: Path
) -> tuple[str, ...]:
    """Return the command that creates a cluster with what the machine's own database has.

    Without such a database the cluster begins empty.
    """
    own = files.database(name)
    content = str(own) if own.exists() else DATABASE_SCHEMAS[name][0]
    return ("ovsdb-tool", "create-cluster", str(target), content, record.peer(name))


def make_join_command(
    name: str, record: ServerRecord, peers: Sequence[str], target: Path
) -> tuple[str, ...]:
    """Return the command that makes a file with which a server joins a cluster."""
    return ("ovsdb-tool", "join-cluster", str(target), SCHEMAS[name], record.peer(name), *peers)


def make_separate_command(replica: Path, target: Path) -> tuple[str, ...]:
    """Return the command that makes a database without a cluster from one in a cluster."""
    return ("ovsdb-tool", "cluster-to-standalone", str(target), str(replica))


def list_servers(files: EngineFiles, record: ServerRecord) -> tuple[HelperProcess, ...]:
    """Return the servers of a machine's databases in a cluster.

    Where they listen is on their command lines: the databases have the same rows on every machine.
    """
    return tuple(
        make_database_server(
            files,
            name,
            f"--remote=pssl:{record.ports[name]}:{record.address}",
            *files.tls_options,
            replica=locate_replica(files, name, record.cluster),
        )
        for name in SCHEMAS
    )
