"""An address on the cable that was another floating IP's before: nothing of that one reaches its job."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.namespaces import NAMESPACES, enter_namespace
from gpupool.agent.network.uplink import INNER, Uplink
from gpupool.wire.network.floating_ips import FloatingIpWork
from tests.support.claims import claimed

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(shutil.which("nft") is None, reason="needs nftables"),
]

BEFORE = "203.0.113.40"
NOW = "203.0.113.41"
CLIENT = "203.0.113.2"
SECONDS = 10.0


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@dataclass
class Cable:
    """A machine with an uplink, the gateways' end of its cable, and a client outside."""

    mark: str
    uplink: Uplink
    inner: str = ""

    @property
    def gateways(self) -> str:
        return f"gpupool-{self.mark}"

    def open(self, space: str, address: str, port: int) -> socket.socket:
        with enter_namespace(NAMESPACES / space):
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((address, port))
        made.settimeout(SECONDS)
        return made

    def set_up(self, address: str, key: str) -> None:
        work = FloatingIpWork(id=key, address=address, inner=self.inner)
        with enter_namespace(NAMESPACES / f"{self.mark}m"):
            self.uplink.set_up(floating_ips=[work])


@pytest.fixture
def cable(tmp_path: Path) -> Iterator[Cable]:
    with claimed("floating-reuse", range(16)) as number:
        mark = f"gpr{number}"
        machine = f"{mark}m"
        outside = f"{mark}o"
        files = EngineFiles(mark, tmp_path / "databases", tmp_path)
        made = Cable(mark, Uplink(files, tmp_path))
        for space in (machine, made.gateways, outside):
            _ip("netns", "add", space)
            _ip("-n", space, "link", "set", "lo", "up")
        pair = ("type", "veth", "peer", "name", "eth0", "netns", outside)
        _ip("-n", machine, "link", "add", "out0", *pair)
        _ip("-n", machine, "address", "add", "203.0.113.1/24", "dev", "out0")
        _ip("-n", outside, "address", "add", f"{CLIENT}/24", "dev", "eth0")
        _ip("-n", machine, "link", "set", "out0", "up")
        _ip("-n", outside, "link", "set", "eth0", "up")
        for address in (BEFORE, NOW):
            _ip("-n", outside, "route", "add", f"{address}/32", "via", "203.0.113.1")
        with enter_namespace(NAMESPACES / machine):
            prefix = made.uplink.set_up()
        made.inner = str(prefix[2**15 + 1])
        _ip("-n", made.gateways, "address", "add", f"{made.inner}/16", "dev", INNER)
        _ip("-n", made.gateways, "route", "add", "default", "via", str(prefix[1]))
        yield made
        for space in (machine, made.gateways, outside):
            _ip("netns", "del", space)


def test_packets_for_the_floating_ip_before_reach_no_job(cable: Cable) -> None:
    cable.set_up(BEFORE, "i-1")
    job = cable.open(cable.gateways, cable.inner, 7001)
    client = cable.open(f"{cable.mark}o", CLIENT, 6001)
    other = cable.open(f"{cable.mark}o", CLIENT, 6002)
    client.sendto(b"first", (BEFORE, 7001))
    assert job.recvfrom(100) == (b"first", (CLIENT, 6001))
    job.sendto(b"answer", (CLIENT, 6001))
    assert client.recvfrom(100) == (b"answer", (BEFORE, 7001))
    cable.set_up(NOW, "i-2")
    client.sendto(b"late", (BEFORE, 7001))
    other.sendto(b"new", (NOW, 7001))
    assert job.recvfrom(100) == (b"new", (CLIENT, 6002))
    # Nor does what the job sends go on as the answer of the one before.
    job.sendto(b"forged", (CLIENT, 6001))
    job.sendto(b"answer", (CLIENT, 6002))
    assert other.recvfrom(100) == (b"answer", (NOW, 7001))
    client.setblocking(False)
    with pytest.raises(BlockingIOError):
        client.recvfrom(100)


def test_a_job_never_sends_with_the_floating_ip_before(cable: Cable) -> None:
    cable.set_up(BEFORE, "i-1")
    job = cable.open(cable.gateways, cable.inner, 7001)
    another = cable.open(cable.gateways, cable.inner, 7002)
    client = cable.open(f"{cable.mark}o", CLIENT, 6001)
    job.sendto(b"first", (CLIENT, 6001))
    assert client.recvfrom(100) == (b"first", (BEFORE, 7001))
    cable.set_up(NOW, "i-2")
    job.sendto(b"late", (CLIENT, 6001))
    another.sendto(b"new", (CLIENT, 6001))
    assert client.recvfrom(100) == (b"new", (NOW, 7002))
    client.sendto(b"late", (BEFORE, 7001))
    client.sendto(b"answer", (NOW, 7002))
    assert another.recvfrom(100) == (b"answer", (CLIENT, 6001))
    job.setblocking(False)
    with pytest.raises(BlockingIOError):
        job.recvfrom(100)


def test_the_gateway_of_the_next_owner_is_found_at_once(cable: Cable) -> None:
    cable.set_up(BEFORE, "i-1")
    job = cable.open(cable.gateways, cable.inner, 7001)
    client = cable.open(f"{cable.mark}o", CLIENT, 6001)
    client.sendto(b"first", (BEFORE, 7001))
    assert job.recvfrom(100)[0] == b"first"
    # The router of another network has it, with a MAC address of its own.
    _ip("-n", cable.gateways, "link", "set", INNER, "address", "0a:00:00:00:00:07")
    cable.set_up(NOW, "i-2")
    job.settimeout(3.0)
    client.sendto(b"new", (NOW, 7001))
    assert job.recvfrom(100)[0] == b"new"
