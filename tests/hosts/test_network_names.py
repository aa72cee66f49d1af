"""The resolvers of networks with the real OVN and dnsmasq: what they answer, and how they live."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from gpupool.agent.network.daemons import EngineFiles, find_missing_programs, locate_engine
from gpupool.agent.network.naming.resolver_files import (
    ResolverFiles,
    format_names,
    format_servers,
    make_resolver,
)
from gpupool.agent.network.uplink import read_name_servers
from gpupool.network.resolver_rows import RESOLVER_ADDRESS, ResolverConfig
from tests.e2e.pool_fixture import RealPool
from tests.hosts import name_questions
from tests.hosts.test_networks import ASK_OUTSIDE, outside  # noqa: F401  # a fixture
from tests.support.pages import PAGES
from tests.support.supervised import until
from tests.support.typed_commands import commands

_MISSING = find_missing_programs()
_REASON = f"needs {', '.join(sorted(set(_MISSING.values())))}" if _MISSING else ""
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(_MISSING), reason=_REASON),
]

#: Prints the addresses of a name, as the C library finds them, or `none`.
LOOK_UP = """
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <time.h>

int main(int count, char **names)
{
    struct timespec begin, end;

    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 1; i < count; i++) {
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
        char text[INET6_ADDRSTRLEN] = "none";

        if (getaddrinfo(names[i], "80", &hints, &found) == 0)
            getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST);
        puts(text);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    printf("%ld\\n", (long)(end.tv_sec - begin.tv_sec));
    return 0;
}
"""
#: Waits until a name is found, and prints when.
WATCH = """
import socket, time
deadline = time.time() + 30
while time.time() < deadline:
    try:
        socket.gethostbyname("late")
    except OSError:
        time.sleep(0.005)
        continue
    print(time.time())
    break
"""
#: Answers every question with one address, as a server outside.
KNOWS_ALL = """
import socket, struct
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind(("127.0.0.2", 53))
print("ready", flush=True)
while True:
    message, source = server.recvfrom(4096)
    end = message.index(0, 12) + 5
    head = message[:2] + struct.pack("!5H", 0x8180, 1, 1, 0, 0)
    record = struct.pack("!HHHIH", 0xC00C, 1, 1, 0, 4) + socket.inet_aton("192.0.2.7")
    server.sendto(head + message[12:end] + record, source)
"""
LAB = ResolverConfig(
    "port",
    1,
    1442,
    "lab.gpupool.internal",
    {"web": (IPv4Address("10.0.0.2"),)},
    is_forwarding=False,
)


@pytest.fixture(scope="module")
def pool() -> Iterator[RealPool]:
    directory = Path(tempfile.mkdtemp(prefix="gpn-"))
    directory.chmod(0o755)
    with RealPool(directory / "pool", "8xL40S") as made:
        made.do("network", "enable")
        for name in ("a", "b"):
            made.do("network", "create", name, "--cidr", "10.0.0.0/24")
        # Two names for the pool, one for DNS.
        submit(made, "a", "store", "sleep", "600")
        submit(made, "b", "Store", "sleep", "600")
        submit(made, "b", "other", "sleep", "600")
        yield made
        names = locate(made).names
        made.stop_all()
        made.do("network", "disable", "--yes")
        assert find_resolvers(made) == {}
        assert not names.exists()
        assert not list(Path("/run/netns").glob(f"{locate(made).namespace.name}*"))
    shutil.rmtree(directory)


def locate(pool: RealPool) -> EngineFiles:
    return locate_engine(pool.state_dir / "agent/network")


def submit(pool: RealPool, network: str, name: str, *command: str) -> None:
    pool.do("submit", "--network", network, "--gpu", "0.1", "--name", name, "--", *command)
    pool.until_state(name, "running")


def run(pool: RealPool, network: str, *command: str) -> str:
    return pool.do("run", "-q", "--network", network, "--gpu", "0.1", "--", *command)


def ask(pool: RealPool, network: str, *questions: str) -> list[str]:
    return run(pool, network, sys.executable, name_questions.__file__, *questions).splitlines()


def find_resolvers(pool: RealPool) -> dict[int, int]:
    """The resolvers of this pool by process, with their accounts."""
    place = str(locate(pool).names).encode()
    found = dict[int, int]()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if words[0] == b"dnsmasq" and any(place in word for word in words):
                found[int(entry.name)] = entry.stat().st_uid
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def test_every_kind_of_question_is_answered(pool: RealPool) -> None:
    long = "store.a.gpupool.internal"
    asked = {
        f"{long} A": "0 1 10.0.0.2",
        f"{long} A edns": "0 1 10.0.0.2",
        f"{long} A tcp": "0 1 10.0.0.2",
        f"{long} A tcp edns": "0 1 10.0.0.2",
        "store A": "0 1 10.0.0.2",
        f"{long} AAAA": "0 0",
        f"{long} MX": "0 0",
        "2.0.0.10.in-addr.arpa PTR": "0 1",
        "9.0.0.10.in-addr.arpa PTR": "3 0",
        "nothing.a.gpupool.internal A": "3 0",
        "nothing A": "3 0",
        "example.com A": "3 0",
        "example.com MX tcp": "3 0",
        "store.b.gpupool.internal A": "3 0",
        "other A": "3 0",
    }
    assert dict(zip(asked, ask(pool, "a", *asked), strict=True)) == asked


def test_one_name_and_address_in_two_networks_are_two_jobs(pool: RealPool) -> None:
    questions = ("store A", "other A", "store.a.gpupool.internal A")
    assert ask(pool, "b", *questions) == ["0 1 10.0.0.2", "0 1 10.0.0.3", "3 0"]
    assert ask(pool, "a", *questions) == ["0 1 10.0.0.2", "3 0", "0 1 10.0.0.2"]


@pytest.mark.skipif(shutil.which("musl-gcc") is None, reason="needs the package musl-tools")
def test_a_program_with_musl_finds_names(pool: RealPool) -> None:
    program = pool.state_dir.parent / "look-up"
    words = ["musl-gcc", "-static", "-x", "c", "-o", str(program), "-"]
    subprocess.run(words, input=LOOK_UP, text=True, check=True)
    names = ("store", "store.b.gpupool.internal", "other", "nothing")
    *found, seconds = run(pool, "b", str(program), *names).split()
    assert found == ["10.0.0.2", "10.0.0.2", "10.0.0.3", "none"]
    # None of the four waited for an answer that never comes: that takes musl five seconds. The
    # start of the job is not counted.
    assert int(seconds) < 5


def test_a_neighbour_finds_a_job_before_its_first_instruction(pool: RealPool) -> None:
    submit(pool, "a", "watch", sys.executable, "-c", WATCH)
    command = (sys.executable, "-c", "import time; print(time.time())")
    words = ("run", "-q", "--network", "a", "--gpu", "0.1", "--name", "late", "--", *command)
    begun = float(pool.do(*words))
    pool.until_state("watch", "done")
    # The neighbour looks every 5 ms, on a machine that may be loaded.
    assert float(pool.do("logs", "watch")) < begun + 0.1
    assert ask(pool, "a", "late A") == ["3 0"]


def test_a_resolver_has_no_rights_and_no_other_networks_names(pool: RealPool) -> None:
    resolvers = find_resolvers(pool)
    assert len(set(resolvers.values())) == len(resolvers) == 2
    for pid, account in resolvers.items():
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        facts = dict(line.split(":\t", 1) for line in status if ":\t" in line)
        assert facts["Uid"] == "\t".join([str(account)] * 4)
        assert facts["NoNewPrivs"] == "1"
        assert int(facts["CapEff"], 16) == int(facts["CapPrm"], 16) == 0
        assert facts["Groups"].strip() == ""
    files = {entry.stat().st_gid: entry / "names" for entry in locate(pool).names.iterdir()}
    assert files.keys() == set(resolvers.values())
    for account in files:
        assert [other for other in files if can_read(account, files[other])] == [account]


def can_read(account: int, file: Path) -> bool:
    become = ("setpriv", f"--reuid={account}", f"--regid={account}", "--clear-groups")
    done = subprocess.run([*become, "cat", str(file)], capture_output=True, check=False)
    return done.returncode == 0


def test_a_resolver_that_was_killed_is_back(pool: RealPool) -> None:
    killed = find_resolvers(pool)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    begin = time.monotonic()
    pool.until(lambda: len(find_resolvers(pool).keys() - killed.keys()) == 2, "two resolvers")
    assert time.monotonic() - begin < 5
    assert ask(pool, "a", "store A") == ["0 1 10.0.0.2"]


def test_resolvers_survive_a_killed_agent_and_follow_the_next_one(pool: RealPool) -> None:
    before = find_resolvers(pool)
    os.kill(pool.server_pid(), signal.SIGKILL)
    pool.up()
    assert ask(pool, "a", "store A") == ["0 1 10.0.0.2"]
    assert find_resolvers(pool) == before
    # The next agent feeds them: a new job is known, and one that has ended is not.
    submit(pool, "a", "newer", "sleep", "600")
    address = pool.job("newer")["address"]
    assert ask(pool, "a", "newer A", "late A") == [f"0 1 {address}", "3 0"]


def test_a_resolver_moves_with_subnets_and_ends_with_its_network(pool: RealPool) -> None:
    pool.do("network", "create", "c", "--cidr", "10.0.0.0/28")
    assert ask(pool, "c", "store A") == ["3 0"]
    # The first subnet has the resolver's port. Jobs of the second one are routed to it.
    pool.do("network", "subnet-create", "c", "--cidr", "10.0.1.0/28", "--subnet", "more")
    for number in range(13):
        words = ("submit", "--network", "c", "--gpu", "0.01", "--name", f"filler-{number}")
        pool.do(*words, "--", "sleep", "600")
    pool.until_state("filler-12", "running")
    program = (sys.executable, name_questions.__file__, "filler-12 A", "filler-12 A tcp")
    words = ("submit", "--network", "c", "--gpu", "0.01", "--name", "routed")
    pool.do(*words, "--", *program)
    pool.until_state("routed", "done")
    address = str(pool.job("filler-12")["address"])
    assert pool.do("logs", "routed").splitlines() == [f"0 1 {address}"] * 2
    used = {one["name"]: one["used"] for one in pool.json("network", "show", "c")["subnets"]}
    assert used["default"] == 13
    pool.do("stop", *(f"filler-{number}" for number in range(13)))
    pool.until(lambda: pool.json("network", "show", "c")["ports"] == [], "the jobs' end")
    pool.do("network", "subnet-delete", "c", "default")
    assert ask(pool, "c", "store A", "store A tcp") == ["3 0", "3 0"]
    before = len(find_resolvers(pool))
    pool.until(lambda: pool.json("network", "show", "c")["ports"] == [], "the job's end")
    pool.do("network", "delete", "c", "--yes")
    pool.until(lambda: len(find_resolvers(pool)) == before - 1, "the end of its resolver")
    engine = locate(pool)
    pool.until(
        lambda: len(list(Path("/run/netns").glob(f"{engine.namespace.name}-v-*"))) == before - 1,
        "the end of its namespace",
    )


def test_commands_of_the_page_work_in_their_order(pool: RealPool) -> None:
    for words in commands(PAGES / "network-names.md"):
        if words[:2] == ["network", "delete"]:
            pool.until(lambda: pool.json("network", "show", "lab")["ports"] == [], "the jobs' end")
        printed = pool.do(*words)
        if words[0] == "submit":
            pool.until_state("server", "running")
        if words[0] == "run":
            # The C library asks for a name with a dot as it is first.
            found = {"server": "server.lab.gpupool.internal", "db.store": "db.store"}[words[-1]]
            assert printed.split() == ["10.0.0.2", found]


@pytest.mark.usefixtures("outside")
@pytest.mark.skipif(shutil.which("nft") is None, reason="needs the package nftables")
def test_a_resolver_reaches_servers_outside_over_the_gateway_alone(pool: RealPool) -> None:
    key = pool.json("network", "show", "a")["id"]
    servers = locate(pool).names / key / "servers"
    inside = ("ip", "netns", "exec", f"{locate(pool).namespace.name}-{key}")
    program = (sys.executable, "-c", ASK_OUTSIDE, "203.0.113.2", "7001")

    def answer() -> str:
        done = subprocess.run([*inside, *program], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert servers.read_text() == "server=/#/\n"
    assert answer() == "TimeoutError"
    pool.do("network", "gateway-create", "a")
    pool.until(lambda: answer() == "203.0.113.1", "packets with the machine's address")
    expected = [f"server={each}\n" for each in read_name_servers()] or ["server=/#/\n"]
    # The resolver follows the southbound database, and packets do not wait for it.
    pool.until(lambda: servers.read_text() == "".join(expected), "the name servers outside")
    assert ask(pool, "a", "store A", "nothing A") == ["0 1 10.0.0.2", "3 0"]
    pool.do("network", "gateway-delete", "a")
    pool.until(lambda: servers.read_text() == "server=/#/\n", "the end of the gateway")


@pytest.fixture
def forwarder(tmp_path: Path) -> Iterator[tuple[ResolverFiles, Callable[[str], str], int]]:
    """A resolver as the agent runs it, in a namespace with a server that knows every name."""
    namespace = f"gpt-names-{os.getpid()}"
    inside = ("ip", "netns", "exec", namespace)
    for command in (
        f"ip netns add {namespace}",
        f"ip -n {namespace} link set lo up",
        f"ip -n {namespace} addr add {RESOLVER_ADDRESS}/32 dev lo",
    ):
        subprocess.run(command.split(), check=True)
    files = ResolverFiles(tmp_path)
    files.names.write_text(format_names(LAB))
    files.servers.write_text(format_servers(LAB, []))
    helper = make_resolver("v-1", files, os.getuid(), Path("/run/netns") / namespace, LAB)
    server = subprocess.Popen([*inside, sys.executable, "-c", KNOWS_ALL], stdout=subprocess.PIPE)
    assert server.stdout is not None
    assert server.stdout.readline() == b"ready\n"
    # Of this account: the test's directory is no other one's to read.
    resolver = subprocess.Popen([*inside, *helper.arguments, "--user=root"])

    def ask_inside(question: str) -> str:
        program = (
            "import sys; from tests.hosts.name_questions import ask; print(ask(*sys.argv[1:]))"
        )
        done = subprocess.run(
            [*inside, sys.executable, "-c", program, str(RESOLVER_ADDRESS), *question.split()],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parents[2],
        )
        return done.stdout.strip()

    try:
        until(lambda: ask_inside("web A") == "0 1 10.0.0.2", "the resolver's first answer")
        yield files, ask_inside, resolver.pid
    finally:
        for process in (resolver, server):
            process.kill()
            process.wait()
        subprocess.run(["ip", "netns", "del", namespace], check=True)


def test_names_outside_are_forwarded_from_one_reload_to_another(
    forwarder: tuple[ResolverFiles, Callable[[str], str], int],
) -> None:
    files, ask_inside, pid = forwarder
    assert ask_inside("example.com A") == "3 0"
    files.servers.write_text(format_servers(replace(LAB, is_forwarding=True), ["127.0.0.2"]))
    os.kill(pid, signal.SIGHUP)
    until(lambda: ask_inside("example.com A") == "0 1 192.0.2.7", "a name outside")
    # What is the pool's own is never asked for outside.
    assert ask_inside("web.lab.gpupool.internal A") == "0 1 10.0.0.2"
    for question in ("x.other.gpupool.internal A", "nothing A", "1.0.0.10.in-addr.arpa PTR"):
        assert ask_inside(question) == "3 0"
    files.servers.write_text(format_servers(LAB, ["127.0.0.2"]))
    os.kill(pid, signal.SIGHUP)
    until(lambda: ask_inside("example.com A") == "3 0", "the end of forwarding")
