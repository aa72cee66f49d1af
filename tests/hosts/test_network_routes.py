"""Route tables on the real OVN: jobs that forward, discarded packets, and no foreign sources outside."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.e2e.pool_fixture import RealPool
from tests.support.network_pool import OVN_MARKS, find_end, network_pool
from tests.support.pages import PAGES
from tests.support.typed_commands import commands

pytestmark = OVN_MARKS

#: Serves at an address that its network does not know.
FAR = """
import socket, subprocess
subprocess.run(["ip", "addr", "add", "172.16.5.1/32", "dev", "lo"], check=True)
server = socket.create_server(("", 7000))
while True:
    peer, source = server.accept()
    peer.sendall(source[0].encode())
    peer.close()
"""
FORWARD = """
from pathlib import Path
import time
Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
time.sleep(600)
"""
#: Prints the address that the server of another one saw, or the name of the error.
ASK = """
import socket, sys
try:
    print(socket.create_connection((sys.argv[1], 7000), float(sys.argv[2])).recv(20).decode())
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with network_pool() as made:
        made.do("network", "create", "a", "--cidr", "10.0.0.0/24")
        made.do("network", "subnet-create", "a", "--subnet", "two", "--cidr", "10.0.1.0/24")
        start(made, "a", "far", "10.0.0.7", FAR)
        start(made, "a", "router", "10.0.0.9", FORWARD)
        yield made
        made.stop_all()
        made.do("network", "disable", "--yes")


def start(pool: RealPool, network: str, name: str, address: str, program: str) -> None:
    words = ("submit", "--network", network, "--address", address, "--gpu", "0.1", "--name", name)
    pool.do(*words, "--", sys.executable, "-c", program)
    pool.until_state(name, "running")


def ask(pool: RealPool, seconds: float = 5) -> str:
    words = ("run", "-q", "--network", "a", "--address", "10.0.1.5", "--gpu", "0.1", "--")
    return pool.do(*words, sys.executable, "-c", ASK, "172.16.5.1", str(seconds)).strip()


def count_forwarded(pool: RealPool) -> int:
    """The packets that the kernel of the job `router` has forwarded."""
    namespace = find_end(pool, "a", "router").namespace.name
    command = ["ip", "netns", "exec", namespace, "cat", "/proc/net/snmp"]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names, values = [line.split() for line in text.splitlines() if line.startswith("Ip:")]
    return int(dict(zip(names, values, strict=True))["ForwDatagrams"])


def test_jobs_forward_packets_for_prefixes_that_lead_to_them(pool: RealPool) -> None:
    assert ask(pool, 1) in ("TimeoutError", "OSError")
    pool.do("network", "route-create", "a", "172.16.5.0/24", "--via", "10.0.0.7")
    assert ask(pool) == "10.0.1.5"
    assert count_forwarded(pool) == 0
    scoped = ("network", "route-create", "a", "172.16.5.0/24", "--via", "10.0.0.9")
    pool.do(*scoped, "--subnet", "two", "--forwards", "10.0.1.0/24")
    assert ask(pool) == "10.0.1.5"
    assert count_forwarded(pool) > 2
    pool.do("network", "route-create", "a", "172.16.5.1/32", "--discard", "--subnet", "two")
    before = count_forwarded(pool)
    assert ask(pool, 1) == "TimeoutError"
    assert count_forwarded(pool) == before
    pool.do("network", "route-delete", "a", "172.16.5.1/32", "--subnet", "two")
    assert ask(pool) == "10.0.1.5"


def test_the_table_and_why_name_the_deciding_route(pool: RealPool) -> None:
    table = pool.json("network", "route-list", "a")
    found = [(one["prefix"], one["kind"], one["via"], one["subnet"]) for one in table]
    assert found == [
        ("10.0.0.0/24", "connected", None, None),
        ("10.0.1.0/24", "connected", None, None),
        ("172.16.5.0/24", "static", "10.0.0.7", None),
        ("172.16.5.0/24", "static", "10.0.0.9", "two"),
    ]
    reach = pool.json("network", "why", "router", "172.16.5.1")
    assert reach["object"] == f"route {table[2]['id']} to 172.16.5.0/24"
    assert reach["is_reached"] is None


def test_packets_with_foreign_sources_stay_in_the_network(pool: RealPool) -> None:
    pool.do("network", "create", "b", "--cidr", "10.8.0.0/24")
    key = pool.json("network", "show", "b")["id"]
    peering = pool.json("network", "peering-request", "a", key)["id"]
    pool.do("network", "peering-accept", "b", peering)
    listen = "import socket\ns = socket.socket(type=socket.SOCK_DGRAM)\ns.bind(('', 7001))\n"
    listen += "while True: print(s.recvfrom(99)[1][0], flush=True)"
    start(pool, "b", "peer", "10.8.0.5", listen)
    start(pool, "a", "local", "10.0.0.20", listen)
    pool.do("network", "route-create", "a", "0.0.0.0/0", "--via", "10.0.0.9")
    # The job at the next hop has the right to send them inside of its network.
    forge = """
import socket, subprocess, sys
for source, targets in (("10.8.0.77", sys.argv[1:]), ("10.0.0.9", sys.argv[1:])):
    subprocess.run(["ip", "addr", "add", source + "/32", "dev", "lo"], check=False)
    with socket.socket(type=socket.SOCK_DGRAM) as own:
        own.bind((source, 0))
        for target in targets * 3:
            own.sendto(b"x", (target, 7001))
"""
    inside = find_end(pool, "a", "router").namespace.name
    words = ["ip", "netns", "exec", inside, sys.executable, "-c", forge, "10.8.0.5", "10.0.0.20"]
    subprocess.run(words, check=True, capture_output=True)
    # The last packets are those of its own address: after them none of the others can come.
    for name in ("local", "peer"):
        pool.until(lambda name=name: "10.0.0.9" in pool.do("logs", name), "packets")  # type: ignore[misc]
    assert "10.8.0.77" in pool.do("logs", "local")
    assert "10.8.0.77" not in pool.do("logs", "peer")


def test_what_is_refused_says_why(pool: RealPool) -> None:
    for words, code in (
        (("10.0.1.128/25", "--via", "10.0.0.9"), "GP-2080"),
        (("172.17.0.0/16", "--via", "10.9.0.9"), "GP-1060"),
        (("172.17.0.0/16", "--via", "10.0.0.1"), "GP-1060"),
        (("172.16.5.0/24", "--discard"), "GP-2006"),
        (("172.17.0.0/16", "--discard", "--subnet", "x"), "GP-3020"),
        (("172.17.0.0/16", "--discard", "--via", "10.0.0.9"), "not allowed with"),
    ):
        refused = pool.run("network", "route-create", "a", *words)
        assert code in refused.stderr, refused.stderr
    refused = pool.run("network", "route-delete", "a", "172.99.0.0/16")
    assert "GP-3020" in refused.stderr, refused.stderr


def test_commands_of_the_page_work_in_their_order(pool: RealPool) -> None:
    for words in commands(PAGES / "network-routes.md"):
        pool.do(*words)
        if words[0] == "submit":
            pool.until_state("firewall", "running")
    left = [one["prefix"] for one in pool.json("network", "route-list", "lab") if one["forwards"]]
    assert left == []
