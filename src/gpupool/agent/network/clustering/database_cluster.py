"""This machine's part in the cluster of databases: created, joined, served and given up.

Each step may be the first of an agent that was killed in the step before: what is written down and
what is on disk say how far it was. Files are made under another name and renamed.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Final

from gpupool.agent.jobs.helpers import HelperProcesses
from gpupool.agent.network.centre import Centre, choose_ports
from gpupool.agent.network.clustering.cluster_files import (
    SCHEMAS,
    ServerRecord,
    list_servers,
    locate_replica,
    make_create_command,
    make_join_command,
    make_separate_command,
    read_record,
    write_record,
)
from gpupool.agent.network.clustering.leader_watch import LeaderWatch
from gpupool.agent.network.daemons import EngineFiles, make_compiler
from gpupool.base.durable import write_durably
from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.ovn.cluster_control import (
    ClusterStatus,
    expel_servers,
    read_cluster_status,
)
from gpupool.wire.network.databases import (
    DatabaseReplica,
    DatabaseServerReport,
    DatabaseServerWork,
)
from gpupool.wire.network.engine import NetworkEngineWork

#: What the helpers' records name as their users.
_SERVERS: Final = "cluster"
_COMPILER: Final = "compiler"
#: Seconds in which a server joins, and a leader removes one; both go on by themselves.
_JOIN_SECONDS: Final = 5.0
_EXPEL_SECONDS: Final = 1.0
#: Seconds that a conversion of a database takes at most.
_TOOL_SECONDS: Final = 60.0

log = logging.getLogger(__name__)


class DatabaseCluster:
    """The servers of one machine. `apply` and `watch` are called by one thread."""

    def __init__(
        self, files: EngineFiles, root: Path, helpers: HelperProcesses, centre: Centre
    ) -> None:
        """Make the object; nothing runs yet.

        Args:
            root: the engine's directory.
            centre: databases without a cluster, from which one is created and which follow one.
        """
        self._files = files
        self._record = root / "cluster"
        self._compiler_record = root / "compiler"
        self._helpers = helpers
        self._centre = centre
        #: Held while servers or the compiler are started or ended.
        self._lock = threading.RLock()
        self._watch: LeaderWatch | None = None

    def apply(self, work: NetworkEngineWork, address: str) -> DatabaseServerReport | None:
        """Be the server that is wanted, or none. Idempotent; blocks until it has joined.

        Args:
            address: of the machine's tunnels, which the other servers reach.

        Returns:
            How the server is; None where the machine is none.

        Raises:
            NetworkingUnavailable: no port is free, or the machine has another address than before.
            SupervisorError: a process does not start or end.
        """
        wanted = work.databases
        record = read_record(self._record)
        if record is not None and (wanted is None or record.cluster != wanted.cluster):
            # The databases of a centre go on without a cluster, or begin the next one.
            self._give_up(record, keeps_content=work.role == "centre" and not work.southbound)
            record = None
        if wanted is None:
            return None
        if wanted.step == "serve" and not self._has_files(record):
            self._forget(record)
            return DatabaseServerReport(cluster=wanted.cluster, is_lost=True)
        if wanted.step == "prepare" and record is not None and self._has_some_file(record):
            # Of a server that was removed from this cluster; it joins as another one.
            self._forget(record)
            record = None
        if record is None:
            record = self._choose_ports(wanted.cluster, address)
        if record.address != address:
            raise NetworkingUnavailable(
                f"the databases of this machine are servers at {record.address}, and its address "
                f"is {address} now",
                hint="gpupool network enable --databases  without this machine, then with it",
            )
        if wanted.step != "prepare":
            self._make_files(record, wanted)
            self._start(record, work)
            self._await_membership()
        return self.watch(work)

    def watch(self, work: NetworkEngineWork) -> DatabaseServerReport | None:
        """Start what has ended, remove servers that are expelled, and return how the server is."""
        wanted = work.databases
        record = read_record(self._record)
        if wanted is None:
            return None
        if record is None:
            return DatabaseServerReport(cluster=wanted.cluster, is_lost=wanted.step == "serve")
        if wanted.step != "prepare":
            self._start(record, work)
            self._expel(wanted)
        replicas = {
            name: _describe_replica(record.peer(name), self._read_status(name)) for name in SCHEMAS
        }
        return DatabaseServerReport(
            cluster=record.cluster,
            northbound_remote=record.remote("northbound"),
            southbound_remote=record.remote("southbound"),
            **replicas,
        )

    def close(self) -> None:
        """Stop watching; what runs goes on. Idempotent."""
        watch = self._watch
        self._watch = None
        if watch is not None:
            watch.close()

    def _has_files(self, record: ServerRecord | None) -> bool:
        return record is not None and all(
            locate_replica(self._files, name, record.cluster).exists() for name in SCHEMAS
        )

    def _has_some_file(self, record: ServerRecord) -> bool:
        return any(locate_replica(self._files, name, record.cluster).exists() for name in SCHEMAS)

    def _choose_ports(self, cluster: int, address: str) -> ServerRecord:
        """Choose ports and write them down: clients go on where the centre has listened."""
        own = self._centre.read_ports(address) or choose_ports(address, list(SCHEMAS))
        peers = choose_ports(address, list(SCHEMAS), set(own.values()))
        record = ServerRecord(cluster, address, own, peers)
        write_record(self._record, record)
        return record

    def _make_files(self, record: ServerRecord, wanted: DatabaseServerWork) -> None:
        if self._has_files(record):
            return
        # Nothing may change in what is copied.
        self._centre.stop()
        for name in SCHEMAS:
            replica = locate_replica(self._files, name, record.cluster)
            if replica.exists():
                continue
            target = replica.with_suffix(".tmp")
            if wanted.step == "create":
                command = make_create_command(self._files, name, record, target)
            else:
                command = make_join_command(name, record, getattr(wanted.peers, name), target)
            _make_file(command, target, replica)

    def _start(self, record: ServerRecord, work: NetworkEngineWork) -> None:
        """Start servers and compiler where they do not run, and watch them. Idempotent."""
        wanted = work.databases
        with self._lock:
            self._helpers.start(_SERVERS, list_servers(self._files, record))
            if wanted is not None and wanted.northbound and work.southbound:
                self._start_compiler(wanted.northbound, work.southbound)
        if self._watch is None:
            self._watch = LeaderWatch(
                SCHEMAS,
                self._read_status,
                lambda: self._helpers.start(_SERVERS, list_servers(self._files, record)),
                self._restart_compiler,
                self._lock,
            )
            self._watch.start()

    def _start_compiler(self, northbound: str, southbound: str) -> None:
        """Start the compiler; restart one that has other servers on its command line."""
        places = f"{northbound} {southbound}"
        if not self._compiler_record.exists() or self._compiler_record.read_text() != places:
            self._helpers.release(_COMPILER)
            write_durably(self._compiler_record, places.encode())
        self._helpers.start(_COMPILER, (make_compiler(self._files, northbound, southbound),))

    def _restart_compiler(self) -> None:
        if not self._compiler_record.exists():
            return
        northbound, southbound = self._compiler_record.read_text().split()
        self._helpers.release(_COMPILER)
        self._helpers.start(_COMPILER, (make_compiler(self._files, northbound, southbound),))

    def _await_membership(self) -> None:
        deadline = time.monotonic() + _JOIN_SECONDS
        while time.monotonic() < deadline:
            found = [self._read_status(name) for name in SCHEMAS]
            if all(status is not None and status.is_member and status.leader for status in found):
                return
            time.sleep(0.05)

    def _expel(self, wanted: DatabaseServerWork) -> None:
        for name, schema in SCHEMAS.items():
            addresses = set(getattr(wanted.expelled, name))
            status = self._read_status(name)
            if not addresses or status is None or status.role != "leader":
                continue
            found = sorted(addresses.intersection(status.members))
            if found:
                log.warning("%s leave the cluster of %s", ", ".join(found), schema)
                expel_servers(self._locate_socket(name), schema, found)
                self._await_end(name, addresses)

    def _await_end(self, name: str, addresses: set[str]) -> None:
        deadline = time.monotonic() + _EXPEL_SECONDS
        while time.monotonic() < deadline:
            status = self._read_status(name)
            if status is None or not addresses.intersection(status.members):
                return
            time.sleep(0.05)

    def _give_up(self, record: ServerRecord, *, keeps_content: bool) -> None:
        """End the part in a cluster, and remove its files."""
        self.close()
        with self._lock:
            self._helpers.release(_COMPILER)
            self._helpers.release(_SERVERS)
        for name in SCHEMAS:
            replica = locate_replica(self._files, name, record.cluster)
            if keeps_content and replica.exists():
                self._separate(replica, self._files.database(name))
        self._forget(record)

    def _separate(self, replica: Path, own: Path) -> None:
        """Make the machine's own database of one in a cluster, which has the newer content."""
        target = own.with_suffix(".tmp")
        try:
            _make_file(make_separate_command(replica, target), target, own)
        except NetworkingUnavailable as error:
            # One that never joined has no content. The server writes what is missing.
            log.warning("%s begins empty: %s", own.name, error.message)
            _remove_database(own)

    def _forget(self, record: ServerRecord | None) -> None:
        """Remove all files of a cluster, the record last. Idempotent."""
        self.close()
        with self._lock:
            self._helpers.release(_COMPILER)
            self._helpers.release(_SERVERS)
        if record is not None:
            for name in SCHEMAS:
                _remove_database(locate_replica(self._files, name, record.cluster))
        self._compiler_record.unlink(missing_ok=True)
        self._record.unlink(missing_ok=True)

    def _read_status(self, name: str) -> ClusterStatus | None:
        return read_cluster_status(self._locate_socket(name), SCHEMAS[name])

    def _locate_socket(self, name: str) -> Path:
        return self._files.run / f"{name}.ctl"


def _remove_database(file: Path) -> None:
    """Remove a database with the locks that its server and its tool have left."""
    for path in (file, file.with_suffix(".tmp")):
        path.unlink(missing_ok=True)
        path.with_name(f".{path.name}.~lock~").unlink(missing_ok=True)


def _describe_replica(address: str, status: ClusterStatus | None) -> DatabaseReplica:
    if status is None:
        return DatabaseReplica(address=address)
    return DatabaseReplica.model_validate(
        {
            "address": address,
            "role": status.role,
            "term": status.term,
            "is_member": status.is_member,
            "members": list(status.members),
        }
    )


def _make_file(command: tuple[str, ...], target: Path, final: Path) -> None:
    """Make a database under another name first: one that was cut short would never open.

    Raises NetworkingUnavailable where the command fails or writes nothing.
    """
    target.unlink(missing_ok=True)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_TOOL_SECONDS, check=False
    )
    if done.returncode != 0:
        raise NetworkingUnavailable(f"{command[1]} of {final.name} failed: {done.stderr[-200:]}")
    # So `cluster-to-standalone` ends with the file of a server that never joined.
    if target.stat().st_size == 0:
        raise NetworkingUnavailable(f"{command[1]} of {final.name} wrote nothing")
    shutil.move(target, final)
