"""Mirrors between machines with the real OVN: copies reach the target, and no other tenant."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.agent.network.daemons import find_missing_programs, locate_engine
from tests.support.network_pool import find_end
from tests.support.several_machines import SeveralMachines, several_machines

_MISSING = set(find_missing_programs().values())
if shutil.which("nft") is None:
    _MISSING.add("nftables")
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(_MISSING), reason=f"needs {', '.join(sorted(_MISSING))}"),
]

#: Answers each connection with its text.
SERVE = """
import socket
server = socket.create_server(("", 7000))
while True:
    peer, _ = server.accept()
    peer.recv(100)
    peer.sendall({text!r})
    peer.close()
"""
#: Prints each word of a tenant that comes by an interface, and how large the largest packet was.
SNIFF = """
import re, socket, sys
channel = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
channel.bind((sys.argv[1], 0))
print("listens", flush=True)
while True:
    frame = channel.recv(2000)
    for word in re.findall(rb"(?:from|to)-[ab]", frame):
        print(word.decode(), len(frame), flush=True)
"""
#: Sends a full packet and its word, and prints the answer.
ASK = """
import socket, sys
peer = socket.create_connection((sys.argv[1], 7000), 20)
peer.sendall(sys.argv[2].encode())
print(peer.recv(100).decode())
"""


@pytest.fixture(scope="module")
def machines() -> Iterator[SeveralMachines]:
    with several_machines() as made:
        for network in ("a", "b"):
            made.pool.do("network", "create", network, "--cidr", "10.0.0.0/24")
        yield made


def start(machines: SeveralMachines, network: str, node: str, name: str) -> None:
    words = ("submit", "--network", network, "--gpu", "0.1", "--label", f"at={node}")
    script = SERVE.format(text=f"from-{network}".encode())
    machines.pool.do(*words, "--name", name, "--", sys.executable, "-c", script)
    machines.pool.until_state(name, "running")


def find_mirror(machines: SeveralMachines, network: str) -> dict[str, Any]:
    (mirror,) = machines.pool.json("network", "mirror-list", network)
    found: dict[str, Any] = mirror
    return found


def enter(machines: SeveralMachines, network: str, job: str, member: int) -> list[str]:
    """The start of a command in the network of a job on a member, counted from one."""
    files = locate_engine(machines.members[member - 1].root / "agent/network")
    end = find_end(machines.pool, network, job, files)
    return ["nsenter", f"--net={end.namespace}", sys.executable, "-c"]


def test_copies_reach_another_machine_and_no_other_tenant(machines: SeveralMachines) -> None:
    for network in ("a", "b"):
        start(machines, network, "machine-1", f"web-{network}")
        start(machines, network, "machine-1", f"client-{network}")
        start(machines, network, "machine-2", f"sensor-{network}")
        ends = ("--from", f"web-{network}", "--to", f"sensor-{network}")
        machines.pool.do("network", "mirror-create", network, "copies", *ends)
    for network in ("a", "b"):
        machines.pool.until(
            lambda network=network: find_mirror(machines, network)["state"] != "not enforced",
            f"the mirror of {network}",
        )
    sniffers = dict[str, subprocess.Popen[str]]()
    try:
        for network in ("a", "b"):
            words = [*enter(machines, network, f"sensor-{network}", 2), SNIFF, "copies"]
            sniffers[network] = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
            assert read_line(sniffers[network]) == "listens"
        # Both servers have the same address. The first words are of b alone, so a would have them
        # before its own.
        for network in ("b", "a"):
            words = [*enter(machines, network, f"client-{network}", 1), ASK, "10.0.0.2"]
            words.append(f"to-{network}" + 1300 * "x")
            done = subprocess.run(words, check=True, capture_output=True, text=True)
            assert done.stdout.strip() == f"from-{network}"
        for network in ("a", "b"):
            request, request_bytes = read_line(sniffers[network]).split()
            assert (request, int(request_bytes) > 1300) == (f"to-{network}", True)
            assert read_line(sniffers[network]).split()[0] == f"from-{network}"
    finally:
        for process in sniffers.values():
            process.kill()
            process.communicate()
    for network in ("a", "b"):
        machines.pool.until(
            lambda network=network: find_mirror(machines, network)["packets"] > 5,
            f"the count of {network} at the target",
        )
        assert find_mirror(machines, network)["state"] == "verified"


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_mirror_of_a_target_that_ends_leaves_no_tunnel(machines: SeveralMachines) -> None:
    for network in ("a", "b"):
        machines.pool.do("stop", f"sensor-{network}", "--yes")
    for member in machines.members:
        switch = locate_engine(member.root / "agent/network").remote("switch")
        command = ["ovs-vsctl", f"--db={switch}", "--bare", "--columns=name", "find", "Interface"]

        def has_no_tunnel(words: list[str] = command) -> bool:
            shown = subprocess.run(words, check=True, capture_output=True, text=True).stdout
            return not any(name.startswith(("gx", "gm")) for name in shown.split())

        machines.pool.until(has_no_tunnel, f"the end of the tunnels of {member.name}")
