"""A pool of three machines, two of which have a cable to a network outside each: the rig of gateways.

The centre is this machine, which has no cable outside. Needs root, OVN and nftables.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gpupool.agent.network.daemons import find_missing_programs, locate_engine
from tests.e2e.pool_fixture import RealPool
from tests.support.claims import claim_port, claimed
from tests.support.gateway_machines import Outside
from tests.support.network_machines import NUMBERS, Fabric, Machine

#: Bytes of a command line that belong to a machine's part of the engine.
_PROGRAMS = ("ovn-northd", "ovs-vswitchd", "ovn-controller", "ovsdb-server")


def find_missing_packages() -> list[str]:
    """List the packages that this rig needs and this machine lacks."""
    missing = set(find_missing_programs().values())
    if shutil.which("nft") is None:
        missing.add("nftables")
    return sorted(missing)


class GatewayPool:
    """A pool on this machine, the centre, and two members with cables outside."""

    def __init__(self, fabric: Fabric, root: Path) -> None:
        self.fabric = fabric
        self.outside = Outside(fabric)
        self.pool = RealPool(root / "pool", "2xL40S")
        self.pool.environ["GPUPOOL_TUNNEL_ADDRESS"] = fabric.address
        self.members = [Machine(fabric, index, root) for index in (1, 2)]
        self._port = claim_port()

    def begin(self) -> None:
        """Start everything and wait until networks are ready on all machines."""
        self.start_pool()
        self.pool.do("user", "add", "agents", "--role", "agent")
        self._token = self.pool.do("token", "create", "--user", "agents").strip()
        self.pool.do("network", "enable")
        for index, member in enumerate(self.members, start=1):
            member.plug_in()
            self.outside.plug_in(member, index)
            self.start_agent(member)
        self.pool.until(self.is_ready, "three machines that are ready")

    def start_pool(self) -> None:
        listen = f"{self.fabric.address}:{self._port}"
        words = ("--sim", self.pool.sim, "--label", "at=sim-0", "--listen", listen)
        self.pool.up(*words, "--insecure-http")

    def start_agent(self, member: Machine) -> None:
        member.start(f"http://{self.fabric.address}:{self._port}", self._token, "gateways")

    def is_ready(self) -> bool:
        status = self.pool.json("network", "status")
        ready = [one for one in status["machines"] if one["state"] == "ready"]
        return status["state"] == "ready" and len(ready) == 3

    def make_pair(self) -> None:
        """Make the members a pair with the router outside as what they watch."""
        names = [member.name for member in self.members]
        where = ("--address", self.outside.address, "--upstream", self.outside.router)
        self.pool.do("network", "gateway-pair", *names, *where)

    def read_pair(self) -> dict[str, Any]:
        found: dict[str, Any] = self.pool.json("network", "gateway-show")
        return found

    def read_states(self) -> dict[str, str]:
        return {one["node"]: one["state"] for one in self.read_pair()["machines"]}

    def find_member(self, name: str) -> Machine:
        return next(member for member in self.members if member.name == name)

    def find_active(self) -> Machine:
        return self.find_member(self.read_pair()["active"])

    def find_peer(self, member: Machine) -> Machine:
        return next(one for one in self.members if one is not member)

    def wait_for_roles(self, active: Machine, peer_state: str) -> None:
        """Wait until a machine is active and the other one has a state."""
        wanted = {active.name: "active", self.find_peer(active).name: peer_state}
        self.pool.until(lambda: self.read_states() == wanted, str(wanted))

    def kill_node(self, member: Machine) -> None:
        """Kill all of a machine at once: cables, agent, watchdog and daemons."""
        run = subprocess.run
        for cable in (f"{member.space}e", f"{member.space}o"):
            run(["ip", "link", "set", cable, "down"], check=True)
        member.kill_agent()
        for pid in [*list_daemons(member), *list_watchdogs(member)]:
            os.kill(pid, signal.SIGKILL)

    def revive_node(self, member: Machine) -> None:
        """Start a machine that was killed, as it comes up by itself."""
        run = subprocess.run
        for cable in (f"{member.space}e", f"{member.space}o"):
            run(["ip", "link", "set", cable, "up"], check=True)
        # A machine that boots has neither its addresses of before nor its routes.
        run(
            ["ip", "-n", member.space, "route", "replace", "default", "via", self.outside.router],
            check=True,
        )
        self.start_agent(member)


def list_daemons(member: Machine) -> list[int]:
    """List the switch's and OVN's daemons of a machine."""
    return [pid for pid, words in _list_processes(member.mark) if _is_daemon(words)]


def list_watchdogs(member: Machine) -> list[int]:
    """List the watchdogs of a machine: one, or none."""
    where = str(member.root)
    return [
        pid
        for pid, words in _list_processes(where)
        if any(word.endswith("gateways.watchdog") for word in words)
    ]


def list_switches(member: Machine) -> list[int]:
    """List the switch process of a machine."""
    found = []
    for pid, words in _list_processes(member.mark):
        if Path(words[0]).name == "ovs-vswitchd":
            found.append(pid)
    return found


def list_proxies(member: Machine) -> list[int]:
    """List the processes of a machine's load balancers of HTTP, masters and workers."""
    return [pid for pid, words in _list_processes(member.mark) if words[0] == "haproxy"]


def _is_daemon(words: list[str]) -> bool:
    return Path(words[0]).name in _PROGRAMS


def _list_processes(mark: str) -> list[tuple[int, list[str]]]:
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            line = (entry / "cmdline").read_bytes().decode(errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if line and mark in line:
            found.append((int(entry.name), line.rstrip("\0").split("\0")))
    return found


@contextmanager
def gateway_pool() -> Iterator[GatewayPool]:
    """Yield the rig, ready, without a pair; leave nothing behind, and check that."""
    root = Path(tempfile.mkdtemp(prefix="gpg-"))
    root.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, root)
        fabric = Fabric(stack.enter_context(claimed("network-machines", NUMBERS)))
        stack.callback(fabric.remove)
        fabric.make()
        made = GatewayPool(fabric, root)
        stack.callback(made.outside.remove)
        made.outside.make()
        stack.callback(made.pool.do, "down", "--purge", "--yes", "--grace", "1s")
        for member in made.members:
            stack.callback(member.remove)
        made.begin()
        yield made
        made.pool.stop_all()
        made.pool.do("network", "disable", "--yes")
        marks = [member.mark for member in made.members]
        marks.append(locate_engine(made.pool.state_dir / "agent/network").mark)
        for member in made.members:
            assert list_daemons(member) == []
            assert list_watchdogs(member) == []
            assert made.outside.address not in list_addresses(member)
            assert read_tracking(member) == "0"
        for mark in marks:
            assert not list(Path("/run/netns").glob(f"gpupool-{mark}*"))
        interfaces = " ".join(os.listdir("/sys/class/net"))
        assert not [mark for mark in marks if mark in interfaces]


def read_tracking(member: Machine) -> str:
    """Read whether a machine's connection tracking accepts segments outside of windows."""
    path = "/proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal"
    words = ["nsenter", f"--net=/run/netns/{member.space}", "cat", path]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def list_addresses(member: Machine) -> str:
    """List a machine's addresses by interface, as ip(8) does."""
    words = ["ip", "-n", member.space, "-br", "address"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


#: Answers what it gets, on each connection until it ends.
_ECHO = """
import socket, threading
def serve(peer):
    with peer:
        while data := peer.recv(4096):
            peer.sendall(data)
server = socket.create_server(("", 7000))
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


@contextmanager
def echo_server(outside: Outside) -> Iterator[str]:
    """Run a server outside that sends back what it gets; yield its address, its port is 7000."""
    words = ["nsenter", f"--net=/run/netns/{outside.space}", sys.executable, "-c", _ECHO]
    process = subprocess.Popen(words)
    try:
        yield outside.router
    finally:
        process.kill()
        process.wait()
