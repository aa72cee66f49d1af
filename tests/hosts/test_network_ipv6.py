"""Networks with IPv6 on the real OVN: jobs meet over both families, and strangers over neither."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from ipaddress import IPv6Address, IPv6Network

import pytest

from tests.e2e.pool_fixture import RealPool
from tests.hosts import guest, name_questions
from tests.hosts.network_guest import write_network_guest
from tests.hosts.test_network_vms import Guest, await_leases
from tests.support.network_pool import OVN_MARKS, network_pool
from tests.support.pages import PAGES
from tests.support.typed_commands import commands

pytestmark = OVN_MARKS

CIDR6 = "fd12:3456:789a::/64"
SERVER = "fd12:3456:789a::2"
#: Bytes of a datagram that fills a packet: 1442 without the headers of IPv6 and UDP.
FULL = 1442 - 40 - 8
#: Serves its text over both families, and echoes datagrams that no router may cut.
SERVE = """
import socket, sys, threading
server = socket.create_server(("::", 7000), family=socket.AF_INET6, dualstack_ipv6=True)
echo = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
echo.setsockopt(socket.IPPROTO_IPV6, 62, 1)  # IPV6_DONTFRAG of linux/in6.h
echo.bind(("::", 7001))
def answer():
    while True:
        echo.sendto(*echo.recvfrom(65535))
threading.Thread(target=answer, daemon=True).start()
while True:
    peer, _ = server.accept()
    peer.sendall(sys.argv[1].encode())
    peer.close()
"""
#: Prints what the server of a target says over a family, or the name of the error.
ASK = """
import socket, sys
def ask(target, family, seconds):
    try:
        found = socket.getaddrinfo(target, 7000, family, socket.SOCK_STREAM)
        with socket.socket(family, socket.SOCK_STREAM) as line:
            line.settimeout(seconds)
            line.connect(found[0][4])
            return line.recv(20).decode()
    except OSError as error:
        return error.strerror if isinstance(error, socket.gaierror) else type(error).__name__
for word in sys.argv[2:]:
    family, target = word.split("/", 1)
    known = socket.AF_INET6 if family == "6" else socket.AF_INET
    print(ask(target, known, float(sys.argv[1])))
"""
ECHO = """
import socket, sys
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as line:
    line.setsockopt(socket.IPPROTO_IPV6, 62, 1)
    line.settimeout(5)
    line.connect((sys.argv[1], 7001))
    for size in map(int, sys.argv[2:]):
        try:
            line.send(bytes(size))
            print(len(line.recv(65535)))
        except OSError as error:
            print(error.errno)
"""

#: Asks the router for its advertisement, and for a lease, as a guest does. Prints what it gets.
GUEST = """
import socket, struct
index = socket.if_nametoindex("eth0")
mac = bytes.fromhex(open("/sys/class/net/eth0/address").read().strip().replace(":", ""))
with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as line:
    line.settimeout(10)
    line.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
    line.sendto(bytes([133, 0, 0, 0, 0, 0, 0, 0]) + bytes([1, 1]) + mac, ("ff02::2", 0, 0, index))
    message = line.recv(1500)
    while message[0] != 134:
        message = line.recv(1500)
print("managed", message[5] >> 7)
position = 16
while position < len(message):
    kind, units = message[position : position + 2]
    if kind == 5:
        print("mtu", struct.unpack_from("!I", message, position + 4)[0])
    if kind == 3:
        print("autonomous", message[position + 3] >> 6 & 1)
    position += 8 * units

def option(kind, data):
    return struct.pack("!HH", kind, len(data)) + data

def list_options(data):
    while data:
        kind, length = struct.unpack_from("!HH", data)
        yield kind, data[4 : 4 + length]
        data = data[4 + length :]

duid = option(1, struct.pack("!HH", 3, 1) + mac)
wanted = option(3, struct.pack("!III", 1, 0, 0)) + option(6, struct.pack("!HH", 23, 24))
with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as line:
    line.settimeout(10)
    line.bind(("::", 546))
    line.sendto(bytes([1, 0, 0, 7]) + duid + wanted, ("ff02::1:2", 547, 0, index))
    answer = line.recv(1500)
assert answer[:4] == bytes([2, 0, 0, 7]), answer
for kind, data in list_options(answer[4:]):
    if kind == 23:
        print("dns", socket.inet_ntop(socket.AF_INET6, data))
    if kind == 24:
        print("domain", data)
    if kind == 3:
        for inner, value in list_options(data[12:]):
            if inner == 5:
                print("address", socket.inet_ntop(socket.AF_INET6, value[:16]))
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    with network_pool() as made:
        for name in ("a", "b"):
            made.do("network", "create", name, "--cidr", "10.0.0.0/24", "--cidr6", CIDR6)
            serve(made, name, f"server-{name}")
        serve(made, "a", "other")
        yield made
        made.stop_all()
        made.do("network", "disable", "--yes")


def serve(pool: RealPool, network: str, name: str, *options: str) -> None:
    words = ("submit", "--network", network, *options, "--gpu", "0.1", "--name", name)
    pool.do(*words, "--", sys.executable, "-c", SERVE, f"from-{name}")
    pool.until_state(name, "running")


def run(pool: RealPool, network: str, *command: str) -> list[str]:
    words = ("run", "-q", "--network", network, "--gpu", "0.1", "--", sys.executable)
    return pool.do(*words, *command).splitlines()


def ask(pool: RealPool, network: str, *targets: str, seconds: float = 10) -> list[str]:
    return run(pool, network, "-c", ASK, str(seconds), *targets)


def test_jobs_meet_over_both_families_by_name_and_by_address(pool: RealPool) -> None:
    job = pool.job("server-a")
    assert (job["address"], job["address6"]) == ("10.0.0.2", SERVER)
    targets = ("4/server-a", "6/server-a", f"6/{SERVER}", "6/server-a.a.gpupool.internal")
    assert ask(pool, "a", *targets) == ["from-server-a"] * 4
    # The last two ask for the name of an address: of a job, and of nothing.
    reverse = [f"{IPv6Address(text).reverse_pointer} PTR" for text in (SERVER, "fd12:3456::1")]
    questions = ("server-a A", "server-a AAAA", "server-b AAAA", *reverse)
    found = run(pool, "a", name_questions.__file__, *questions)
    assert found == ["0 1 10.0.0.2", f"0 1 {SERVER}", "3 0", "0 1", "3 0"]
    shown = pool.do("network", "show", "a")
    assert CIDR6 in shown
    assert SERVER in shown


def test_a_guest_gets_the_address_of_its_port_and_no_other(pool: RealPool) -> None:
    words = ("run", "-q", "--network", "a", "--address", "fd12:3456:789a::77", "--gpu", "0.1")
    printed = pool.do(*words, "--", sys.executable, "-c", GUEST)
    facts = dict(line.split(" ", 1) for line in printed.splitlines())
    assert facts["address"] == "fd12:3456:789a::77"
    assert (facts["managed"], facts["autonomous"], facts["mtu"]) == ("1", "0", "1442")
    assert facts["dns"] == "fd67:7075:706f:ffff::2"
    assert "gpupool" in facts["domain"]


@pytest.mark.skipif(bool(guest.find_missing_part()), reason=guest.find_missing_part())
def test_a_vm_meets_jobs_over_ipv6_and_sends_from_its_own_address_alone(pool: RealPool) -> None:
    """The guest has no client of DHCPv6, so the test types the address that its port has."""
    initrd = pool.state_dir.parent / "initrd"
    write_network_guest(initrd)
    kernel = guest.find_kernel()
    assert isinstance(kernel, guest.TestKernel)
    words = ("--kernel", str(kernel.image), "--initrd", str(initrd), "--append", guest.APPEND)
    more = ("--ram", "192MiB", "--cpus", "1", "--gpu", "none", "--name", "dev")
    own = "fd12:3456:789a::66"
    pool.do("vm", "run", *words, *more, "--network", "a", "--address", own)
    await_leases(pool, "dev")
    dev = Guest(pool, "dev")
    try:
        routes = "busybox ip -6 route | busybox grep default"
        pool.until(lambda: "via fe80::" in dev.do(routes), "the router's advertisement")
        # The interface for log-ins leads nowhere.
        assert "eth1" not in dev.do(routes)
        for address in (own, "fd12:3456:789a::67"):
            dev.do(f"busybox ip -6 addr add {address}/64 dev eth0")
        listing = "busybox ip -6 addr show dev eth0"
        pool.until(lambda: "tentative" not in dev.do(listing), "addresses that no other has")
        ping = (
            f"busybox ping6 -c 1 -W 2 -I {{}} {SERVER} >/dev/null && echo reached || echo dropped"
        )
        assert dev.do(ping.format(own)) == "reached\n"
        assert dev.do(ping.format("fd12:3456:789a::67")) == "dropped\n"
        assert ask(pool, "a", f"6/{own}") == ["from-vm"]
    finally:
        dev.close()
        pool.do("vm", "stop", "dev", "--grace", "0")


def test_packets_of_full_size_pass_and_larger_ones_are_refused_at_once(pool: RealPool) -> None:
    too_large = "90"
    sizes = (str(FULL), str(FULL + 1))
    assert run(pool, "a", "-c", ECHO, SERVER, *sizes) == [str(FULL), too_large]


def test_the_same_prefix_in_two_networks_is_two_jobs_and_nothing_passes(pool: RealPool) -> None:
    other = pool.job("other")["address6"]
    assert ask(pool, "b", f"6/{SERVER}") == ["from-server-b"]
    assert ask(pool, "a", f"6/{other}") == ["from-other"]
    assert ask(pool, "b", f"6/{other}", seconds=1) == ["TimeoutError"]


def test_the_outside_is_unreachable_at_once(pool: RealPool) -> None:
    pool.do("network", "gateway-create", "a")
    assert ask(pool, "a", "6/2001:db8::1") == ["OSError"]
    why = pool.json("network", "why", "server-a", "2001:db8::1")
    assert why["is_reached"] is False
    assert "carry IPv4" in why["reason"]
    assert "carries IPv4 alone" in pool.run("network", "show", "a").stderr
    pool.do("network", "gateway-delete", "a")


def test_isolation_is_verified_over_ipv6_too(pool: RealPool) -> None:
    found = pool.json("network", "verify")
    kept = {check["name"]: check["kept"] for check in found["checks"]}
    for kind in ("udp", "tcp", "icmp", "arp", "ipv6", "udp6", "icmp6", "forged-source6"):
        assert kept[f"isolation/{kind}"] is True, found
    for kind in ("forged-source6", "forged-nd"):
        assert kept[f"port-security/{kind}"] is True, found
    assert kept["drift"] is kept["dns6/a"] is kept["dns6/b"] is True
    assert found["kept"] is True


def test_a_group_takes_ipv6_by_its_rules_alone(pool: RealPool) -> None:
    pool.do("network", "group-create", "a", "web")
    serve(pool, "a", "web", "--security-group", "web")
    web = pool.job("web")["address6"]
    assert ask(pool, "a", f"6/{web}", "4/web", seconds=1) == ["TimeoutError"] * 2
    why = ("network", "why", "server-a", web, "--port", "7000")
    assert pool.json(*why)["is_reached"] is False
    pool.do("network", "group-allow", "a", "web", "tcp:7000", "--from", CIDR6)
    pool.until(lambda: ask(pool, "a", f"6/{web}", seconds=1) == ["from-web"], "packets by the rule")
    assert pool.json(*why)["is_reached"] is True
    # The rule is about IPv6 alone.
    assert ask(pool, "a", "4/web", seconds=1) == ["TimeoutError"]
    pool.do("stop", "web")
    pool.until_state("web", "stopped")
    pool.do("network", "group-delete", "a", "web")


def test_peered_networks_meet_over_ipv6(pool: RealPool) -> None:
    pool.do("network", "create", "c", "--cidr", "10.3.0.0/24", "--cidr6", "auto")
    network = pool.json("network", "show", "c")
    assert IPv6Network(network["subnets"][0]["cidr6"]).subnet_of(IPv6Network("fd00::/8"))
    peering = pool.do("network", "peering-request", "a", network["id"]).strip()
    assert ask(pool, "c", f"6/{SERVER}", seconds=1) == ["TimeoutError"]
    pool.do("network", "peering-accept", "c", peering)
    pool.until(
        lambda: ask(pool, "c", f"6/{SERVER}", seconds=1) == ["from-server-a"],
        "packets through the peering",
    )
    pool.do("network", "peering-revoke", "a", peering)
    pool.do("network", "delete", "c", "--yes")


def test_a_load_balancer_has_an_ipv6_address_and_leaves_out_what_does_not_serve(
    pool: RealPool,
) -> None:
    words = ("submit", "--network", "a", "--gpu", "0.1", "--name", "idle", "--", "sleep", "600")
    pool.do(*words)
    pool.until_state("idle", "running")
    backends = [word for name in ("server-a", "other", "idle") for word in ("--backend", name)]
    pool.do("network", "lb-create", "a", "api", "--port", "7000", *backends)
    both = {"from-server-a", "from-other"}
    pool.until(lambda: set(ask(pool, "a", *["6/api"] * 24)) == both, "answers of what serves")
    (balancer,) = pool.json("network", "lb-list", "a")
    assert ask(pool, "a", f"6/{balancer['address6']}")[0] in both
    pool.do("network", "lb-delete", "a", "api")
    pool.do("stop", "idle")


def test_a_network_gets_ipv6_later_with_a_subnet(pool: RealPool) -> None:
    pool.do("network", "create", "d", "--cidr", "10.4.0.0/24")
    serve(pool, "d", "old")
    pool.do("network", "subnet-create", "d", "--cidr", "10.5.0.0/24", "--cidr6", CIDR6)
    serve(pool, "d", "new", "--address", "fd12:3456:789a::99")
    assert pool.job("old")["address6"] is None
    words = ("--network", "d", "--address", "fd12:3456:789a::98", "--gpu", "0.1", "--")
    command = (sys.executable, "-c", ASK, "10", "4/old", "6/new")
    found = pool.do("run", "-q", *words, *command).splitlines()
    assert found == ["from-old", "from-new"]
    assert IPv6Address(pool.job("new")["address6"]) == IPv6Address("fd12:3456:789a::99")


def test_commands_of_the_page_work_in_their_order(pool: RealPool) -> None:
    for words in commands(PAGES / "network-ipv6.md"):
        if words[:2] == ["network", "delete"]:
            pool.until(lambda: pool.json("network", "show", "lab")["ports"] == [], "the jobs' end")
        printed = pool.do(*words)
        if words[0] == "submit":
            pool.until_state("server", "running")
        if "ahostsv6" in words:
            assert printed.split()[0] == pool.job("server")["address6"]
        if "--address" in words:
            wanted = words[words.index("--address") + 1].split(",")
            assert set(wanted) <= set(printed.split())
