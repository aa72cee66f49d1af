"""One engine over three machines with the real OVN: this one and two in namespaces beside it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import ssl
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from gpupool.agent.network.daemons import find_missing_programs, locate_engine
from gpupool.base.clock import wall_ns
from gpupool.network.machines.certificates import issue_certificate, make_authority
from tests.support.network_machines import find_machine
from tests.support.pages import PAGES
from tests.support.several_machines import SeveralMachines, list_processes, several_machines
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

#: Answers with its text and the number of bytes that it got.
SERVE = """
import socket
server = socket.create_server(("", 7000))
while True:
    peer, _ = server.accept()
    peer.settimeout(5)
    count = 0
    try:
        while count < 200000 and (data := peer.recv(65536)):
            count += len(data)
        peer.sendall({text!r} + b" %d" % count)
    except OSError as error:
        print(error)
    peer.close()
"""


@pytest.fixture(scope="module")
def machines() -> Iterator[SeveralMachines]:
    with several_machines() as made:
        yield made


GANG = """
import os, socket, time
rank = int(os.environ["GPUPOOL_GANG_RANK"])
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    with socket.create_server(("", address[1])) as server:
        for _ in range(2):
            peer, _ = server.accept()
            assert peer.recv(5) == b"hello"
else:
    deadline = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(address, 3).sendall(b"hello")
            break
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
"""


def test_members_of_a_gang_on_three_machines_meet_by_name(machines: SeveralMachines) -> None:
    machines.pool.do("network", "create", "gang", "--cidr", "10.0.0.0/24")
    # Each member has both cards of a machine.
    words = ("submit", "--network", "gang", "--gpu", "1", "--count", "2", "--gang", "3")
    machines.pool.do(*words, "--name", "trio", "--", sys.executable, "-c", GANG)
    ended = []
    for rank in range(3):
        ended.append(machines.pool.until_state(f"trio.{rank}", "done", "failed", "stopped"))
    assert [job["state"] for job in ended] == ["done"] * 3
    assert len({job["node"] for job in ended}) == 3


def test_jobs_on_two_machines_meet_and_tenants_do_not(machines: SeveralMachines) -> None:
    for network, node in (("a", "machine-1"), ("b", "machine-2")):
        machines.pool.do("network", "create", network, "--cidr", "10.0.0.0/24")
        machines.submit(network, node, f"server-{network}", SERVE.format(text=network.encode()))
        machines.pool.until_state(f"server-{network}", "running")
    # The same address in both networks, on two machines.
    assert machines.pool.job("server-a")["address"] == machines.pool.job("server-b")["address"]
    assert machines.pool.job("server-a")["node"] == "machine-1"
    assert machines.ask("a", "machine-2", "server-a", "a") == ("done", 0)
    assert machines.ask("b", "machine-1", "server-b", "b") == ("done", 0)
    assert machines.ask("a", "sim-0", "10.0.0.2", "a") == ("done", 0)
    assert machines.ask("b", "sim-0", "10.0.0.2", "b") == ("done", 0)


def connect(port: int, address: str, context: ssl.SSLContext | None = None) -> str:
    """What a database's port answers to a client: its databases, or the error's name."""
    request = b'{"method":"list_dbs","params":[],"id":1}'
    try:
        with ExitStack() as stack:
            peer = stack.enter_context(socket.create_connection((address, port), 3))
            if context is not None:
                peer = stack.enter_context(context.wrap_socket(peer))
            peer.settimeout(3)
            peer.sendall(request)
            return peer.recv(1000).decode() or "closed"
    except (OSError, ssl.SSLError) as error:
        return type(error).__name__


def test_databases_refuse_plain_tcp_and_foreign_authorities(
    machines: SeveralMachines, tmp_path: Path
) -> None:
    own = machines.members[0].root / "agent/network/certificates"
    assert {oct(file.stat().st_mode & 0o777) for file in own.iterdir()} == {"0o600"}
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    certificate = issue_certificate(make_authority("other", wall_ns()), "machine-1", wall_ns())
    (foreign / "certificate.pem").write_text(certificate.certificate)
    (foreign / "key.pem").write_text(certificate.private_key)
    record = machines.pool.state_dir / "agent/network/ports"
    for port in map(int, record.read_text().split()[1:]):
        answers = dict[str, str]()
        for name, directory in (("own", own), ("foreign", foreign)):
            context = ssl.create_default_context(cafile=str(own / "trusted.pem"))
            context.check_hostname = False
            context.load_cert_chain(directory / "certificate.pem", directory / "key.pem")
            answers[name] = connect(port, machines.fabric.address, context)
        assert "OVN_" in answers["own"], answers
        assert "OVN_" not in answers["foreign"], answers
        assert "OVN_" not in connect(port, machines.fabric.address)
        # Nor does another address of this machine have the port.
        assert connect(port, "127.0.0.1") == "ConnectionRefusedError"


def test_networks_with_larger_packets_than_tunnels_are_refused(machines: SeveralMachines) -> None:
    refused = machines.pool.run("network", "create", "c", "--cidr", "10.1.0.0/24", "--mtu", "1443")
    assert "carry 1442" in refused.stderr, refused.stderr


def test_a_member_whose_agent_and_daemons_are_killed_comes_back(machines: SeveralMachines) -> None:
    member = machines.members[0]
    member.kill_agent()
    # Jobs and traffic do not need the agent.
    assert machines.ask("a", "machine-2", "server-a", "a") == ("done", 0)
    killed = list_processes(member.mark)
    assert len(killed) == 3
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    machines.start_agent(member)
    machines.pool.until(
        lambda: len(set(list_processes(member.mark)) - set(killed)) == 3, "three new daemons"
    )
    assert machines.ask("a", "machine-2", "server-a", "a") == ("done", 0)


def test_another_machine_becomes_the_centre(machines: SeveralMachines) -> None:
    machines.pool.do("network", "enable", "--node", "machine-2")
    machines.pool.until(machines.is_ready, "three machines that are ready")
    status = machines.status()
    assert status["node"] == "machine-2"
    roles = {one["node"]: one["role"] for one in status["machines"]}
    assert roles == {"machine-2": "centre", "sim-0": "member", "machine-1": "member"}
    assert machines.ask("a", "sim-0", "server-a", "a") == ("done", 0)
    assert machines.ask("b", "machine-1", "server-b", "b") == ("done", 0)
    old = locate_engine(machines.pool.state_dir / "agent/network").mark
    assert len(list_processes(old)) == 3
    assert len(list_processes(machines.members[1].mark)) == 6
    assert find_machine(status, "machine-2")["mtu"] == 1442


#: Connects again and again, and writes how often it got an answer.
TICK = """
import pathlib, socket, sys
count = 0
while True:
    try:
        peer = socket.create_connection((sys.argv[1], 7000), 2)
        peer.sendall(b"x" * 200000)
        count += peer.recv(100) == b"a 200000"
    except OSError:
        continue
    pathlib.Path(sys.argv[2]).write_text(str(count))
"""


def test_traffic_goes_on_without_a_centre(machines: SeveralMachines) -> None:
    centre = machines.members[1]
    # A job of another account writes there.
    ticks = machines.members[0].root / "ticks"
    machines.submit("a", "sim-0", "ticker", TICK, "10.0.0.2", str(ticks))

    def read_ticks() -> int:
        return int(ticks.read_text() or "0") if ticks.exists() else 0

    machines.pool.until(read_ticks, "an answer")
    centre.kill_agent()
    for pid in list_processes(centre.mark):
        if b"ovsdb-server" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    waiting = machines.pool.until(
        lambda: (
            find_machine(machines.status(), "machine-1")["state"] != "ready"
            and find_machine(machines.status(), "machine-1")
        ),
        "a member that waits",
    )
    assert "not connected to the centre" in waiting["reason"]
    before = read_ticks()
    machines.pool.until(lambda: read_ticks() > before + 3, "more answers without a centre")
    machines.start_agent(centre)
    machines.pool.until(machines.is_ready, "three machines that are ready")
    assert machines.ask("b", "sim-0", "server-b", "b") == ("done", 0)


def test_commands_of_the_page_work_in_their_order(machines: SeveralMachines) -> None:
    for words in commands(PAGES / "network-several-machines.md"):
        machines.pool.do(*words)
    machines.pool.until(machines.is_ready, "three machines that are ready")
    assert machines.status()["node"] == "sim-0"
    assert machines.ask("a", "machine-2", "server-a", "a") == ("done", 0)
