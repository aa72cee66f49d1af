"""Machines beside this one for networks: an agent each, in a network namespace with a cable to a
common bridge. Needs root and ip(8); `remove` leaves nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpupool.agent.cleanup import end_every_job
from gpupool.agent.network.daemons import locate_engine
from gpupool.base.settings import PoolPaths
from tests.support.processes import die_with_owner, stop_surely

#: Second numbers of the addresses 10.N.0.0 that a fabric has for itself.
NUMBERS = range(220, 250)


def run_ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


class Fabric:
    """A bridge of this machine that other machines are plugged into."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.bridge = f"gpm{number}"
        self.address = f"10.{number}.0.1"

    def make(self) -> None:
        self.remove()  # a run that was killed left its own
        run_ip("link", "add", self.bridge, "type", "bridge")
        run_ip("address", "add", f"{self.address}/24", "dev", self.bridge)
        run_ip("link", "set", self.bridge, "up")

    def remove(self) -> None:
        subprocess.run(["ip", "link", "delete", self.bridge], capture_output=True, check=False)


class Machine:
    """One machine: its namespace and its agent."""

    def __init__(self, fabric: Fabric, index: int, root: Path) -> None:
        self._fabric = fabric
        self.name = f"machine-{index}"
        self.space = f"gpm{fabric.number}n{index}"
        self.address = f"10.{fabric.number}.0.{index + 1}"
        self.root = root / self.name
        self._agent: subprocess.Popen[bytes] | None = None

    def plug_in(self, mtu: int = 1500) -> None:
        self._unplug()
        outer = f"{self.space}e"
        run_ip("netns", "add", self.space)
        run_ip("-n", self.space, "link", "set", "lo", "up")
        run_ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", self.space)
        run_ip("link", "set", outer, "master", self._fabric.bridge, "mtu", str(mtu), "up")
        run_ip("-n", self.space, "address", "add", f"{self.address}/24", "dev", "eth0")
        run_ip("-n", self.space, "link", "set", "eth0", "mtu", str(mtu), "up")

    def start(self, url: str, token: str, pool_id: str) -> None:
        self._pool_id = pool_id
        # A user other than root enters the directories of jobs.
        self.root.mkdir(mode=0o755, exist_ok=True)
        words = ["--url", url, "--name", self.name, "--work-dir", str(self.root)]
        words += ["--sim", self._describe_cards(), "--pool-id", pool_id]
        words += ["--label", f"at={self.name}"]
        environ = {name: text for name, text in os.environ.items() if "GPUPOOL_" not in name}
        environ["GPUPOOL_TOKEN"] = token
        # nsenter(1) and not `ip netns exec`: the latter hides mounts that are made inside, as names
        # of namespaces are.
        enter = ["nsenter", f"--net=/run/netns/{self.space}"]
        with open(self.root / "agent.log", "ab") as log:
            self._agent = subprocess.Popen(
                [*enter, sys.executable, "-m", "gpupool.agent", *words],
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                preexec_fn=die_with_owner(signal.SIGTERM),
            )

    def _describe_cards(self) -> str:
        """The file of the machine's cards: two, on a node of the machine's own name."""
        file = self.root / "cards.json"
        machine = {"name": self.name, "cards": [{"model": "L40S", "count": 2}]}
        file.write_text(json.dumps({"format": 1, "machines": [machine]}))
        return str(file)

    def kill_agent(self) -> None:
        assert self._agent is not None
        self._agent.kill()
        self._agent.wait()

    def has_ended(self) -> bool:
        """Whether its agent does not run."""
        return self._agent is None or self._agent.poll() is not None

    @property
    def mark(self) -> str:
        return locate_engine(self.root / "agent/network").mark

    def remove(self) -> None:
        """End the agent, its jobs and its engine; unplug it. Idempotent."""
        if self._agent is not None:
            if self._agent.poll() is None:
                stop_surely(self._agent, (signal.SIGTERM,))
            end_every_job(PoolPaths(self.root), self._pool_id)
        self._unplug()

    def log(self) -> str:
        return (self.root / "agent.log").read_text(errors="replace")

    def _unplug(self) -> None:
        for words in (["link", "delete", f"{self.space}e"], ["netns", "delete", self.space]):
            subprocess.run(["ip", *words], capture_output=True, check=False)


def find_machine(status: dict[str, Any], node: str) -> dict[str, Any]:
    """The part of `network status -o json` about a machine; empty where it has none."""
    return next((one for one in status["machines"] if one["node"] == node), {})
