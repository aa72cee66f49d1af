"""Floating IPs with the real OVN: a job has an address outside, both ways, and keeps it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpupool.agent.network.daemons import find_missing_programs
from tests.e2e.pool_fixture import RealPool
from tests.support.claims import claimed
from tests.support.pages import PAGES
from tests.support.typed_commands import commands

_MISSING = sorted(set(find_missing_programs().values()))
if shutil.which("nft") is None:
    _MISSING.append("nftables")
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(_MISSING), reason=f"needs {', '.join(_MISSING)}"),
]

#: Sends each client the address that it has.
SERVE = """
import socket
server = socket.create_server(("", 7001))
while True:
    peer, source = server.accept()
    peer.sendall(source[0].encode())
    peer.close()
"""
#: What a client says of an address that no one answers for: ARP gives up after three seconds.
UNREACHED = ("TimeoutError", "OSError")
ASK = """
import socket, sys
try:
    print(socket.create_connection((sys.argv[1], 7001), 1).recv(40).decode())
except OSError as error:
    print(type(error).__name__)
"""


@dataclass(frozen=True)
class Outside:
    """A host in a segment outside of this machine, and the addresses of that segment."""

    number: int

    @property
    def space(self) -> str:
        return f"gpf{self.number}o"

    @property
    def interface(self) -> str:
        return f"gpf{self.number}e"

    @property
    def machine(self) -> str:
        return self._make(1)

    @property
    def host(self) -> str:
        return self._make(2)

    @property
    def prefix(self) -> str:
        return f"{self._make(8)}/29"

    def floating(self, index: int) -> str:
        """The address that the pool gives as the first, the second, ..."""
        return self._make(9 + index)

    def _make(self, offset: int) -> str:
        # RFC 5737: of no one, and each test process has 16 of them.
        return f"198.51.100.{16 * self.number + offset}"

    def set_up(self) -> None:
        _ip("netns", "add", self.space)
        _ip(
            *("link", "add", self.interface, "type", "veth"),
            *("peer", "name", "eth0", "netns", self.space),
        )
        _ip("address", "add", f"{self.machine}/28", "dev", self.interface)
        _ip("link", "set", self.interface, "up")
        _ip("-n", self.space, "address", "add", f"{self.host}/28", "dev", "eth0")
        for name in ("lo", "eth0"):
            _ip("-n", self.space, "link", "set", name, "up")

    def remove(self) -> None:
        subprocess.run(["ip", "netns", "del", self.space], check=False)

    def ask(self, address: str) -> str:
        """What a server says to a client outside, or the name of its error."""
        words = ["ip", "netns", "exec", self.space, sys.executable, "-c", ASK, address]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    def list_addresses(self) -> str:
        """The addresses of this machine in the segment."""
        words = ["ip", "-br", "address", "show", "dev", self.interface]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@pytest.fixture(scope="module")
def outside() -> Iterator[Outside]:
    with claimed("floating-outside", range(16)) as number:
        made = Outside(number)
        made.set_up()
        words = ["ip", "netns", "exec", made.space, sys.executable, "-c", SERVE]
        server = subprocess.Popen(words)
        yield made
        server.kill()
        server.wait()
        made.remove()


@pytest.fixture(scope="module")
def pool(outside: Outside) -> Iterator[RealPool]:
    directory = Path(tempfile.mkdtemp(prefix="gpf-"))
    directory.chmod(0o755)
    with RealPool(directory / "pool", "4xL40S") as made:
        made.do("network", "enable", "--floating-ips", outside.prefix)
        for name in ("lab", "other"):
            made.do("network", "create", name, "--cidr", "10.0.0.0/24")
            made.do("network", "gateway-create", name)
        serve(made, "server")
        yield made
        made.stop_all()
        made.do("network", "disable", "--yes")
        # The machine answers outside for itself alone.
        assert outside.floating(0) not in outside.list_addresses()
        assert outside.machine in outside.list_addresses()
    shutil.rmtree(directory)


def serve(pool: RealPool, name: str, *words: str) -> None:
    job = ("submit", "--network", "lab", "--gpu", "0.1", "--name", name, *words)
    pool.do(*job, "--", sys.executable, "-c", SERVE)
    pool.until_state(name, "running")


def show(pool: RealPool, address: str) -> dict[str, Any]:
    found: dict[str, Any] = pool.json("network", "floating-ip-show", "lab", address)
    return found


def until_probed(pool: RealPool, address: str, state: str) -> None:
    pool.until(lambda: show(pool, address)["state"] == state, f"{address} that is {state}")


def test_a_job_has_an_address_outside_in_both_directions(pool: RealPool, outside: Outside) -> None:
    address = outside.floating(0)
    assert outside.ask(address) in UNREACHED
    made = pool.json("network", "floating-ip-create", "lab", "server")
    assert (made["address"], made["job"], made["state"]) == (address, "server", "reachable")
    # The job sees a client's own address, and answers from the floating IP.
    assert outside.ask(address) == outside.host
    assert pool.job("server")["floating_ip"] == address
    # Promised to a job that starts later; its packets leave with the address.
    waiting = pool.json("network", "floating-ip-create", "lab", "client")
    assert (waiting["address"], waiting["state"]) == (outside.floating(1), "waiting")
    assert ask_outside(pool, outside, "lab", "--name", "client") == outside.floating(1)
    assert ask_outside(pool, outside, "lab") == outside.machine
    # Jobs of the pool are not led over the machine, whichever tenant has the address.
    for network in ("lab", "other"):
        assert ask_outside(pool, outside, network, to=address) == "TimeoutError"
    why = pool.json("network", "why", "server", outside.host)
    assert (why["object"], why["is_reached"]) == (f"floating IP {address}", None)


def ask_outside(
    pool: RealPool, outside: Outside, network: str, *words: str, to: str | None = None
) -> str:
    command = ("run", "-q", "--network", network, "--gpu", "0.1", *words, "--")
    return pool.do(*command, sys.executable, "-c", ASK, to or outside.host).strip()


def test_the_address_stays_with_the_name_when_jobs_and_agents_end(
    pool: RealPool, outside: Outside
) -> None:
    address = outside.floating(0)
    os.kill(pool.server_pid(), signal.SIGKILL)
    try:
        assert outside.ask(address) == outside.host
    finally:
        pool.up()
    pool.do("stop", "server")
    pool.until(lambda: show(pool, address)["state"] == "waiting", "a job that has ended")
    # Another job of the network in between: the next server has another address.
    serve(pool, "between")
    assert outside.ask(address) in UNREACHED
    serve(pool, "server")
    until_probed(pool, address, "reachable")
    # The last probe may be that of the job before.
    pool.until(lambda: outside.ask(address) == outside.host, "an answer of the next job")


def test_security_groups_decide_also_for_floating_ips(pool: RealPool, outside: Outside) -> None:
    pool.do("network", "group-create", "lab", "web")
    serve(pool, "guarded", "--security-group", "web")
    made = pool.json("network", "floating-ip-create", "lab", "guarded")
    # The gateway translates, and the group takes nothing.
    assert made["state"] == "silent", made
    assert "security groups" in made["reason"]
    assert outside.ask(made["address"]) in UNREACHED
    pool.do("network", "group-allow", "lab", "web", "tcp:7001", "--from", f"{outside.host}/32")
    pool.until(lambda: outside.ask(made["address"]) == outside.host, "a rule in force")
    # The boundary's firewall knows the address as the network's.
    denied = ("network", "firewall-create", "deny", "0.0.0.0/0", "--direction", "in")
    rule = pool.json(*denied, "--network", "lab")
    # It resets what it denies.
    pool.until(lambda: outside.ask(made["address"]) == "ConnectionRefusedError", "the rule")
    pool.do("network", "firewall-delete", rule["id"])
    pool.until(lambda: outside.ask(made["address"]) == outside.host, "the end of the rule")
    pool.do("network", "floating-ip-delete", "lab", made["address"])
    pool.until(lambda: outside.ask(made["address"]) in UNREACHED, "an address of no one")


def test_an_address_that_another_host_has_is_not_taken(pool: RealPool, outside: Outside) -> None:
    taken = outside.floating(4)
    _ip("-n", outside.space, "address", "add", f"{taken}/28", "dev", "eth0")
    words = ("network", "floating-ip-create", "lab", "between", "--address", taken)
    made = pool.json(*words)
    assert (made["state"], made["job"]) == ("taken", "between")
    assert "another host outside answers" in made["reason"]
    assert taken not in outside.list_addresses()
    pool.do("network", "floating-ip-delete", "lab", taken)
    refused = pool.run("network", "gateway-delete", "lab")
    assert "GP-2008" in refused.stderr
    assert outside.floating(0) in refused.stderr


def test_commands_of_the_page_work(pool: RealPool, outside: Outside) -> None:
    for target in (outside.floating(0), "client"):
        pool.do("network", "floating-ip-delete", "lab", target)
    serve(pool, "web")
    here = {"203.0.113.32/28": outside.prefix, "203.0.113.40": outside.floating(5)}
    for words in commands(PAGES / "network-floating-ip.md"):
        if words[0] == "network":
            pool.do(*(here.get(word, word) for word in words))
        if words[1] == "floating-ip-show":
            assert pool.job("web")["floating_ip"] == outside.floating(0)
    assert pool.json("network", "floating-ip-list", "lab") == []
    assert pool.json("network", "status")["floating_ips"] == ""
