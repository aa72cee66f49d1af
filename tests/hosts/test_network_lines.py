"""Dedicated lines with the real OVN and a real BGP peer behind a VLAN switch."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.agent.network.daemons import find_missing_programs, locate_engine
from gpupool.agent.network.lines.speaker_config import PROGRAMS, locate_speakers
from tests.e2e.pool_fixture import RealPool
from tests.support import company_router as company
from tests.support.company_router import CompanyRouter
from tests.support.pages import PAGES
from tests.support.typed_commands import commands

_MISSING = sorted(set(find_missing_programs().values()))
if not (PROGRAMS / "bgpd").exists():
    _MISSING.append("frr")
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(_MISSING), reason=f"needs {', '.join(_MISSING)}"),
]

#: Sends each client the address that it has.
SERVE = """
import socket
server = socket.create_server((sys.argv[1], 7001))
while True:
    peer, source = server.accept()
    peer.sendall(source[0].encode())
    peer.close()
""".replace("import socket", "import socket, sys", 1)
#: Asks such a server from an address of its own.
ASK = """
import socket, sys
own = (sys.argv[2], 0) if len(sys.argv) > 2 else None
try:
    print(socket.create_connection((sys.argv[1], 7001), 2, own).recv(40).decode())
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture(scope="module")
def router() -> Iterator[CompanyRouter]:
    with CompanyRouter() as made:
        yield made


@pytest.fixture(scope="module")
def pool(router: CompanyRouter) -> Iterator[RealPool]:
    directory = Path(tempfile.mkdtemp(prefix="gpn-"))
    directory.chmod(0o755)
    with RealPool(directory / "pool", "4xL40S") as made:
        made.do("network", "enable")
        made.do("network", "create", "b", "--cidr", "10.0.1.0/24")
        made.do("network", "create", "lab", "--cidr", "10.0.0.0/24")
        words = ("submit", "--network", "lab", "--gpu", "0.1", "--name", "server", "--")
        made.do(*words, sys.executable, "-c", SERVE, "0.0.0.0")
        made.until_state("server", "running")
        yield made
        made.stop_all()
        made.do("network", "disable", "--yes")
        check_nothing_is_left(made, router)
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def line(pool: RealPool, router: CompanyRouter) -> str:
    """A line whose session is up, made by the commands of the page."""
    key = router.directory / "key"
    key.write_text(company.KEY + "\n")
    replaced = {"eth1": router.interface, "line.key": str(key), "100": "2"}
    for words in commands(PAGES / "network-line.md"):
        if words[1] == "create":  # its job must run before
            continue
        if words[1] == "line-show":
            break
        printed = pool.do(*(replaced.get(word, word) for word in words))
        if words[1] == "line-create":
            made = printed.strip()
    return until_learned(pool, made, [company.NETWORK])


def create_words(network: str, vlan: int = company.VLAN) -> tuple[str, ...]:
    return (
        *("network", "line-create", network, "--vlan", str(vlan)),
        *("--address", f"{company.ROUTER}/29", "--peer", company.ADDRESS),
        *("--asn", str(company.POOL_ASN), "--peer-asn", str(company.ASN)),
        *("--allow", company.NETWORK),
    )


def show(pool: RealPool, line: str) -> dict[str, Any]:
    found: dict[str, Any] = pool.json("network", "line-show", "lab", line)
    return found


def until_learned(pool: RealPool, line: str, prefixes: list[str]) -> str:
    try:
        pool.until(lambda: show(pool, line)["learned"] == prefixes, f"{prefixes} are learned")
    except AssertionError as error:
        raise AssertionError(f"{error}: {show(pool, line)}") from error
    return line


def until_down(pool: RealPool, line: str, reason: str) -> None:
    def is_down() -> bool:
        found = show(pool, line)
        return found["state"] == "down" and reason in found["reason"] and not found["learned"]

    pool.until(is_down, f"a line that is down for {reason!r}")


def mark(pool: RealPool) -> str:
    return locate_engine(pool.state_dir / "agent/network").mark


def check_nothing_is_left(pool: RealPool, router: CompanyRouter) -> None:
    files = locate_engine(pool.state_dir / "agent/network")
    assert not list(Path("/run/netns").glob(f"gpupool-{files.mark}*"))
    assert not locate_speakers(files).exists()
    assert find_speakers(pool) == []
    # The interface is the machine's again.
    assert Path("/sys/class/net", router.interface).exists()


def find_speakers(pool: RealPool) -> list[int]:
    """The BGP daemons of this pool alone."""
    mine = str(locate_speakers(locate_engine(pool.state_dir / "agent/network"))).encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if words.startswith(bytes(PROGRAMS)) and mine in words:
            found.append(int(entry.parent.name))
    return found


def ask_company(pool: RealPool, network: str) -> str:
    words = ("run", "-q", "--network", network, "--gpu", "0.1", "--")
    return pool.do(*words, sys.executable, "-c", ASK, company.HOST).strip()


def ask_job(pool: RealPool, router: CompanyRouter) -> str:
    return read_answer(job_question(pool, router))


def job_question(pool: RealPool, router: CompanyRouter) -> list[str]:
    """Words by which a host of the company asks the job."""
    address = str(pool.job("server")["address"])
    return router.command(sys.executable, "-c", ASK, address, company.HOST)


def read_answer(words: list[str]) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def server(router: CompanyRouter) -> Iterator[None]:
    """A server of the company."""
    made = subprocess.Popen(router.command(sys.executable, "-c", SERVE, company.HOST))
    yield
    made.kill()
    made.wait()


def test_jobs_and_the_company_reach_each_other_with_their_own_addresses(
    pool: RealPool, router: CompanyRouter, line: str, server: None
) -> None:
    pool.until(lambda: company.ROUTER in router.list_routes(), "the company's route")
    assert router.list_routes().startswith("10.0.0.0/24 ")
    pool.until(lambda: read_neighbor(router)["peerBfdInfo"]["status"] == "Up", "a session of BFD")
    pool.until(lambda: ask_company(pool, "lab").startswith("10.0.0."), "an answer of the company")
    assert ask_job(pool, router) == company.HOST
    # A gateway translates what goes elsewhere, and not what goes over the line.
    pool.do("network", "gateway-create", "lab")
    pool.until(lambda: pool.json("network", "show", "lab")["gateway"]["address"], "a gateway")
    assert ask_company(pool, "lab").startswith("10.0.0.")
    assert ask_job(pool, router) == company.HOST
    pool.do("network", "gateway-delete", "lab")


def test_another_network_does_not_reach_the_company(
    pool: RealPool, line: str, server: None
) -> None:
    assert ask_company(pool, "b") == "TimeoutError"


def test_forbidden_prefixes_and_too_many_are_refused_and_the_session_stays(
    pool: RealPool, router: CompanyRouter, line: str
) -> None:
    before = count_sessions(router)
    more = ("172.20.1.0/24", "172.20.2.0/24", "198.51.100.0/24")
    router.change_prefixes(*(f"network {prefix}" for prefix in more))
    pool.until(lambda: show(pool, line)["refused_count"] == 2, "two refused prefixes")
    found = show(pool, line)
    assert (found["state"], found["learned"]) == ("up", [company.NETWORK, "172.20.1.0/24"])
    assert {one["prefix"]: one["reason"] for one in found["refused"]} == {
        "172.20.2.0/24": "over the limit of 2 prefixes",
        "198.51.100.0/24": "not allowed",
    }
    shown = pool.do("events", "--last", "50", "-o", "json").splitlines()
    assert "network.line_refused" in [json.loads(event)["kind"] for event in shown]
    assert ask_job(pool, router) == company.HOST
    router.change_prefixes(*(f"no network {prefix}" for prefix in more))
    until_learned(pool, line, [company.NETWORK])
    assert count_sessions(router) == before


def test_a_killed_agent_costs_neither_the_session_nor_packets(
    pool: RealPool, router: CompanyRouter, line: str, server: None
) -> None:
    session = count_sessions(router)
    speakers = find_speakers(pool)
    ask = job_question(pool, router)
    os.kill(pool.server_pid(), signal.SIGKILL)
    try:
        assert read_answer(ask) == company.HOST
    finally:
        pool.up()
    assert ask_company(pool, "lab").startswith("10.0.0.")
    assert show(pool, line)["learned"] == [company.NETWORK]
    assert count_sessions(router) == session
    assert find_speakers(pool) == speakers


def test_a_new_subnet_is_announced_without_a_new_session(
    pool: RealPool, router: CompanyRouter, line: str
) -> None:
    session = count_sessions(router)
    pool.do("network", "subnet-create", "lab", "--cidr", "10.0.9.0/24", "--subnet", "more")
    pool.until(lambda: "10.0.9.0/24" in router.list_routes(), "the route of the new subnet")
    pool.do("network", "subnet-delete", "lab", "more")
    pool.until(lambda: "10.0.9.0/24" not in router.list_routes(), "the end of the route")
    assert count_sessions(router) == session


@pytest.mark.parametrize(
    ("cable", "reason"), [("access", company.ADDRESS), ("trunk", "no carrier")]
)
def test_routes_go_with_a_cut_line_and_come_back_with_it(
    pool: RealPool, router: CompanyRouter, line: str, cable: str, reason: str
) -> None:
    router.set_link(cable, "down")
    until_down(pool, line, reason)
    router.set_link(cable, "up")
    until_learned(pool, line, [company.NETWORK])


def test_a_wrong_key_is_named_as_the_reason(
    pool: RealPool, router: CompanyRouter, line: str
) -> None:
    router.change(f"neighbor {company.SPEAKER} password another")
    until_down(pool, line, "wrong MD5 key")
    router.change(f"neighbor {company.SPEAKER} password {company.KEY}")
    until_learned(pool, line, [company.NETWORK])
    log = "".join(file.read_text() for file in pool.state_dir.glob("*.log"))
    assert company.KEY not in log + pool.do("network", "line-show", "lab", line, "-o", "json")


def test_what_is_refused_says_why(pool: RealPool, line: str) -> None:
    overlapping = (*create_words("b", 201), "--allow", "10.0.1.0/25")
    for words, code, text in (
        (create_words("b"), "GP-2006", "VLAN 200 is taken"),
        (create_words("b", 300), "GP-2007", "200-299"),
        (overlapping, "GP-2080", "10.0.1.0/25 and 10.0.1.0/24"),
        (("network", "enable", "--line-vlans", "201"), "GP-2008", "VLAN 200"),
        (("network", "line-show", "b", line), "GP-3020", line),
    ):
        refused = pool.run(*words)
        assert code in refused.stderr, refused.stderr
        assert text in refused.stderr, refused.stderr


def test_a_deleted_line_leaves_nothing(pool: RealPool, router: CompanyRouter, line: str) -> None:
    typed = list(commands(PAGES / "network-line.md"))
    first = next(index for index, words in enumerate(typed) if words[1] == "line-show")
    for words in typed[first:]:
        if "--translate" in words:  # test_network_line_translation.py runs it
            continue
        pool.do(*(line if word == "LINE" else word for word in words))
    pool.until(lambda: find_speakers(pool) == [], "the end of the speaker")
    namespaces = f"gpupool-{mark(pool)}.*"
    pool.until(lambda: not list(Path("/run/netns").glob(namespaces)), "the namespace's end")
    assert pool.json("network", "line-list", "lab") == []
    # The company's router notices by itself.
    pool.until(lambda: "10.0.0.0/24" not in router.list_routes(), "the end of the route")
    interface = Path("/sys/class/net", router.interface)
    pool.until(interface.exists, "the machine's interface")


def read_neighbor(router: CompanyRouter) -> dict[str, Any]:
    """What the company's router says of its session."""
    found: dict[str, Any] = router.ask(f"show bgp neighbors {company.SPEAKER}")[company.SPEAKER]
    return found


def count_sessions(router: CompanyRouter) -> int:
    """How often the company's session came up."""
    neighbor = read_neighbor(router)
    assert neighbor["bgpState"] == "Established"
    return int(neighbor["connectionsEstablished"])
