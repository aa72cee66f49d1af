"""Ends leaders of a cluster of databases and sees what that costs: traffic that goes on, and the time
until a change is in force. For tests and benches with the real OVN; needs root."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from itertools import pairwise
from typing import Any

from gpupool.agent.network.daemons import EngineFiles, locate_engine
from gpupool.agent.network.namespaces import enter_namespace
from gpupool.agent.network.verification.traffic import TrafficEnd
from gpupool.base.client_settings import client_settings
from gpupool.client.transport import Api
from gpupool.network.ovn.cluster_control import ClusterStatus, read_cluster_status
from tests.support.network_pool import find_end
from tests.support.several_machines import SeveralMachines

SCHEMAS = {"northbound": "OVN_Northbound", "southbound": "OVN_Southbound"}
#: Ports that a job echoes; the first one is open from the beginning.
FIRST_PORT = 7000
PORTS = 56
#: Echoes datagrams that come to its ports.
ECHO = f"""
import select, socket
lines = []
for port in range({FIRST_PORT}, {FIRST_PORT + PORTS}):
    line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    line.bind(("", port))
    lines.append(line)
while True:
    for line in select.select(lines, [], [])[0]:
        data, peer = line.recvfrom(2000)
        line.sendto(data, peer)
"""
#: Seconds between two datagrams, and until a change counts as lost.
_PACE_SECONDS = 0.02
_CHANGE_SECONDS = 40.0


class Cluster:
    """The servers of the databases, by node."""

    def __init__(self, files: Mapping[str, EngineFiles]) -> None:
        self.files = files

    def status(self, node: str, database: str) -> ClusterStatus | None:
        socket_file = self.files[node].run / f"{database}.ctl"
        return read_cluster_status(socket_file, SCHEMAS[database])

    def find_leader(self, database: str) -> str:
        """The node that leads; empty where none does."""
        for node in self.files:
            status = self.status(node, database)
            if status is not None and status.role == "leader":
                return node
        return ""

    def is_whole(self) -> bool:
        """Whether every server is a member that knows its leader."""
        found = [self.status(node, name) for node in self.files for name in SCHEMAS]
        return all(status is not None and status.is_member and status.leader for status in found)

    def kill(self, node: str, *names: str) -> None:
        """End daemons of a node at once: `northbound`, `southbound`, `northd`."""
        for name in names:
            pid = int((self.files[node].run / f"{name}.pid").read_text())
            os.kill(pid, signal.SIGKILL)


class Traffic:
    """Datagrams between two jobs, 50 in a second, from a namespace of this machine."""

    def __init__(self, source: TrafficEnd, target: IPv4Address) -> None:
        self._source = source
        self._target = str(target)
        self._answers: list[float] = []
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._has_ended.set()
        self._thread.join()

    def worst_gap(self, since: float) -> float:
        """Seconds of the longest time without an answer, up to now."""
        times = [since, *(at for at in self._answers if at > since), time.monotonic()]
        return max(after - before for before, after in pairwise(times))

    def await_answer(self, port: int) -> float:
        """Send to a port until it answers; the time of the answer."""
        with enter_namespace(self._source.namespace):
            line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        line.settimeout(_PACE_SECONDS)
        deadline = time.monotonic() + _CHANGE_SECONDS
        with line:
            while time.monotonic() < deadline:
                line.sendto(b"x", (self._target, port))
                try:
                    line.recv(100)
                except TimeoutError:
                    continue
                return time.monotonic()
        raise AssertionError(f"port {port} did not open within {_CHANGE_SECONDS} s")

    def _run(self) -> None:
        with enter_namespace(self._source.namespace):
            line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        line.settimeout(_PACE_SECONDS)
        with line:
            while not self._has_ended.is_set():
                line.sendto(b"x", (self._target, FIRST_PORT))
                try:
                    line.recv(100)
                except TimeoutError:
                    continue
                self._answers.append(time.monotonic())
                self._has_ended.wait(_PACE_SECONDS)


@dataclass(frozen=True)
class Cost:
    """What an event cost, in seconds.

    Attributes:
        change: from the event to the answer at a port that was opened right after it.
        traffic: the longest time without an answer.
    """

    change: float
    traffic: float


class Rules:
    """Rules of the security group of the echoing job, written to the pool."""

    def __init__(self, state_dir: str, network: str, group: str) -> None:
        self._api = Api(client_settings(state_dir=state_dir))
        self._path = f"networks/{network}/security-groups/{group}/rules"
        self._next = FIRST_PORT

    def open_next(self) -> int:
        """Open the next port; it is in force some time later."""
        port = self._next
        self._next += 1
        body: dict[str, Any] = {"protocol": "udp", "first_port": port, "last_port": port}
        self._api.request("POST", self._path, body)
        return port


def measure(traffic: Traffic, rules: Rules, event: Callable[[], object]) -> Cost:
    """Do what is to be measured, open a port at once, and see what both cost."""
    began = time.monotonic()
    event()
    answered = traffic.await_answer(rules.open_next())
    return Cost(answered - began, traffic.worst_gap(began))


class LeaderScene:
    """Three machines with a cluster, and two jobs in a network: the one on machine-2 echoes at the
    ports that its security group opens, the one on this machine asks it."""

    def __init__(self, machines: SeveralMachines) -> None:
        self.machines = machines
        pool = machines.pool
        roots = {"sim-0": pool.state_dir} | {one.name: one.root for one in machines.members}
        self.cluster = Cluster(
            {node: locate_engine(root / "agent/network") for node, root in roots.items()}
        )
        pool.do("network", "create", "lab", "--cidr", "10.0.0.0/24")
        pool.do("network", "group-create", "lab", "db")
        self.rules = Rules(str(pool.state_dir), "lab", "db")
        self.rules.open_next()
        words = ("submit", "--network", "lab", "--gpu", "1")
        pool.do(*words, "--label", "at=sim-0", "--name", "asker", "--", "sleep", "3600")
        placed = ("--label", "at=machine-2", "--security-group", "db", "--name", "echo")
        pool.do(*words, *placed, "--", sys.executable, "-c", ECHO)
        for job in ("asker", "echo"):
            pool.until_state(job, "running")
        self._target = IPv4Address(pool.job("echo")["address"])

    def traffic(self) -> Traffic:
        """Traffic from the asking job to the other one, as a context."""
        return Traffic(find_end(self.machines.pool, "lab", "asker"), self._target)

    def choose(self, *nodes: str) -> None:
        """Make machines the servers of the databases."""
        self.machines.pool.do("network", "enable", "--databases", ",".join(nodes))

    def await_whole(self) -> None:
        """Wait until every server is a member that knows its leader, and the pool says so."""
        pool = self.machines.pool
        pool.until(self.cluster.is_whole, "a cluster that is whole")
        pool.until(self._is_whole, "a pool that calls its cluster whole")
        pool.until(self.machines.is_ready, "three machines that are ready")

    def _is_whole(self) -> bool:
        servers = self.machines.status()["databases"]
        return all(one["state"] == "joined" and not one["is_away"] for one in servers)
