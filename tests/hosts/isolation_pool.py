"""A pool whose tenants all have a network with the same addresses: made, looked at, and removed.

Looks at the machine and at the databases with its own eyes; networks are compared with the rows of
the engine by the product's own check of drift.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import sqlalchemy as sa

from gpupool.agent.network.daemons import NAMESPACES, EngineFiles, locate_engine
from gpupool.agent.network.engine_end import remove_engine
from gpupool.agent.network.namespaces import enter_namespace, import_pyroute2, name_interface
from gpupool.agent.network.verification.probe_frames import FrameEnd, parse_mac
from gpupool.base.errors import NetworkingUnavailable, WriteConflict
from gpupool.base.units import MIB
from gpupool.network.model import make_mac, make_port_mac
from gpupool.network.northbound import name_port
from gpupool.network.reading import read_networks
from gpupool.network.verification.drift import check_drift
from tests.faults import invariants
from tests.faults.pool import GPUPOOL, FaultPool, answer_of, environment, processes
from tests.hosts.isolation_watch import Station

CIDR: Final = "10.0.0.0/24"
NETWORK: Final = "net"
#: Jobs of a tenant that stay: the first one sends, the second one is its neighbour.
MEMBERS: Final = ("a", "b")
#: The daemons of an engine on one machine, by program and, of a database, its file.
DAEMONS: Final = {
    "northd": ("ovn-northd", ""),
    "controller": ("ovn-controller", ""),
    "switch": ("ovs-vswitchd", ""),
    "northbound database": ("ovsdb-server", "northbound.db"),
    "southbound database": ("ovsdb-server", "southbound.db"),
    "switch database": ("ovsdb-server", "switch.db"),
}
#: Seconds for what takes a busy machine long: many jobs that start, an engine that comes back.
LONG_SECONDS: Final = 180.0
LOOK_SECONDS: Final = 0.25


@dataclass(frozen=True)
class PortFacts:
    """A row of the pool's ports."""

    key: str
    tenant: str
    job: str
    job_name: str
    subnet: int
    address: str
    mac: str


class IsolationPool:
    """Tenants `t0`, `t1` and so on, each with two jobs in a network of its own, and a gateway."""

    def __init__(self, directory: Path, tenants: int) -> None:
        self.pool = FaultPool(directory / "state", sim="8xL40S", separate_agent=True)
        self.tenants = [f"t{number}" for number in range(tenants)]
        self._forwarding = Path("/proc/sys/net/ipv4/ip_forward").read_text()

    @property
    def files(self) -> EngineFiles:
        return locate_engine(self.pool.paths.agent / "network")

    # Life ------------------------------------------------------------------------------------------

    def make(self) -> None:
        self.pool.up()
        self.command("enable")
        with self.pool.api() as api:
            for tenant in self.tenants:
                answer_of(api, "POST", "tenants", {"name": tenant})
                subnets = [{"name": "default", "cidr": CIDR}]
                body = {"name": NETWORK, "subnets": subnets, "tenant": tenant}
                answer_of(api, "POST", "networks", body)
                path = f"networks/{NETWORK}/gateway"
                answer_of(api, "PUT", path, query={"tenant": tenant})
        for tenant in self.tenants:
            for member in MEMBERS:
                self.submit(tenant, member)
        wanted = len(self.tenants) * len(MEMBERS)
        await_answer(lambda: self._count_running() == wanted, f"{wanted} running jobs")
        await_answer(self.is_in_force, "networks in force")
        # Its address comes with the engine's report of its uplink, perhaps after all jobs run.
        await_answer(self._has_gateways, "gateways with an address")

    def submit(self, tenant: str, name: str) -> str:
        """Submit a job that joins the network of a tenant; return its id."""
        launch = {
            "argv": ["sleep", "100000"],
            "env": {"PATH": "/usr/bin:/bin", "FAULT_POOL": str(self.pool.paths.root)},
            "network": {"name": NETWORK},
        }
        shape = {"gpu_milli": 20, "memory_bytes": 16 * MIB}
        body = {"shape": shape, "launch": launch, "tenant": tenant, "name": name}
        with self.pool.api() as api:
            made = answer_of(api, "POST", "jobs", body, idempotency_key=os.urandom(16).hex())
        return str(made["first"]["id"])

    def stop(self, job: str) -> None:
        with self.pool.api() as api:
            key = os.urandom(16).hex()
            # A server that is killed after its commit has stopped the job and kept no answer.
            with suppress(WriteConflict):
                answer_of(
                    api, "POST", f"jobs/{job}/stop", {"grace_seconds": 0}, idempotency_key=key
                )

    def end(self) -> list[str]:
        """Stop jobs, delete networks, disable the engine; return what is left of it."""
        files = self.files
        for port in self.list_ports():
            self.stop(port.job)
        await_answer(lambda: not self.list_ports(), "the end of every job")
        with self.pool.api() as api:
            for tenant in self.tenants:
                for path in (f"networks/{NETWORK}/gateway", f"networks/{NETWORK}"):
                    answer_of(api, "DELETE", path, query={"tenant": tenant})
        self.command("disable", "--yes")
        left = [*self._list_rows(), *list_leftovers(files)]
        forwarding = Path("/proc/sys/net/ipv4/ip_forward").read_text()
        if forwarding != self._forwarding:
            left.append(f"ip_forward is {forwarding.strip()}")
        self.pool.down()
        return left

    def destroy(self) -> None:
        """For a `finally`: end whatever is left of the pool and its engine."""
        files = self.files
        self.pool.destroy()
        remove_engine(self.pool.paths.agent)
        for pid, _ in list_processes(files):
            os.kill(pid, signal.SIGKILL)

    # Looking ---------------------------------------------------------------------------------------

    def list_ports(self) -> list[PortFacts]:
        """List every port of the pool's database."""
        rows = self.pool.rows(
            "SELECT p.id, p.public_id, p.mac, p.address, p.subnet_id, t.name tenant, j.public_id job,"
            " j.name job_name FROM network_ports p JOIN allocations a ON a.id = p.allocation_id"
            " JOIN jobs j ON j.id = a.job_id JOIN tenants t ON t.id = j.tenant_id ORDER BY p.id"
        )
        found = list[PortFacts]()
        for row in rows:
            mac = make_port_mac(row["id"], row["mac"])
            names = (row["public_id"], row["tenant"], row["job"], row["job_name"])
            found.append(PortFacts(*names, row["subnet_id"], row["address"], mac))
        return found

    def list_stations(self) -> list[Station]:
        """The ports of the jobs that stay, the senders first in each tenant."""
        stations = list[Station]()
        for port in sorted(self.list_ports(), key=lambda one: (one.tenant, one.job_name)):
            if port.job_name in MEMBERS:
                router = FrameEnd(parse_mac(make_mac(0x0E, port.subnet)), IPv4Address("10.0.0.1"))
                stations.append(
                    Station(
                        port.tenant,
                        NAMESPACES / f"{self.files.namespace.name}-{port.key}",
                        FrameEnd(parse_mac(port.mac), IPv4Address(port.address)),
                        router,
                        self._find_outside(port.tenant),
                    )
                )
        return stations

    def find_jobs(self, job: str, state: str) -> list[Any]:
        """The row of a job, if it is in that state."""
        return self.pool.rows("SELECT id FROM jobs WHERE public_id = ? AND state = ?", job, state)

    def find_daemons(self) -> dict[str, int]:
        """The processes of the engine's daemons, by name."""
        found = dict[str, int]()
        for pid, words in list_processes(self.files):
            for name, (program, file) in DAEMONS.items():
                if Path(words[0]).name == program and any(file in word for word in words):
                    found[name] = pid
        return found

    def is_in_force(self) -> bool:
        """Whether OVN has every row that is wanted, and the switch every flow."""
        return not self.find_gap()

    def find_gap(self, killed: Mapping[str, int] = MappingProxyType({})) -> str:
        """Find what is not back yet; empty: everything is.

        Args:
            killed: processes that do not count, by the daemon's name.
        """
        found = self.find_daemons()
        for name in DAEMONS:
            if found.get(name) in (None, killed.get(name)):
                return f"no {name}"
        if not self.pool.nodes_ready():
            return "the node is not ready"
        if drift := self.find_drift():
            return drift
        done = self.northbound("--timeout=20", "--wait=hv", "sync")
        return "" if done.returncode == 0 else f"not in force: {done.stderr}"

    def find_drift(self) -> str:
        """Compare the northbound database with the networks that are wanted; empty: equal."""
        engine = sa.create_engine(f"sqlite:///file:{self.pool.paths.database}?mode=ro&uri=true")
        try:
            with engine.connect() as connection:
                wanted = read_networks(connection, None)
                query = sa.text("SELECT pool_id FROM pool")
                pool_id = connection.execute(query).scalar_one()
            found = check_drift({self.files.remote("northbound"): wanted.values()}, pool_id)
        except NetworkingUnavailable as error:
            return error.message
        finally:
            engine.dispose()
        return "" if found.kept else found.reason

    def find_faults(self) -> list[str]:
        """Find what is wrong with addresses, in the database and on the machine."""
        ports = self.list_ports()
        allocations = self.pool.rows("SELECT state FROM allocations WHERE state <> 'released'")
        wrong = invariants.books(self.pool)
        if len(allocations) != len(ports):
            wrong.append(f"{len(allocations)} allocations have {len(ports)} addresses")
        for what, owners in (
            ("address", Counter((port.subnet, port.address) for port in ports)),
            ("MAC address", Counter(port.mac for port in ports)),
        ):
            wrong += [f"{what} {one} is there {n} times" for one, n in owners.items() if n > 1]
        wanted = {port.key: port for port in ports}
        found = dict(list_addresses(self.files))
        for key in found.keys() ^ wanted.keys():
            where = "a namespace and no row" if key in found else "a row and no namespace"
            wrong.append(f"port {key} has {where}")
        for key in found.keys() & wanted.keys():
            if found[key] != (wanted[key].address, wanted[key].mac):
                wrong.append(f"port {key} has {found[key]}, its row {wanted[key]}")
        plugged = set(self.switch("list-ports", "br-int").stdout.split())
        missing = {name_interface(key) for key in wanted} - plugged
        return [*wrong, *(f"{name} is not plugged in" for name in sorted(missing))]

    def northbound(self, *words: str) -> subprocess.CompletedProcess[str]:
        return _run("ovn-nbctl", f"--db={self.files.remote('northbound')}", *words)

    def switch(self, *words: str) -> subprocess.CompletedProcess[str]:
        return _run("ovs-vsctl", f"--db={self.files.remote('switch')}", "--timeout=20", *words)

    def command(self, *words: str) -> None:
        """Run `gpupool network ...`, which must succeed."""
        done = subprocess.run(
            [GPUPOOL, "network", *words],
            env=environment(GPUPOOL_STATE_DIR=str(self.pool.paths.root)),
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LONG_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, f"gpupool network {words}: {done.stdout}{done.stderr}"

    def find_switch_port(self, tenant: str, member: str) -> str:
        """The name of the logical switch port of a job."""
        (port,) = [
            port for port in self.list_ports() if (port.tenant, port.job_name) == (tenant, member)
        ]
        return name_port(port.key)

    def _has_gateways(self) -> bool:
        return all(self._read_gateway(tenant)["address"] for tenant in self.tenants)

    def _find_outside(self, tenant: str) -> IPv4Address:
        return IPv4Address(self._read_gateway(tenant)["address"])

    def _read_gateway(self, tenant: str) -> dict[str, Any]:
        with self.pool.api() as api:
            path = f"networks/{NETWORK}"
            shown = answer_of(api, "GET", path, query={"tenant": tenant})
        found: dict[str, Any] = shown["gateway"]
        return found

    def _count_running(self) -> int:
        return len(self.pool.rows("SELECT id FROM jobs WHERE state = 'running'"))

    def _list_rows(self) -> list[str]:
        # The row of an engine that is off has what an admin opened, for the next time.
        tables = ("networks", "subnets", "network_ports", "network_machines")
        counts = {table: len(self.pool.rows(f"SELECT * FROM {table}")) for table in tables}
        query = "SELECT * FROM network_engine WHERE state <> 'off'"
        counts["network_engine"] = len(self.pool.rows(query))
        return [f"{count} rows of {table}" for table, count in counts.items() if count]


def await_answer(look: Callable[[], object], what: str, seconds: float = LONG_SECONDS) -> None:
    """Look again and again, as `until` does, with pauses: the looks here are work for a machine."""
    deadline = time.monotonic() + seconds
    while not look():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {seconds:g} s")
        time.sleep(LOOK_SECONDS)  # between two looks from outside


def list_addresses(files: EngineFiles) -> Iterator[tuple[str, tuple[str, str]]]:
    """The address and the MAC address in the namespace of each job's port."""
    prefix = f"{files.namespace.name}-"
    library = import_pyroute2()
    for entry in sorted(NAMESPACES.glob(f"{prefix}n-*")):
        with enter_namespace(entry), library.IPRoute() as inside:
            (link,) = inside.get_links(ifname="eth0")
            addresses = inside.get_addr(family=socket.AF_INET, label="eth0")
        texts = [one.get_attr("IFA_ADDRESS") for one in addresses]
        yield entry.name.removeprefix(prefix), (",".join(texts), link.get_attr("IFLA_ADDRESS"))


def list_processes(files: EngineFiles) -> list[tuple[int, list[str]]]:
    """The processes of an engine, with their words: daemons, their supervisors, resolvers."""
    found = list[tuple[int, list[str]]]()
    names = (files.mark, str(files.data.parent))
    for pid in processes():
        try:
            raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        words = raw.decode(errors="replace").rstrip("\0").split("\0")
        if pid != os.getpid() and any(name in word for name in names for word in words):
            found.append((pid, words))
    return found


def list_leftovers(files: EngineFiles) -> list[str]:
    """What an engine that has ended left on this machine: processes, namespaces, interfaces."""
    mark = files.mark
    left = [f"process {pid}: {' '.join(words)}" for pid, words in list_processes(files)]
    left += [f"namespace {path.name}" for path in NAMESPACES.glob(f"gpupool-{mark}*")]
    left += [f"interface {name}" for name in os.listdir("/sys/class/net") if mark in name]
    left += [f"files {path}" for path in Path("/run").glob(f"gpupool-*{mark}*")]
    tables = _run("nft", "list", "tables").stdout.splitlines()
    return left + [f"nft {line}" for line in tables if mark in line]


def _run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)


def find_rows(pool: IsolationPool, names: Collection[str]) -> dict[str, Any]:
    """The uuid of logical switches and ports by name."""
    found = dict[str, Any]()
    for table in ("Logical_Switch", "Logical_Switch_Port"):
        done = pool.northbound("--format=json", "--columns=_uuid,name", "list", table)
        for uuid, name in json.loads(done.stdout)["data"]:
            if name in names:
                found[name] = uuid[1]
    return found
