"""Networks on this machine with the real OVN: joined, isolated, and whole after kills."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.network.daemons import find_missing_programs
from tests.e2e.pool_fixture import RealPool
from tests.support.pages import PAGES
from tests.support.typed_commands import commands

_MISSING = find_missing_programs()
_REASON = f"needs {', '.join(sorted(set(_MISSING.values())))}" if _MISSING else ""
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(_MISSING), reason=_REASON),
]

SERVE = """
import socket
server = socket.create_server(("", 7000))
while True:
    peer, _ = server.accept()
    peer.sendall({text!r})
    peer.close()
"""
#: Prints what the server of an address says, or the name of the error.
ASK = """
import socket, sys
try:
    print(socket.create_connection((sys.argv[1], 7000), float(sys.argv[2])).recv(20).decode())
except OSError as error:
    print(type(error).__name__)
"""
DAEMONS = ("ovn-northd", "ovs-vswitchd", "ovn-controller", "ovsdb-server")


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    directory = Path(tempfile.mkdtemp(prefix="gpn-"))
    directory.chmod(0o755)
    with RealPool(directory / "pool", "8xL40S") as made:
        made.do("network", "enable")
        for name in ("a", "b"):
            made.do("network", "create", name, "--cidr", "10.0.0.0/24")
            command = SERVE.format(text=f"from-{name}".encode())
            words = ("submit", "--network", name, "--gpu", "0.1", "--name", f"server-{name}")
            made.do(*words, "--", sys.executable, "-c", command)
            made.until_state(f"server-{name}", "running")
        yield made
        made.stop_all()
        made.do("network", "disable", "--yes")
        assert made.json("network", "status")["state"] == "off"
        check_nothing_is_left(made)
        # So does `down` with an engine that is enabled, and the next start has it again.
        made.do("network", "enable")
        made.do("down")
        check_nothing_is_left(made)
        made.up()
        made.until(lambda: len(find_daemons(made)) == 6, "the daemons after a new start")
    check_nothing_is_left(made)
    shutil.rmtree(directory)


def check_nothing_is_left(pool: RealPool) -> None:
    assert find_daemons(pool) == []
    assert not list(Path("/run/netns").glob(f"gpupool-{mark(pool)}*"))
    assert not [name for name in list_interfaces() if mark(pool) in name]
    assert not Path(f"/run/gpupool-network-{mark(pool)}").exists()


def list_interfaces() -> set[str]:
    return set(os.listdir("/sys/class/net"))


def mark(pool: RealPool) -> str:
    from gpupool.agent.network.daemons import locate_engine

    return locate_engine(pool.state_dir / "agent/network").mark


def find_daemons(pool: RealPool) -> list[int]:
    """The daemons of this pool alone: other pools of the machine have some too."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        name = Path(words[0].decode()).name
        if name in DAEMONS and any(mark(pool).encode() in word for word in words):
            found.append(int(entry.name))
    return found


def ask(pool: RealPool, network: str, whom: str, seconds: float = 10) -> str:
    words = ("run", "-q", "--network", network, "--gpu", "0.1", "--")
    return pool.do(*words, sys.executable, "-c", ASK, whom, str(seconds)).strip()


def address(pool: RealPool, name: str) -> str:
    return str(pool.job(name)["address"])


def test_jobs_of_one_network_meet_by_name_and_by_address(pool: RealPool) -> None:
    assert ask(pool, "a", "server-a") == "from-a"
    assert ask(pool, "b", "server-b") == "from-b"
    assert ask(pool, "a", "server-a.a.gpupool.internal") == "from-a"
    assert ask(pool, "a", address(pool, "server-a")) == "from-a"
    facts = dict(line.split("  ", 1) for line in pool.do("show", "server-a").splitlines())
    assert facts["network"].strip() == "a, 10.0.0.2"


def test_the_same_address_in_two_networks_is_two_jobs(pool: RealPool) -> None:
    assert address(pool, "server-a") == address(pool, "server-b") == "10.0.0.2"
    assert ask(pool, "a", "10.0.0.2") == "from-a"
    assert ask(pool, "b", "10.0.0.2") == "from-b"


def test_a_job_reaches_nothing_outside_of_its_network(pool: RealPool) -> None:
    words = ("run", "-q", "--network", "a", "--gpu", "0.1", "--")
    listing = pool.do(*words, "cat", "/proc/net/dev")
    names = {line.split(":")[0].strip() for line in listing.splitlines() if ":" in line}
    assert names == {"lo", "eth0"}
    # The address of an outer interface is one that the job's network does not know.
    outside = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True)
    for one in outside.stdout.split()[:1]:
        assert ask(pool, "a", one, 1) == "TimeoutError"
    # Without a network a job sees the machine's, and no tenant's.
    words = ("run", "-q", "--gpu", "0.1", "--", sys.executable, "-c", ASK, "10.0.0.2", "1")
    assert pool.do(*words).strip() != "from-a"


def test_a_forged_source_address_gets_no_answer(pool: RealPool) -> None:
    forge = """
import fcntl, os, socket, subprocess
subprocess.run(["ip", "addr", "add", "10.0.0.200/24", "dev", "eth0"], check=True)
with socket.socket() as own:
    own.settimeout(1)
    own.bind(("10.0.0.200", 0))
    try:
        own.connect(("10.0.0.2", 7000))
        print("connected")
    except OSError as error:
        print(type(error).__name__)
"""
    words = ("run", "-q", "--network", "a", "--gpu", "0.1", "--", sys.executable, "-c", forge)
    assert pool.do(*words).strip() == "TimeoutError"


def test_members_of_a_gang_meet_by_name(pool: RealPool) -> None:
    script = """
import os, socket
rank = int(os.environ["RANK"])
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    with socket.create_server(("", address[1])) as server:
        peer, source = server.accept()
        print(os.environ["GPUPOOL_GANG_HOSTS"], peer.recv(10).decode())
        print(open(os.environ["GPUPOOL_GANG_HOSTFILE"]).read(), end="")
else:
    for _ in range(100):
        try:
            socket.create_connection(address, 5).sendall(b"hello")
            break
        except OSError:
            __import__("time").sleep(0.1)
"""
    words = ("submit", "--network", "a", "--gpu", "0.1", "--gang", "2", "--name", "pair")
    pool.do(*words, "--", sys.executable, "-c", script)
    pool.until_state("pair.0", "done", "failed")
    assert pool.do("logs", "pair.0").splitlines() == [
        "pair-0.pair,pair-1.pair hello",
        "pair-0.pair slots=1",
        "pair-1.pair slots=1",
    ]


def test_names_addresses_and_traffic_survive_a_killed_server(pool: RealPool) -> None:
    before = pool.json("network", "show", "a")["ports"]
    os.kill(pool.server_pid(), signal.SIGKILL)
    pool.up()
    assert pool.json("network", "show", "a")["ports"] == before
    assert ask(pool, "a", "server-a") == "from-a"
    assert ask(pool, "b", "10.0.0.2") == "from-b"


def test_daemons_that_were_killed_all_at_once_come_back(pool: RealPool) -> None:
    killed = find_daemons(pool)
    assert len(killed) == 6
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    pool.until(lambda: len(set(find_daemons(pool)) - set(killed)) == 6, "six new daemons")
    assert ask(pool, "a", "server-a") == "from-a"
    assert ask(pool, "b", "10.0.0.2") == "from-b"


def test_what_is_refused_says_why(pool: RealPool) -> None:
    for words, code in (
        (("network", "create", "c", "--cidr", "10.0.0.5/24"), "GP-1060"),
        (("network", "create", "a", "--cidr", "10.0.0.0/24"), "GP-2006"),
        (("network", "subnet-create", "a", "--cidr", "10.0.0.128/25"), "GP-2080"),
        (("network", "delete", "a", "--yes"), "GP-2008"),
        (("network", "disable", "--yes"), "GP-2008"),
        (("submit", "--network", "c", "--gpu", "0.1", "true"), "GP-3020"),
    ):
        refused = pool.run(*words)
        assert code in refused.stderr, refused.stderr
        assert refused.returncode in (2, 3, 5)
    assert len(json.loads(pool.do("network", "list", "-o", "json"))) == 2


def test_commands_of_the_page_work_in_their_order(pool: RealPool) -> None:
    for words in commands(PAGES / "network-first.md"):
        # The network of these tests is used, so the engine cannot end here.
        if words[:2] != ["network", "disable"]:
            printed = pool.do(*words)
            check_printed(pool, words, printed)
    for words in commands(PAGES / "network-security-groups.md"):
        check_printed(pool, words, pool.do(*words))
    pool.until(lambda: pool.json("network", "show", "lab")["ports"] == [], "the jobs' end")
    pool.do("network", "delete", "lab", "--yes")


def check_printed(pool: RealPool, words: list[str], printed: str) -> None:
    if words[0] == "submit":
        name = words[words.index("--name") + 1]
        pool.until_state(f"{name}.0" if "--array" in words else name, "running")
    if words[0] == "run":
        assert printed == "200\n"


def test_peered_networks_reach_each_other_and_no_third_one(pool: RealPool) -> None:
    pool.do("network", "create", "c", "--cidr", "10.3.0.0/24")
    other = pool.json("network", "show", "c")["id"]
    server = address(pool, "server-a")
    assert ask(pool, "c", server, 1) == "TimeoutError"
    peering = pool.do("network", "peering-request", "a", other).strip()
    assert ask(pool, "c", server, 1) == "TimeoutError"
    pool.do("network", "peering-accept", "c", peering)
    pool.until(lambda: ask(pool, "c", server, 1) == "from-a", "packets through the peering")
    assert ask(pool, "b", server, 1) == "from-b"
    pool.do("network", "peering-revoke", "a", peering)
    pool.until(lambda: ask(pool, "c", server, 1) == "TimeoutError", "the end of the peering")
    pool.do("network", "delete", "c", "--yes")


def ask_in_group(pool: RealPool, group: str, whom: str, seconds: float = 1) -> str:
    words = ("run", "-q", "--network", "a", "--security-group", group, "--gpu", "0.1", "--")
    return pool.do(*words, sys.executable, "-c", ASK, whom, str(seconds)).strip()


def test_a_security_group_takes_its_members_and_its_rules_alone(pool: RealPool) -> None:
    for group in ("web", "ops"):
        pool.do("network", "group-create", "a", group)
    command = SERVE.format(text=b"from-web")
    words = ("submit", "--network", "a", "--security-group", "web", "--gpu", "0.1", "--name", "web")
    pool.do(*words, "--", sys.executable, "-c", command)
    pool.until_state("web", "running")
    pool.until(lambda: ask_in_group(pool, "web", "web") == "from-web", "packets of a member")
    assert ask(pool, "a", "web", 1) == "TimeoutError"
    assert ask_in_group(pool, "ops", "web") == "TimeoutError"
    # What a member asks for is answered, also by those that could not ask it, and by name.
    assert ask_in_group(pool, "ops", "server-a", 10) == "from-a"

    pool.do("network", "group-allow", "a", "web", "tcp:6999-7000", "--from", "ops")
    pool.until(lambda: ask_in_group(pool, "ops", "web") == "from-web", "packets by the rule")
    assert ask(pool, "a", "web", 1) == "TimeoutError"
    (rule,) = next(
        group["rules"]
        for group in pool.json("network", "group-list", "a")
        if group["name"] == "web"
    )
    pool.do("network", "group-allow", "a", "web", "tcp:7001", "--from", "10.0.0.0/24")
    pool.do("network", "group-revoke", "a", "web", rule["id"])
    pool.until(lambda: ask_in_group(pool, "ops", "web") == "TimeoutError", "the end of the rule")
    why = ("network", "why", "server-a", "web", "--port", "7000")
    assert pool.json(*why)["is_reached"] is False
    # The command that the answer names makes it true.
    pool.do(*pool.json(*why)["hint"].split()[1:])
    assert pool.json(*why)["is_reached"] is True
    pool.do("network", "group-allow", "a", "web", "tcp:7000")
    pool.until(lambda: ask(pool, "a", "web", 1) == "from-web", "packets from every address")
    refused = pool.run("network", "group-delete", "a", "web")
    assert "GP-2008" in refused.stderr
    pool.do("stop", "web")
    pool.until_state("web", "stopped")
    for group in ("web", "ops"):
        pool.do("network", "group-delete", "a", group)


def test_a_load_balancer_leaves_out_what_does_not_serve(pool: RealPool) -> None:
    pool.do("network", "lb-create", "a", "api", "--port", "7000", "--backend", "api-jobs")
    refused = pool.until(lambda: ask(pool, "a", "api", 2), "an answer for a balancer without jobs")
    assert refused == "ConnectionRefusedError"
    command = SERVE.format(text=b"from-api")
    words = ("submit", "--network", "a", "--gpu", "0.1", "--array", "2", "--name", "api-jobs")
    pool.do(*words, "--", sys.executable, "-c", command)
    pool.until_state("api-jobs.0", "running")
    pool.until_state("api-jobs.1", "running")
    pool.until(lambda: ask(pool, "a", "api", 2) == "from-api", "an answer by its name")
    assert ask(pool, "b", "100.126.0.2", 1) == "TimeoutError"
    # A member that runs and accepts no connection gets none after two probes.
    idle = ("submit", "--network", "a", "--gpu", "0.1", "--name", "api-idle", "--", "sleep", "600")
    pool.do(*idle)
    pool.until_state("api-idle", "running")
    pool.do("network", "lb-delete", "a", "api")
    backends = ("--backend", "api-jobs", "--backend", "api-idle")
    pool.do("network", "lb-create", "a", "api", "--port", "7000", *backends)
    pool.until(lambda: ask_often(pool, "api", 10) == {"from-api"}, "only what serves")
    # A job that ends is left out with it: no connection fails once `stop` has returned.
    pool.do("stop", "api-jobs.0")
    pool.until_state("api-jobs.0", "stopped")
    pool.until(lambda: ask_often(pool, "api", 40) == {"from-api"}, "the one that is left")
    pool.do("stop", "api-jobs")
    pool.do("stop", "api-idle")
    pool.do("network", "lb-delete", "a", "api")


def ask_often(pool: RealPool, whom: str, times: int) -> set[str]:
    many = ASK.replace("try:", f"for _ in range({times}):\n  try:").replace("    ", "      ")
    many = many.replace("except", "  except")
    words = ("run", "-q", "--network", "a", "--gpu", "0.1", "--")
    return set(pool.do(*words, sys.executable, "-c", many, whom, "1").split())


OUTSIDE = """
import socket
server = socket.create_server(("{address}", 7001))
while True:
    peer, source = server.accept()
    peer.sendall(source[0].encode())
    peer.close()
"""
ASK_OUTSIDE = """
import socket, sys
try:
    print(socket.create_connection((sys.argv[1], int(sys.argv[2])), 2).recv(40).decode())
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture
def outside() -> Iterator[str]:
    """A machine beside this one, with a server; returns its address."""
    name = f"gpt-out-{os.getpid()}"
    commands = (
        f"ip netns add {name}",
        f"ip link add gptout0 type veth peer name eth0 netns {name}",
        "ip addr add 203.0.113.1/24 dev gptout0",
        "ip link set gptout0 up",
        f"ip -n {name} addr add 203.0.113.2/24 dev eth0",
        f"ip -n {name} link set eth0 up",
    )
    for command in commands:
        subprocess.run(command.split(), check=True)
    server = subprocess.Popen(
        ["ip", "netns", "exec", name, sys.executable, "-c", OUTSIDE.format(address="203.0.113.2")]
    )
    yield "203.0.113.2"
    server.kill()
    server.wait()
    subprocess.run(["ip", "netns", "del", name], check=True)


def check_forward(pool: RealPool) -> None:
    """A port of the machine leads to a job: for the machine beside this one, and for this one."""
    pool.do("network", "enable", "--forward-ports", "30000-30009")
    made = pool.json("network", "forward-create", "a", "server-a", "--target-port", "7000")
    assert made["port"] == 30000
    netns = ("ip", "netns", "exec", f"gpt-out-{os.getpid()}")
    ask_machine = (sys.executable, "-c", ASK_OUTSIDE, "203.0.113.1", "30000")

    def answer(*before: str) -> str:
        done = subprocess.run(
            [*before, *ask_machine], capture_output=True, text=True, check=True, timeout=30
        )
        return done.stdout.strip()

    pool.until(lambda: answer(*netns) == "from-a", "an answer outside")
    assert answer() == "from-a"
    refused = pool.run("network", "gateway-delete", "a")
    assert "GP-2008" in refused.stderr
    pool.do("network", "forward-delete", "a", made["id"])
    pool.until(lambda: answer(*netns) == "ConnectionRefusedError", "the end of the forward")


#: Talks on one connection for as long as it is open.
TALK_OUTSIDE = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 7003), timeout=10) as talk:
    while True:
        talk.sendall(b"x")
        if not talk.recv(1):
            break
        print("answered", flush=True)
        time.sleep(0.05)
"""
ECHO_OUTSIDE = """
import socketserver
class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        while data := self.request.recv(1):
            self.request.sendall(data)
server = socketserver.ThreadingTCPServer(("203.0.113.2", 7003), Echo)
print("listens", flush=True)
server.serve_forever()
"""


def check_firewall(pool: RealPool, outside: str) -> None:
    """A rule holds for one network and for connections that were open before it."""
    netns = ("ip", "netns", "exec", f"gpt-out-{os.getpid()}")
    command = [*netns, sys.executable, "-c", ECHO_OUTSIDE]
    echo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert echo.stdout is not None
        assert echo.stdout.readline() == "listens\n"
        words = ("submit", "--network", "a", "--gpu", "0.1", "--name", "talker", "-o", "json", "--")
        pool.do(*words, sys.executable, "-c", TALK_OUTSIDE, outside)
        pool.until(lambda: "answered" in pool.run("logs", "talker").stdout, "an answer")
        rule = pool.json("network", "firewall-create", "deny", f"{outside}/32", "--network", "a")
        assert (rule["number"], rule["network"]) == (10, "a")
        pool.until(
            lambda: "ConnectionResetError" in pool.run("logs", "talker").stdout,
            "the end of the open connection",
        )
        assert ask_outside(pool, "a", outside) == "ConnectionRefusedError"
        assert ask_outside(pool, "b", outside) == "203.0.113.1"
        allowed = ("allow", f"{outside}/32", "--protocol", "tcp", "--ports", "7001")
        first = pool.json("network", "firewall-create", *allowed, "--number", "1")
        pool.until(lambda: ask_outside(pool, "a", outside) == "203.0.113.1", "the first rule")
        for one in (first, rule):
            pool.do("network", "firewall-delete", one["id"])
    finally:
        echo.kill()
        echo.wait()


def ask_outside(pool: RealPool, network: str, address: str, port: int = 7001) -> str:
    words = ("run", "-q", "--network", network, "--gpu", "0.1", "--")
    return pool.do(*words, sys.executable, "-c", ASK_OUTSIDE, address, str(port)).strip()


@pytest.mark.skipif(shutil.which("nft") is None, reason="needs the package nftables")
def test_a_gateway_leads_outside_and_neither_to_the_machine_nor_to_other_tenants(
    pool: RealPool, outside: str
) -> None:
    forwarding = Path("/proc/sys/net/ipv4/ip_forward").read_text()
    assert ask_outside(pool, "a", outside) == "TimeoutError"
    for network in ("a", "b"):
        pool.do("network", "gateway-create", network)
    pool.until(
        lambda: ask_outside(pool, "a", outside) == "203.0.113.1",
        "packets with the machine's address",
    )
    assert ask_outside(pool, "b", outside) == "203.0.113.1"
    uplink = [pool.json("network", "show", name)["gateway"]["address"] for name in ("a", "b")]
    assert len(set(uplink)) == 2
    check_forward(pool)
    check_firewall(pool, outside)
    # The machine itself answers nothing, and no other tenant's network is reached.
    machine = subprocess.Popen(
        [sys.executable, "-c", OUTSIDE.format(address="203.0.113.1").replace("7001", "7002")]
    )
    try:
        assert ask_outside(pool, "a", "203.0.113.1", 7002) == "TimeoutError"
    finally:
        machine.kill()
        machine.wait()
    assert ask_outside(pool, "a", uplink[1], 7000) == "TimeoutError"
    assert ask(pool, "a", "10.0.0.2") == "from-a"
    for network in ("a", "b"):
        pool.do("network", "gateway-delete", network)
    pool.until(lambda: ask_outside(pool, "a", outside) == "TimeoutError", "the end of the gateway")
    rules = ["nft", "list", "tables"]
    pool.until(
        lambda: (
            f"gpupool_{mark(pool)}"
            not in subprocess.run(rules, capture_output=True, text=True, check=True).stdout
        ),
        "the end of the rules",
    )
    assert Path("/proc/sys/net/ipv4/ip_forward").read_text() == forwarding


@pytest.mark.skipif(shutil.which("nft") is None, reason="needs the package nftables")
def test_commands_of_the_page_of_port_forwards_work_in_their_order(pool: RealPool) -> None:
    for words in commands(PAGES / "network-port-forward.md"):
        check_printed(pool, words, pool.do(*words))
    (forward,) = pool.json("network", "forward-list", "lab")
    assert (forward["port"], forward["target"], forward["target_port"]) == (30000, "server", 8000)
    pool.do("network", "forward-delete", "lab", forward["id"])
    pool.do("stop", "server")
    pool.until(lambda: pool.json("network", "show", "lab")["ports"] == [], "the job's end")
    pool.do("network", "delete", "lab", "--yes")
    pool.do("network", "enable", "--forward-ports", "")


def test_commands_of_the_page_of_the_firewall_work_in_their_order(pool: RealPool) -> None:
    pool.do("network", "create", "lab", "--cidr", "10.0.0.0/24")
    for words in commands(PAGES / "network-firewall.md"):
        rules = pool.json("network", "firewall-list")
        newest = max(rules, key=lambda rule: rule["created_ns"], default={"id": ""})
        pool.do(*(newest["id"] if word == "RULE" else word for word in words))
    left = pool.json("network", "firewall-list")
    assert [(one["number"], one["action"], one["network"]) for one in left] == [
        (10, "allow", None),
        (20, "deny", None),
        (30, "deny", "lab"),
    ]
    pool.do("network", "delete", "lab", "--yes")
    for one in pool.json("network", "firewall-list"):
        pool.do("network", "firewall-delete", one["id"])


@pytest.mark.skipif(shutil.which("nft") is None, reason="needs the package nftables")
def test_the_demo_ends_well_and_leaves_nothing() -> None:
    demo = Path(__file__).parents[2] / "tools/demo_network.sh"
    place = Path(tempfile.mkdtemp(prefix="gpd-"))
    place.chmod(0o755)
    done = subprocess.run(
        ["sh", demo],
        env={**os.environ, "TMPDIR": str(place)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "are answered by: one two" in done.stdout
    # Of the drill and of the cut cable; which promise they are held to, other tests say.
    assert re.search(r"^outage: \d+\.\d\d s$", done.stdout, re.MULTILINE)
    assert re.search(r"^no answer for \d+\.\d\d s$", done.stdout, re.MULTILINE)
    lost = re.search(r"gateways, (machine-[12]), loses its cable", done.stdout)
    assert lost is not None, done.stdout
    assert re.search(rf"^before +{lost[1]}$", done.stdout, re.MULTILINE)
    command_lines = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert str(place) not in command_lines
    interfaces = [*os.listdir("/sys/class/net"), *os.listdir("/run/netns")]
    assert not [name for name in interfaces if name.startswith("gpd")]
    place.rmdir()
