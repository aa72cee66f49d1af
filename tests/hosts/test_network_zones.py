"""Networks in zones with the real OVN: apart, with gateways, whole after kills, and gone at the end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.network.daemons import EngineFiles, locate_engine
from gpupool.agent.network.zones.zone_files import locate_zone
from tests.e2e.pool_fixture import RealPool
from tests.support.network_pool import OVN_MARKS
from tests.support.pages import PAGES
from tests.support.typed_commands import commands

pytestmark = OVN_MARKS

#: By the name of a network, the tenant that has it; both have the same addresses.
OWNERS = {"a": "red", "b": "blue"}
SERVE = """
import socket
server = socket.create_server(("", 7000))
while True:
    peer, _ = server.accept()
    peer.sendall({text!r})
    peer.close()
"""
#: Prints what a server says, or the name of the error.
ASK = """
import socket, sys
try:
    print(socket.create_connection((sys.argv[1], int(sys.argv[2])), 3).recv(40).decode())
except OSError as error:
    print(type(error).__name__)
"""
#: A server of a machine outside: it says the address that it is asked from.
OUTSIDE = """
import socket
server = socket.create_server(("198.51.100.130", 7001))
print("listens", flush=True)
while True:
    peer, source = server.accept()
    peer.sendall(source[0].encode())
    peer.close()
"""


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    directory = Path(tempfile.mkdtemp(prefix="gpz-"))
    directory.chmod(0o755)
    with RealPool(directory / "pool", "8xL40S") as made:
        made.do("network", "enable", "--zone-size", "1")
        for network, tenant in OWNERS.items():
            made.do("tenant", "create", tenant)
            words = ("--cidr", "10.0.0.0/24", "--tenant", tenant)
            made.do("network", "create", network, *words)
            command = SERVE.format(text=f"from-{network}".encode())
            words = ("submit", "--tenant", tenant, "--network", network, "--gpu", "0.1")
            made.do(*words, "--name", f"server-{network}", "--", sys.executable, "-c", command)
        for network in OWNERS:
            made.until_state(f"server-{network}", "running")
        yield made
        made.stop_all()
        # What is submitted while the pool starts waits for its zone.
        made.do("down")
        check_nothing_is_left(made)
        made.up()
        for network in OWNERS:
            assert ask(made, network, "10.0.0.1", 7001) in (
                "ConnectionRefusedError",
                "TimeoutError",
            )
        made.do("network", "disable", "--yes")
        check_nothing_is_left(made)
    shutil.rmtree(directory)


@pytest.fixture
def outside() -> Iterator[str]:
    """A machine beside this one, with a server; yields its address."""
    name = f"gpz-out-{os.getpid()}"
    interface = f"gpz{os.getpid()}"
    steps = (
        f"ip netns add {name}",
        f"ip link add {interface} type veth peer name eth0 netns {name}",
        f"ip addr add 198.51.100.129/25 dev {interface}",
        f"ip link set {interface} up",
        f"ip -n {name} addr add 198.51.100.130/25 dev eth0",
        f"ip -n {name} link set eth0 up",
    )
    for step in steps:
        subprocess.run(step.split(), check=True)
    command = ["ip", "netns", "exec", name, sys.executable, "-c", OUTSIDE]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == "listens\n"
        yield "198.51.100.130"
    finally:
        server.kill()
        server.wait()
        subprocess.run(["ip", "netns", "del", name], check=True)


def locate_files(pool: RealPool, zone: int) -> EngineFiles:
    return locate_engine(locate_zone(pool.state_dir / "agent/network", zone))


def find_daemons(pool: RealPool, zone: int) -> set[int]:
    """The daemons of a zone, by the directory that their command lines name."""
    run = f"/{locate_files(pool, zone).run.name}/".encode()
    found = set[int]()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if Path(words[0].decode()).name.startswith(("ov", "dnsmasq")) and any(
            run in word for word in words
        ):
            found.add(int(entry.name))
    return found


def check_nothing_is_left(pool: RealPool, zones: tuple[int, ...] = (0, 1)) -> None:
    for zone in zones:
        files = locate_files(pool, zone)
        assert find_daemons(pool, zone) == set()
        assert not list(files.namespace.parent.glob(f"{files.namespace.name}*"))
        assert not files.run.exists()
        assert not files.data.exists()


def ask(pool: RealPool, network: str, target: str, port: int = 7000) -> str:
    words = ("run", "-q", "--tenant", OWNERS[network], "--network", network, "--gpu", "0.1", "--")
    return pool.do(*words, sys.executable, "-c", ASK, target, str(port)).strip()


def test_the_same_addresses_in_two_zones_are_two_networks(pool: RealPool) -> None:
    zones = pool.json("network", "status")["zones"]
    facts = [(one["number"], one["state"], one["networks"], one["daemons"]) for one in zones]
    assert facts == [(0, "ready", 1, 6), (1, "ready", 1, 6)]
    assert ask(pool, "a", "10.0.0.2") == "from-a"
    assert ask(pool, "b", "10.0.0.2") == "from-b"
    assert ask(pool, "b", "server-b") == "from-b"
    # The other zone has no such job, though its zone 0 has.
    assert ask(pool, "b", "server-a") == "gaierror"
    assert ask(pool, "b", "10.0.0.9") in ("OSError", "TimeoutError")


def test_gateways_and_forwards_of_a_zone_work_and_tenants_stay_apart(
    pool: RealPool, outside: str
) -> None:
    for network, tenant in OWNERS.items():
        pool.do("network", "gateway-create", network, "--tenant", tenant)
    for network in OWNERS:
        pool.until(
            lambda network=network: ask(pool, network, outside, 7001) == "198.51.100.129",
            f"the gateway of {network}",
        )
    shown = pool.json("network", "show", "a", "--tenant", "red")
    assert ask(pool, "b", shown["gateway"]["address"]) in ("TimeoutError", "OSError")
    pool.do("network", "enable", "--forward-ports", "30000-30009")
    words = ("forward-create", "b", "server-b", "--target-port", "7000", "--tenant", "blue")
    made = pool.json("network", *words)
    port = str(made["port"])
    command = ["ip", "netns", "exec", f"gpz-out-{os.getpid()}", sys.executable, "-c", ASK]

    def answer() -> str:
        words = [*command, "198.51.100.129", port]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    pool.until(lambda: answer() == "from-b", "the forwarded port of zone 1")


def test_verification_finds_a_zone_as_wanted(pool: RealPool) -> None:
    made = pool.json("network", "verify", "b", "--tenant", "blue")
    checks = {check["name"]: check["kept"] for check in made["checks"]}
    assert made["kept"], made
    assert checks["drift"]
    assert checks["isolation/udp"]


def test_daemons_of_a_zone_that_were_killed_come_back(pool: RealPool) -> None:
    others = find_daemons(pool, 0)
    killed = find_daemons(pool, 1)
    assert len(killed) >= 6
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    pool.until(lambda: len(find_daemons(pool, 1) - killed) >= 6, "six new daemons")
    # They run before the switch has the flows of its ports again.
    pool.until(lambda: ask(pool, "b", "10.0.0.2") == "from-b", "an answer over the new switch")
    assert others <= find_daemons(pool, 0)


def test_zones_survive_a_killed_server_and_agent(pool: RealPool) -> None:
    before = [find_daemons(pool, zone) for zone in (0, 1)]
    os.kill(pool.server_pid(), signal.SIGKILL)
    pool.up()
    assert ask(pool, "b", "server-b") == "from-b"
    assert ask(pool, "a", "server-a") == "from-a"
    assert [find_daemons(pool, zone) for zone in (0, 1)] == before


def test_a_zone_ends_with_its_last_network_and_begins_with_the_next(pool: RealPool) -> None:
    pool.do("network", "create", "c", "--cidr", "10.0.0.0/24")
    pool.until(lambda: len(find_daemons(pool, 2)) == 6, "the daemons of zone 2")
    pool.do("network", "delete", "c", "--yes")
    pool.until(lambda: not locate_files(pool, 2).data.exists(), "the end of zone 2")
    check_nothing_is_left(pool, (2,))
    assert ask(pool, "b", "server-b") == "from-b"


def test_commands_of_the_page_of_zones_work_in_their_order(pool: RealPool) -> None:
    for words in commands(PAGES / "network-zones.md"):
        pool.do(*words)
    assert pool.json("network", "status")["zone_size"] == 300
    assert pool.json("network", "show", "beside")["zone"] == 0
    pool.do("network", "delete", "beside", "--yes")
