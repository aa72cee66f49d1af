"""A pool on this machine and two machines beside it, whose networks are one engine with the real OVN.

Needs root and OVN's packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from gpupool.agent.network.daemons import locate_engine
from tests.e2e.pool_fixture import RealPool
from tests.support.claims import claim_port, claimed
from tests.support.network_machines import NUMBERS, Fabric, Machine

#: Sends 200,000 bytes, so that packets are of full size, and exits with 0 for the right answer.
#: It asks again where a connection breaks: another centre pauses traffic for some seconds.
ASK = """
import socket, sys, time
begin = time.monotonic()
while True:
    step = "connect"
    try:
        with socket.create_connection((sys.argv[1], 7000), 3) as peer:
            step = "send"
            peer.sendall(b"x" * 200000)
            step = "receive"
            answer = peer.recv(100).decode()
        break
    except OSError as error:
        seconds = time.monotonic() - begin
        print(f"{seconds:.1f} s: {step}: {error!r}", flush=True)
        if seconds > float(sys.argv[3]):
            raise
sys.exit(answer != sys.argv[2] + " 200000")
"""
DAEMONS = ("ovn-northd", "ovs-vswitchd", "ovn-controller", "ovsdb-server")


class SeveralMachines:
    """A pool on this machine, the centre, and two members beside it."""

    def __init__(self, fabric: Fabric, root: Path) -> None:
        self.fabric = fabric
        self.pool = RealPool(root / "pool", "2xL40S")
        self.pool.environ["GPUPOOL_TUNNEL_ADDRESS"] = fabric.address
        self.members = [Machine(fabric, index, root) for index in (1, 2)]
        self._port = claim_port()

    def begin(self) -> None:
        setting = Path(f"/proc/sys/net/ipv4/conf/{self.fabric.bridge}/forwarding")
        self.forwarding = setting.read_text()
        self.start_server()
        self.pool.do("user", "add", "agents", "--role", "agent")
        self._token = self.pool.do("token", "create", "--user", "agents").strip()
        self.pool.do("network", "enable")
        for member in self.members:
            member.plug_in()
            self.start_agent(member)

    def start_server(self) -> None:
        listen = f"{self.fabric.address}:{self._port}"
        words = ("--sim", self.pool.sim, "--label", "at=sim-0", "--listen", listen)
        self.pool.up(*words, "--insecure-http")

    def start_agent(self, member: Machine) -> None:
        member.start(f"http://{self.fabric.address}:{self._port}", self._token, "several")

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = self.pool.json("network", "status")
        return found

    def is_ready(self) -> bool:
        status = self.status()
        ready = [one for one in status["machines"] if one["state"] == "ready"]
        return status["state"] == "ready" and len(ready) == 3

    def submit(self, network: str, node: str, name: str, script: str, *words: str) -> None:
        """Start a job with a whole card on one node: its name is that of the node's label."""
        command = ("submit", "--network", network, "--gpu", "1", "--label", f"at={node}")
        self.pool.do(*command, "--name", name, "--", sys.executable, "-c", script, *words)

    def ask(
        self, network: str, node: str, target: str, text: str, seconds: float = 30
    ) -> tuple[str, int | None]:
        """Ask a server from a node; how the job ended."""
        self._asked = getattr(self, "_asked", 0) + 1
        name = f"ask-{self._asked}"
        self.submit(network, node, name, ASK, target, text, str(seconds))
        job = self.pool.until_state(name, "done", "failed")
        # Of a test that fails, what it asked in vain.
        print(f"{name} from {node}:\n{self.pool.do('logs', name)}")
        return job["state"], job["exit_code"]


def list_processes(mark: str) -> list[int]:
    """The daemons of one engine, by its mark."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except (FileNotFoundError, ProcessLookupError):
            continue
        if words and Path(words[0].decode()).name in DAEMONS and mark.encode() in b" ".join(words):
            found.append(int(entry.name))
    return found


@contextmanager
def several_machines() -> Iterator[SeveralMachines]:
    """Three machines that are ready; nothing is left of them afterwards."""
    root = Path(tempfile.mkdtemp(prefix="gpm-"))
    root.chmod(0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, root)
        fabric = Fabric(stack.enter_context(claimed("network-machines", NUMBERS)))
        stack.callback(fabric.remove)
        fabric.make()
        made = SeveralMachines(fabric, root)
        stack.callback(made.pool.do, "down", "--purge", "--yes", "--grace", "1s")
        for member in made.members:
            stack.callback(member.remove)
        made.begin()
        made.pool.until(made.is_ready, "three machines that are ready")
        yield made
        made.pool.stop_all()
        made.pool.do("network", "disable", "--yes")
        assert made.status()["machines"] == []
        marks = [member.mark for member in made.members]
        marks.append(locate_engine(made.pool.state_dir / "agent/network").mark)
        for mark in marks:
            assert list_processes(mark) == []
            assert not list(Path("/run/netns").glob(f"gpupool-{mark}*"))
        tables = subprocess.run(
            ["nft", "list", "tables"], capture_output=True, text=True, check=True
        )
        interfaces = " ".join(os.listdir("/sys/class/net"))
        assert not [mark for mark in marks if mark in tables.stdout + interfaces]
        forwarding = Path(f"/proc/sys/net/ipv4/conf/{fabric.bridge}/forwarding").read_text()
        assert forwarding == made.forwarding
