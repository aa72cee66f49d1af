"""A line to a company with the network's own addresses, with the real OVN and a real BGP peer."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.network.daemons import find_missing_programs
from gpupool.agent.network.lines.speaker_config import PROGRAMS
from tests.e2e.pool_fixture import RealPool
from tests.support import company_router as company
from tests.support.company_router import CompanyRouter
from tests.support.pages import PAGES
from tests.support.typed_commands import commands

_MISSING = sorted(set(find_missing_programs().values()))
if not (PROGRAMS / "bgpd").exists():
    _MISSING.append("frr")
if shutil.which("nft") is None:
    _MISSING.append("nftables")
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(_MISSING), reason=f"needs {', '.join(_MISSING)}"),
]

#: Both sides have it, and this address of it.
PREFIX = "10.0.0.0/24"
ADDRESS = "10.0.0.2"
#: The same address as each side sees it on the other one.
JOB_OUTSIDE = "100.64.7.2"
HOST_INSIDE = "100.64.8.2"

#: Answers a megabyte with the address that its client has at the end.
SERVE = """
import socket
server = socket.create_server(("10.0.0.2", 7001))
while True:
    peer, source = server.accept()
    peer.sendall(b"x" * 1_000_000 + source[0].encode())
    peer.close()
"""
ASK = """
import socket, sys
own = (sys.argv[2], 0) if len(sys.argv) > 2 else None
try:
    peer = socket.create_connection((sys.argv[1], 7001), 2, own)
    print(peer.makefile("rb").read()[1_000_000:].decode())
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture(scope="module")
def router() -> Iterator[CompanyRouter]:
    with CompanyRouter() as made:
        words = ["ip", "-n", made.router, "address", "add", f"{ADDRESS}/24", "dev", "lo"]
        subprocess.run(words, check=True)
        made.change_prefixes(f"network {PREFIX}")
        server = subprocess.Popen(made.command(sys.executable, "-c", SERVE))
        yield made
        server.kill()
        server.wait()


@pytest.fixture(scope="module")
def pool(router: CompanyRouter) -> Iterator[RealPool]:
    directory = Path(tempfile.mkdtemp(prefix="gpn-"))
    directory.chmod(0o755)
    with RealPool(directory / "pool", "4xL40S") as made:
        lines = ("--line-interface", router.interface, "--line-vlans", "200-299")
        made.do("network", "enable", *lines)
        made.do("network", "create", "lab", "--cidr", PREFIX)
        words = ("submit", "--network", "lab", "--gpu", "0.1", "--name", "server")
        made.do(*words, "--address", ADDRESS, "--", sys.executable, "-c", SERVE)
        made.until_state("server", "running")
        yield made
        made.stop_all()
        made.do("network", "disable", "--yes")
        assert Path("/sys/class/net", router.interface).exists()
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def line(pool: RealPool, router: CompanyRouter) -> str:
    """A line whose session is up, made by the command of the page."""
    key = router.directory / "key"
    key.write_text(company.KEY + "\n")
    for words in commands(PAGES / "network-line.md"):
        if "--translate" in words:
            here = [str(key) if word == "line.key" else word for word in words]
            made = pool.do(*here).strip()
    learned = lambda: pool.json("network", "line-show", "lab", made)["learned"]  # noqa: E731
    pool.until(lambda: learned() == [PREFIX], "the company's prefix")
    pool.until(lambda: "100.64.7.0/24" in router.list_routes(), "the network's prefix outside")
    return made


def ask_company(pool: RealPool, address: str) -> str:
    words = ("run", "-q", "--network", "lab", "--gpu", "0.1", "--")
    return pool.do(*words, sys.executable, "-c", ASK, address).strip()


def ask_job(router: CompanyRouter, address: str, source: str) -> str:
    words = router.command(sys.executable, "-c", ASK, address, source)
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def test_two_sides_with_the_same_addresses_reach_each_other(
    pool: RealPool, router: CompanyRouter, line: str
) -> None:
    # What is announced is the translated prefix, and never the network's own.
    assert router.list_routes().startswith("100.64.7.0/24 ")
    assert f"via {company.SPEAKER} " in router.list_routes()
    assert PREFIX not in router.list_routes()
    pool.until(lambda: ask_job(router, JOB_OUTSIDE, ADDRESS) == HOST_INSIDE, "an answer of the job")
    seen = ask_company(pool, HOST_INSIDE)
    assert seen.startswith("100.64.7."), seen
    assert seen != JOB_OUTSIDE
    # Inside of the network the address is the job's own.
    assert ask_company(pool, ADDRESS).startswith("10.0.0.")


def test_only_the_translated_addresses_lead_over_the_line(
    pool: RealPool, router: CompanyRouter, line: str
) -> None:
    # Not allowed on the line, so no packet from there is passed on.
    assert ask_job(router, JOB_OUTSIDE, company.HOST) == "TimeoutError"
    shown = pool.do("network", "line-show", "lab", line)
    assert "seen by the company as 100.64.7.0/24" in shown
    assert "seen by jobs as 100.64.8.0/24" in shown
    why = pool.json("network", "why", "server", HOST_INSIDE)
    assert why["object"] == f"dedicated line {line}"
    pool.do("network", "line-delete", "lab", line, "--yes")
    pool.until(lambda: "100.64.7.0/24" not in router.list_routes(), "the end of the route")
