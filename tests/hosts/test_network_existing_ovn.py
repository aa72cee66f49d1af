"""Networks in an OVN that is there already: real databases with rows of another user."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from gpupool.agent.network.daemons import find_missing_programs, locate_engine
from tests.e2e.pool_fixture import RealPool
from tests.support.claims import claimed
from tests.support.external_ovn import ExternalOvn, external_ovn
from tests.support.network_machines import NUMBERS, Fabric
from tests.support.pages import PAGES
from tests.support.several_machines import list_processes
from tests.support.typed_commands import commands

_MISSING = set(find_missing_programs().values())
if shutil.which("nft") is None:
    _MISSING.add("nftables")
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(_MISSING), reason=f"needs {', '.join(sorted(_MISSING))}"),
]

SERVE = """
import socket
server = socket.create_server(("", 7000))
while True:
    peer, _ = server.accept()
    peer.sendall(b"ours")
    peer.close()
"""
ASK = """
import socket
print(socket.create_connection(("server", 7000), 10).recv(20).decode())
"""
#: Asks the server once for each file that appears, and leaves the answer beside it.
ASK_AGAIN = """
import socket, sys, time
from pathlib import Path
place = Path(sys.argv[1])
while True:
    for wish in place.glob("*.ask"):
        try:
            answer = socket.create_connection((sys.argv[2], 7000), 3).recv(20).decode()
        except OSError as error:
            answer = type(error).__name__
        wish.with_suffix(".tmp").write_text(answer)
        wish.with_suffix(".tmp").rename(wish.with_suffix(".answer"))
        wish.unlink()
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    directory = Path(tempfile.mkdtemp(prefix="gpx-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def pool(place: Path) -> Iterator[RealPool]:
    with ExitStack() as stack:
        fabric = Fabric(stack.enter_context(claimed("network-machines", NUMBERS)))
        stack.callback(fabric.remove)
        fabric.make()
        made = RealPool(place / "pool", "2xL40S")
        # Chassis of others send tunnels there.
        made.environ["GPUPOOL_TUNNEL_ADDRESS"] = fabric.address
        yield stack.enter_context(made)
        made.stop_all()


@pytest.fixture
def ovn(request: pytest.FixtureRequest, place: Path) -> Iterator[ExternalOvn]:
    directory = place / "others"
    directory.mkdir()
    with external_ovn(directory, has_tls=getattr(request, "param", False)) as made:
        yield made
    shutil.rmtree(directory)


def only_theirs(rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """The rows without those that name a pool."""
    theirs = {
        table: [row for row in found if "gpupool-pool" not in json.dumps(row)]
        for table, found in rows.items()
    }
    return {table: found for table, found in theirs.items() if found}


def ask(pool: RealPool) -> str:
    words = ("run", "-q", "--network", "lab", "--gpu", "0.1", "--", sys.executable, "-c", ASK)
    return pool.do(*words).strip()


def start_server(pool: RealPool) -> str:
    pool.do("network", "create", "lab", "--cidr", "10.0.0.0/24")
    words = ("submit", "--network", "lab", "--gpu", "0.1", "--name", "server")
    pool.do(*words, "--", sys.executable, "-c", SERVE)
    pool.until_state("server", "running")
    return str(pool.job("server")["address"])


def end_jobs(pool: RealPool) -> None:
    pool.stop_all()
    pool.until(lambda: pool.json("network", "status")["jobs"] == 0, "the jobs' end")


def find_engine(pool: RealPool) -> list[int]:
    return list_processes(locate_engine(pool.state_dir / "agent/network").mark)


def type_page(pool: RealPool, ovn: ExternalOvn, first: str, *words: str) -> None:
    """Type the command of the page that begins so and has these words, with the OVN's place."""
    chosen = [
        one
        for one in commands(PAGES / "network-existing-ovn.md")
        if one[1] == first and set(words) <= set(one)
    ]
    known = {
        f"{ovn.kind}:192.0.2.7:6641": ovn.northbound,
        "pool.pem": str(ovn.place / "client.pem"),
        "pool-key.pem": str(ovn.place / "client-key.pem"),
        "ovn-ca.pem": str(ovn.place / "trusted.pem"),
    }
    pool.do(*(known.get(word, word) for word in chosen[0]))


def refuse(pool: RealPool, code: str, *words: str) -> str:
    done = pool.run("network", *words)
    assert done.returncode != 0, done.stdout
    assert code in done.stderr, done.stderr
    return str(done.stderr)


def test_networks_use_an_ovn_of_others_and_leave_it_as_it_was(
    pool: RealPool, ovn: ExternalOvn, place: Path
) -> None:
    before = ovn.read_rows()
    type_page(pool, ovn, "enable")
    type_page(pool, ovn, "status")
    # Its databases are the others': the pool runs a switch, its database and a controller.
    assert len(find_engine(pool)) == 3
    assert pool.json("network", "status")["ovn"]["northbound"] == ovn.northbound
    address = start_server(pool)
    # The address that a server of the others has, in a network of the pool.
    assert address == "10.0.0.2"
    assert ask(pool) == "ours"
    assert ovn.list_chassis() == ["gpupool"]
    during = ovn.read_rows()
    assert only_theirs(during) == before
    assert during != before
    assert ovn.read_option("northd_probe_interval") == "7000"
    # Whatever moves the whole OVN, or leaves it with jobs, is refused.
    refuse(pool, "GP-2007", "enable", "--ovn", "tcp:127.0.0.1:1")
    refuse(pool, "GP-2007", "enable", "--databases", "sim-0")
    # A dead OVN stops no traffic. Changes wait, and the pool says so.
    answers = place / "answers"
    answers.mkdir()
    answers.chmod(0o777)
    words = ("submit", "--network", "lab", "--gpu", "0.1", "--name", "asker")
    pool.do(*words, "--", sys.executable, "-c", ASK_AGAIN, str(answers), address)
    pool.until_state("asker", "running")
    ovn.kill()
    pool.until(lambda: "changes wait" in pool.json("network", "status")["reason"], "the notice")
    assert "changes wait" in pool.run("doctor").stdout
    (answers / "1.ask").touch()
    pool.until((answers / "1.answer").exists, "the answer through a network without databases")
    assert (answers / "1.answer").read_text() == "ours"
    ovn.start()
    pool.until(lambda: pool.json("network", "status")["state"] == "ready", "the OVN's return")
    assert ask(pool) == "ours"
    end_jobs(pool)
    type_page(pool, ovn, "disable")
    assert find_engine(pool) == []
    assert ovn.read_rows() == before
    assert ovn.list_chassis() == []
    pool.do("network", "delete", "lab", "--yes")


@pytest.mark.parametrize("ovn", [True], indirect=True)
def test_databases_with_tls_get_a_certificate(pool: RealPool, ovn: ExternalOvn) -> None:
    before = ovn.read_rows()
    words = ("enable", "--ovn", ovn.northbound)
    refuse(pool, "GP-1000", *words)
    refuse(pool, "GP-1000", *words, "--ovn-certificate", str(ovn.place / "client.pem"))
    assert pool.json("network", "status")["state"] == "off"
    type_page(pool, ovn, "enable", "--ovn-key")
    start_server(pool)
    assert ask(pool) == "ours"
    end_jobs(pool)
    pool.do("network", "disable", "--yes")
    assert ovn.read_rows() == before
    pool.do("network", "delete", "lab", "--yes")


def test_an_ovn_that_is_gone_is_left_with_the_rows_in_it(pool: RealPool, ovn: ExternalOvn) -> None:
    refuse(pool, "GP-2083", "enable", "--ovn", "tcp:127.0.0.1:1")
    assert pool.json("network", "status")["state"] == "off"
    before = ovn.read_rows()
    pool.do("network", "enable", "--ovn", ovn.northbound)
    pool.do("network", "create", "lab", "--cidr", "10.0.0.0/24")
    pool.until(lambda: ovn.read_rows() != before, "the network's rows")
    ovn.kill()
    ending = pool.start("network", "disable", "--yes")
    try:
        pool.until(lambda: find_engine(pool) == [], "the end of the daemons")
        status = pool.until(
            lambda: found if (found := pool.json("network", "status"))["reason"] else None,
            "the reason",
        )
        assert status["state"] == "stopping"
        assert "the pool's rows are not deleted yet" in status["reason"]
        type_page(pool, ovn, "disable", "--leave-rows")
        assert pool.json("network", "status")["state"] == "off"
        assert ending.wait(10) == 0
    finally:
        ending.kill()
        ending.wait()
    pool.do("network", "delete", "lab", "--yes")
