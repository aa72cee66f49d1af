"""A load balancer of HTTP on a pair of machines, with a job behind it and one that asks.

Needs root, OVN, nftables and HAProxy.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gpupool.agent.network.balancing.proxies import PROGRAM
from gpupool.agent.network.daemons import NAMESPACES
from tests.hosts.http_jobs import SERVE, Client, Load, address, open_client, until_members
from tests.support.gateway_pool import (
    GatewayPool,
    find_missing_packages,
    gateway_pool,
    list_proxies,
)
from tests.support.network_machines import Machine

#: Of the pair's address outside.
_OUTER_PORT = 30200
#: Threads of a client: each has one request under way.
THREADS = 4


def find_missing_parts() -> list[str]:
    """List the packages that this rig needs and this machine lacks."""
    programs = (PROGRAM, "curl")
    missing = [name for name in programs if shutil.which(name) is None]
    return sorted([*find_missing_packages(), *missing])


class HttpPair:
    """The load balancer `api` of the network `web`, on the machines of a pair."""

    def __init__(self, machines: GatewayPool) -> None:
        self.machines = machines
        self.pool = machines.pool

    def begin(self) -> None:
        """Create it, and wait until it answers."""
        pool = self.pool
        pool.do("network", "create", "web", "--cidr", "10.0.0.0/24")
        # One that was there before the pair.
        pool.do("network", "lb-create", "web", "api", "--http", "--backend", "site", "--port", "80")
        self.machines.make_pair()
        pool.do("network", "enable", "--forward-ports", f"{_OUTER_PORT}-{_OUTER_PORT}")
        pool.do("network", "gateway-create", "web")
        forward = ("network", "forward-create", "web", "api", "--target-port", "80")
        pool.do(*forward, "--port", str(_OUTER_PORT))
        server = (sys.executable, "-c", SERVE, "80", "site")
        for name, command in (("site", server), ("client", ("sleep", "36000"))):
            words = ("submit", "--network", "web", "--gpu", "1", "--label", "at=sim-0")
            pool.do(*words, "--name", name, "--", *command)
            pool.until_state(name, "running")
        until_members(pool, "api", {"site": "up"})
        self.client: Client = open_client(pool, "client")
        outside = self.machines.outside
        self.outside = Client(NAMESPACES / outside.space)
        #: Where a client outside asks, at whichever machine has the gateways.
        self.outer_address = f"{outside.address}:{_OUTER_PORT}"
        self.address = address(pool, "api")
        self.url = f"http://{self.address}"

    def read_roles(self) -> dict[str, tuple[str, str]]:
        """Read the role and the state of each machine."""
        found = self.pool.json("network", "lb-show", "web", "api")["http"]["machines"]
        return {one["node"]: (one["role"], one["state"]) for one in found}

    def wait_for_serving(self, member: Machine) -> None:
        """Wait until a machine serves and the other one could."""
        peer = self.machines.find_peer(member)
        wanted = {member.name: ("serving", "ready"), peer.name: ("standby", "ready")}
        self.pool.until(lambda: self.read_roles() == wanted, f"{member.name} that serves")

    def wait_until_served(self, member: Machine) -> None:
        """Wait until a machine serves, whatever the other one does."""
        self.pool.until(
            lambda: self.read_roles().get(member.name) == ("serving", "ready"),
            f"{member.name} that serves",
        )

    def begin_load(self) -> Load:
        """Let the client ask without end, and return once it has been answered."""
        load = self.client.begin_load(self.address, threads=THREADS)
        load.wait_for_answer()
        return load

    def begin_outer_load(self) -> Load:
        """Let a client outside ask without end, and return once it has been answered."""
        url = f"http://{self.outer_address}"
        self.pool.until(lambda: self.outside.status(url) == 200, "an answer outside")
        load = self.outside.begin_load(self.outer_address, threads=1)
        load.wait_for_answer()
        return load

    def kill_proxies(self, member: Machine) -> None:
        """Kill all of HAProxy on a machine."""
        for pid in list_proxies(member):
            # A worker ends with its master.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_machine(self, member: Machine) -> None:
        """Kill all of a machine at once, HAProxy too."""
        self.machines.kill_node(member)
        self.kill_proxies(member)


@contextmanager
def http_pair() -> Iterator[HttpPair]:
    """Yield the rig, ready; leave nothing behind, and check that."""
    with gateway_pool() as machines:
        made = HttpPair(machines)
        made.begin()
        yield made
