"""IPv6 at the edges of networks on the real OVN: balancers of HTTP, gateways, forwards, rules."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.network.namespaces import JobNamespaces
from tests.e2e.pool_fixture import RealPool
from tests.support.network_pool import OVN_MARKS, locate_files, network_pool

pytestmark = OVN_MARKS

CIDR6 = "fd12:3456:789a::/64"
#: Answers each request with its client, as the proxy names it.
SERVE = """
import http.server
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = self.headers.get("X-Forwarded-For", self.client_address[0]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
http.server.HTTPServer(("0.0.0.0", 8000), Answer).serve_forever()
"""
#: Prints what a server of HTTP answers at each address, or the name of the error.
FETCH = """
import sys, urllib.error, urllib.request
for address in sys.argv[1:]:
    try:
        with urllib.request.urlopen(f"http://{address}", timeout=5) as answer:
            print(answer.read().decode())
    except urllib.error.URLError as error:
        print(type(error.reason).__name__ if not isinstance(error, urllib.error.HTTPError) else error.code)
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with network_pool() as made:
        made.do("network", "create", "a", "--cidr", "10.0.0.0/24", "--cidr6", CIDR6)
        yield made
        made.stop_all()
        made.do("network", "disable", "--yes")


def submit(
    pool: RealPool, name: str, text: str, arguments: tuple[str, ...] = (), address: str = ""
) -> None:
    words = ("submit", "--network", "a", "--gpu", "0.1", "--name", name)
    options = ("--address", address) if address else ()
    pool.do(*words, *options, "--", sys.executable, "-c", text, *arguments)
    pool.until_state(name, "running")


def run(pool: RealPool, text: str, *arguments: str, network: str = "a") -> list[str]:
    words = ("run", "-q", "--network", network, "--gpu", "0.1", "--", sys.executable, "-c", text)
    return pool.do(*words, *arguments).splitlines()


@pytest.mark.skipif(shutil.which("haproxy") is None, reason="needs the package haproxy")
def test_a_balancer_of_http_answers_over_both_families(pool: RealPool) -> None:
    submit(pool, "site", SERVE)
    words = ("lb-create", "a", "web", "--http", "--backend", "site", "--target-port", "8000")
    made = pool.json("network", *words)
    targets = (made["address"], f"[{made['address6']}]", "web", "web.a.gpupool.internal")
    # The job sees IPv4 from the proxy alone, and the proxy names the client.
    pool.until(lambda: "503" not in run(pool, FETCH, *targets), "the proxy's first look at the job")
    found = run(pool, FETCH, *targets)
    assert found[0].startswith("10.0.0.")
    assert found[1].startswith("fd12:3456:789a::")
    assert all(one.startswith(("10.0.0.", "fd12:3456:789a::")) for one in found)
    pool.do("network", "lb-delete", "a", "web")
    pool.do("stop", "site")


#: Has an address that its network does not know.
TAKE_FAR = """
import subprocess
subprocess.run(["ip", "addr", "add", "2001:db8:77::1/128", "dev", "lo"], check=True)
"""


def test_a_route_leads_ipv6_to_a_job(pool: RealPool) -> None:
    target = "2001:db8:77::1/7000"
    hop = "fd12:3456:789a::9"
    submit(pool, "far", TAKE_FAR + NAME_CLIENT, address=hop)
    assert run(pool, ASK, target) == ["OSError"]
    route = pool.json("network", "route-create", "a", "2001:db8:77::/64", "--via", hop)
    why = pool.json("network", "why", "far", "2001:db8:77::1")
    assert why["object"] == f"route {route['id']} to 2001:db8:77::/64"
    # The answer has the prefix's source, which the switch takes from the next hop alone.
    pool.until(lambda: run(pool, ASK, target)[0].startswith("fd12:"), "an answer over the route")
    table = [one for one in pool.json("network", "route-list", "a") if ":" in one["prefix"]]
    found = [(one["prefix"], one["kind"], one["via"]) for one in table]
    assert found == [("2001:db8:77::/64", "static", hop), (CIDR6, "connected", None)]
    pool.do("network", "route-delete", "a", "2001:db8:77::/64")
    pool.until(lambda: run(pool, ASK, target) == ["OSError"], "the end of the route")
    pool.do("stop", "far")


#: The machine beside this one, and this one's address there.
OUTSIDE = "2001:db8:6::2"
MACHINE = "2001:db8:6::1"
#: Names the source of each connection.
LISTEN = """
import socket, sys
server = socket.create_server((sys.argv[1], 7001), family=socket.AF_INET6)
print("listens", flush=True)
while True:
    peer, source = server.accept()
    peer.sendall(source[0].encode())
    peer.close()
"""
#: Prints what a server says first, or the name of the error.
ASK = """
import socket, sys
for target in sys.argv[1:]:
    host, _, port = target.rpartition("/")
    try:
        with socket.create_connection((host, int(port)), 2) as line:
            print(line.recv(60).decode())
    except OSError as error:
        print(type(error).__name__)
"""


@pytest.fixture(scope="module")
def outside() -> Iterator[tuple[str, ...]]:
    """A machine beside this one, with a server; returns how a command starts there."""
    name = f"gpt-out6-{os.getpid()}"
    commands = (
        f"ip netns add {name}",
        f"ip link add gptout6 type veth peer name eth0 netns {name}",
        f"ip addr add {MACHINE}/64 dev gptout6 nodad",
        "ip link set gptout6 up",
        f"ip -n {name} addr add {OUTSIDE}/64 dev eth0 nodad",
        f"ip -n {name} link set eth0 up",
    )
    for command in commands:
        subprocess.run(command.split(), check=True)
    there = ("ip", "netns", "exec", name)
    server = subprocess.Popen(
        [*there, sys.executable, "-c", LISTEN, OUTSIDE], stdout=subprocess.PIPE, text=True
    )
    assert server.stdout is not None
    assert server.stdout.readline() == "listens\n"
    yield there
    server.kill()
    server.wait()
    subprocess.run(["ip", "netns", "del", name], check=True)


#: Connects again and again, and prints what it gets where that has changed.
WATCH = """
import socket, sys, time
last = ""
while True:
    try:
        with socket.create_connection((sys.argv[1], 7001), 5) as line:
            found = line.recv(60).decode()
    except OSError as error:
        found = type(error).__name__
    if found != last:
        print(found, flush=True)
    last = found
    time.sleep(0.05)
"""
#: Answers each connection with the address of its client.
NAME_CLIENT = """
import socket
server = socket.create_server(("::", 7000), family=socket.AF_INET6, dualstack_ipv6=True)
while True:
    peer, source = server.accept()
    peer.sendall(source[0].encode())
    peer.close()
"""


def ask_from(there: tuple[str, ...], *targets: str) -> list[str]:
    command = [*there, sys.executable, "-c", ASK, *targets]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def gateway(pool: RealPool, outside: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Two networks whose gateways carry IPv6, switched on while a job runs; off afterwards."""
    settings = Path("/proc/sys/net/ipv6/conf")
    names = ("all/forwarding", "gptout6/accept_ra", "default/accept_ra")
    before = [(settings / name).read_text() for name in names]
    submit(pool, "watch", WATCH, arguments=(OUTSIDE,))
    pool.do("network", "create", "b", "--cidr", "10.0.0.0/24", "--cidr6", CIDR6)
    for network in ("a", "b"):
        pool.do("network", "gateway-create", network)
    assert run(pool, ASK, f"{OUTSIDE}/7001") == ["OSError"]
    assert "--gateway-ipv6 on" in pool.run("network", "show", "a").stderr
    pool.do("network", "enable", "--gateway-ipv6", "on", "--forward-ports", "30000-30009")
    # Also of a job that ran before.
    pool.until(
        lambda: read_watch(pool) == ["OSError", MACHINE], "packets with the machine's address"
    )
    # Which prefix it is depends on the other pools of this machine.
    (address,) = read_cable(pool)
    assert address.startswith("fd67:7075:706f:")
    # A machine that forwards takes router advertisements at 2 alone.
    assert [(settings / name).read_text() for name in names] == ["1\n", "2\n", "2\n"]
    yield outside
    pool.do("network", "enable", "--gateway-ipv6", "off")
    pool.until(lambda: read_watch(pool)[-1] == "OSError", "a refusal at once")
    pool.until(
        lambda: [(settings / name).read_text() for name in names] == before, "the old settings"
    )
    assert read_cable(pool) == []
    pool.do("stop", "watch")


def read_cable(pool: RealPool) -> list[str]:
    """The addresses of this machine towards the gateways, without the link-local one."""
    words = ["ip", "-6", "-o", "addr", "show", "dev", f"gpu{locate_files(pool).mark}"]
    lines = subprocess.run([*words, "scope", "global"], capture_output=True, text=True, check=True)
    return [line.split()[3] for line in lines.stdout.splitlines()]


def read_watch(pool: RealPool) -> list[str]:
    return pool.run("logs", "watch").stdout.split()


def test_a_gateway_carries_ipv6_and_leads_neither_to_the_machine_nor_to_other_tenants(
    pool: RealPool, gateway: tuple[str, ...]
) -> None:
    assert run(pool, ASK, f"{OUTSIDE}/7001", network="b") == [MACHINE]
    networks = [pool.json("network", "show", name) for name in ("a", "b")]
    shown = [one["gateway"]["address6"] for one in networks]
    assert len(set(shown)) == 2
    # Name servers outside are asked from the resolver's own namespace.
    resolver = JobNamespaces(locate_files(pool)).locate(networks[0]["id"]).name
    assert ask_from(("ip", "netns", "exec", resolver), f"{OUTSIDE}/7001") == [MACHINE]
    assert pool.json("network", "verify")["kept"] is True
    submit(pool, "server", NAME_CLIENT)
    listener = subprocess.Popen(
        [sys.executable, "-c", LISTEN.replace("7001", "7002"), MACHINE],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert listener.stdout is not None
        assert listener.stdout.readline() == "listens\n"
        # The machine's server answers the machine alone; jobs get nothing of it.
        assert ask_from((), f"{MACHINE}/7002") == [MACHINE]
        assert run(pool, ASK, f"{MACHINE}/7002", f"{shown[1]}/7000") == ["TimeoutError"] * 2
    finally:
        listener.kill()
        listener.wait()
    pool.do("stop", "server")


def test_a_port_of_the_machine_leads_to_a_job_over_both_families(
    pool: RealPool, gateway: tuple[str, ...]
) -> None:
    submit(pool, "server", NAME_CLIENT)
    made = pool.json("network", "forward-create", "a", "server", "--target-port", "7000")
    target = f"{MACHINE}/{made['port']}"
    # The job sees the client's own address.
    pool.until(lambda: ask_from(gateway, target) == [OUTSIDE], "an answer outside")
    assert ask_from((), target) == [MACHINE]
    # Nothing outside opens a connection in another way, not even with a route to the cable.
    inner = pool.json("network", "show", "a")["gateway"]["address6"]
    command = [*gateway, "ip", "-6", "route", "add", f"{inner}/128", "via", MACHINE]
    subprocess.run(command, check=True)
    assert ask_from(gateway, f"{inner}/{made['port']}") == ["TimeoutError"]
    words = ("firewall-create", "deny", f"{OUTSIDE}/128", "--direction", "in")
    rule = pool.json("network", *words)
    pool.until(
        lambda: ask_from(gateway, target) == ["ConnectionRefusedError"], "a refusal by the rule"
    )
    pool.do("network", "firewall-delete", rule["id"])
    pool.until(lambda: ask_from(gateway, target) == [OUTSIDE], "an answer without the rule")
    pool.do("network", "forward-delete", "a", made["id"])
    pool.until(
        lambda: ask_from(gateway, target) == ["ConnectionRefusedError"], "the end of the forward"
    )
    pool.do("stop", "server")


def test_a_rule_of_the_boundary_ends_connections_over_ipv6(
    pool: RealPool, gateway: tuple[str, ...]
) -> None:
    target = f"{OUTSIDE}/7001"
    # A rule about IPv4 says nothing about IPv6.
    first = pool.json("network", "firewall-create", "deny", "0.0.0.0/0")
    assert run(pool, ASK, target) == [MACHINE]
    rule = pool.json("network", "firewall-create", "deny", "2001:db8::/32", "--network", "a")
    pool.until(lambda: run(pool, ASK, target) == ["ConnectionRefusedError"], "the rule")
    assert run(pool, ASK, target, network="b") == [MACHINE]
    for one in (rule, first):
        pool.do("network", "firewall-delete", one["id"])
