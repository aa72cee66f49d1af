"""Gateways on a pair of machines with the real OVN: moves, drills, drains and deaths."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.gateway_pool import (
    GatewayPool,
    echo_server,
    find_missing_packages,
    gateway_pool,
    list_addresses,
    list_switches,
    list_watchdogs,
    read_tracking,
)
from tests.support.network_machines import Machine
from tests.support.pages import PAGES
from tests.support.typed_commands import commands

_MISSING = find_missing_packages()
pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(bool(_MISSING), reason=f"needs {', '.join(_MISSING)}"),
]

#: Has one connection, sends a line 20 times a second, and writes how many came back. It ends with 1
#: where the connection breaks. Lines are long: in the seconds between two moves more passes than the
#: 64 KiB by which connection tracking is wrong without harm.
TALK = """
import pathlib, socket, sys, time
peer = socket.create_connection((sys.argv[1], 7000), 20)
file = peer.makefile("rwb")
line = b"x" * 20_000 + b"\\n"
count = 0
while True:
    file.write(line)
    file.flush()
    if file.readline() != line:
        sys.exit(1)
    count += 1
    pathlib.Path(sys.argv[2]).write_text(str(count))
    time.sleep(0.05)
"""


class Talk:
    """A job's one connection to a server outside, which has to survive every move."""

    def __init__(self, machines: GatewayPool, target: str) -> None:
        self._machines = machines
        # A job of another account writes there.
        self._ticks = machines.members[0].root / "ticks"
        command = ("submit", "--network", "lab", "--gpu", "1", "--label", "at=sim-0")
        words = (sys.executable, "-c", TALK, target, str(self._ticks))
        machines.pool.do(*command, "--name", "talk", "--", *words)

    def count(self) -> int:
        return int(self._ticks.read_text() or "0") if self._ticks.exists() else 0

    def check(self) -> None:
        """Wait for more answers on the same connection."""
        before = self.count()
        self._machines.pool.until(lambda: self.count() > before + 5, "more answers")
        assert self._machines.pool.job("talk")["state"] == "running"


@pytest.fixture(scope="module")
def machines() -> Iterator[GatewayPool]:
    with gateway_pool() as made:
        made.pool.do("network", "create", "lab", "--cidr", "10.0.0.0/24")
        yield made


@pytest.fixture(scope="module")
def talk(machines: GatewayPool) -> Iterator[Talk]:
    with echo_server(machines.outside) as target:
        refused = machines.pool.run("network", "gateway-drill", "lab")
        assert "has no gateway" in refused.stderr
        machines.make_pair()
        machines.pool.do("network", "gateway-create", "lab")
        yield Talk(machines, target)


def test_a_drill_moves_there_and_back(machines: GatewayPool, talk: Talk) -> None:
    machines.pool.until(talk.count, "an answer from outside")
    status = machines.pool.do("network", "status")
    assert "gateways      machine-1 (active), machine-2 (standby)" in status, status
    before = machines.find_active()
    drill = machines.pool.json("network", "gateway-drill", "lab")
    assert drill["state"] == "done", drill
    assert [move["target"] for move in drill["moves"]] == [
        machines.find_peer(before).name,
        before.name,
    ]
    # A promise of 1 s, on a machine that other tests use too.
    assert 0 < drill["outage_seconds"] < 3, drill
    assert all(move["answers"] > 20 for move in drill["moves"])
    machines.wait_for_roles(before, "standby")
    talk.check()


@pytest.mark.slow
def test_a_machine_without_carrier_loses_gateways_and_stands_by_later(
    machines: GatewayPool, talk: Talk
) -> None:
    lost = machines.find_active()
    peer = machines.find_peer(lost)
    machines.outside.set_carrier(lost, is_up=False)
    machines.wait_for_roles(peer, "away")
    talk.check()
    found = machines.read_pair()
    assert found["moved_from"] == lost.name
    assert found["move_reason"] == f"{lost.name}: eth1 has no carrier"
    refused = machines.pool.run("network", "gateway-drill", "lab")
    assert f"{lost.name} cannot take the gateways; it is away" in refused.stderr
    machines.outside.set_carrier(lost, is_up=True)
    restore_route(machines, lost)
    machines.wait_for_roles(peer, "standby")


def restore_route(machines: GatewayPool, member: Machine) -> None:
    """Lay the default route again, which the kernel removes with the carrier's interface."""
    words = ["ip", "-n", member.space, "route", "replace", "default", "via"]
    subprocess.run([*words, machines.outside.router], check=True)


@pytest.mark.slow
def test_a_dead_uplink_with_a_carrier_is_noticed(machines: GatewayPool, talk: Talk) -> None:
    lost = machines.find_active()
    peer = machines.find_peer(lost)
    machines.outside.set_path(lost, is_up=False)
    machines.wait_for_roles(peer, "away")
    talk.check()
    router = machines.outside.router
    assert machines.read_pair()["move_reason"] == f"{lost.name}: {router} does not answer on eth1"
    machines.outside.set_path(lost, is_up=True)
    machines.wait_for_roles(peer, "standby")


@pytest.mark.slow
def test_a_watchdog_works_without_its_agent_and_the_server(
    machines: GatewayPool, talk: Talk
) -> None:
    lost = machines.find_active()
    peer = machines.find_peer(lost)
    for member in machines.members:
        member.kill_agent()
    os.kill(machines.pool.server_pid(), signal.SIGKILL)
    machines.outside.set_path(lost, is_up=False)
    talk_goes_on(talk)
    machines.outside.set_path(lost, is_up=True)
    machines.start_pool()
    for member in machines.members:
        machines.start_agent(member)
    machines.wait_for_roles(peer, "standby")


def talk_goes_on(talk: Talk) -> None:
    """Wait for more answers without asking the server."""
    before = talk.count()
    deadline = time.monotonic() + 20
    while talk.count() < before + 20:
        assert time.monotonic() < deadline, "no more answers"
        time.sleep(0.05)


@pytest.mark.slow
def test_a_killed_switch_comes_back_as_the_standby(machines: GatewayPool, talk: Talk) -> None:
    lost = machines.find_active()
    (switch,) = list_switches(lost)
    (watchdog,) = list_watchdogs(lost)
    # Alone, so that the other watchdog does not move gateways: it is started again in time.
    os.kill(watchdog, signal.SIGKILL)
    machines.pool.until(lambda: list_watchdogs(lost) not in ([], [watchdog]), "a new watchdog")
    os.kill(switch, signal.SIGKILL)
    machines.wait_for_roles(machines.find_peer(lost), "standby")
    assert list_switches(lost) != [switch]
    talk.check()


def test_a_dead_machine_is_replaced_and_comes_back(machines: GatewayPool, talk: Talk) -> None:
    lost = machines.find_active()
    peer = machines.find_peer(lost)
    machines.kill_node(lost)
    machines.pool.until(lambda: machines.read_pair()["active"] == peer.name, "a move")
    talk.check()
    assert machines.read_pair()["move_reason"] == f"{lost.name} does not answer"
    machines.revive_node(lost)
    machines.wait_for_roles(peer, "standby")
    assert len(list_watchdogs(lost)) == 1
    drill = machines.pool.json("network", "gateway-drill", "lab")
    assert drill["state"] == "done", drill
    talk.check()


@pytest.mark.slow
def test_a_drained_machine_gives_gateways_away(machines: GatewayPool, talk: Talk) -> None:
    first = machines.find_active()
    peer = machines.find_peer(first)
    machines.pool.do("network", "gateway-drain", first.name)
    machines.wait_for_roles(peer, "away")
    refused = machines.pool.run("network", "gateway-drain", peer.name)
    assert f"{first.name} cannot take the gateways; it is drained" in refused.stderr
    talk.check()
    machines.pool.do("network", "gateway-drain", first.name, "--undo")
    machines.wait_for_roles(peer, "standby")


def wait_until_gone(machines: GatewayPool, path: Path) -> None:
    machines.pool.until(lambda: not path.exists(), f"no {path}")


def test_commands_of_the_page_work_and_gateways_go_back(machines: GatewayPool, talk: Talk) -> None:
    words_here = {"203.0.113.10": machines.outside.address, "203.0.113.1": machines.outside.router}
    for words in commands(PAGES / "network-gateway.md"):
        # The page's first commands are run by test_networks.py, and end the gateway.
        if words[0] == "network" and words[1] not in ("gateway-create", "gateway-delete"):
            if words[1] == "gateway-unpair":
                talk.check()
            machines.pool.do(*(words_here.get(word, word) for word in words))
    for member in machines.members:
        wait_until_gone(machines, member.root / "agent/network/gateway")
        assert list_watchdogs(member) == []
        assert machines.outside.address not in list_addresses(member)
        assert read_tracking(member) == "0"
    refused = machines.pool.run("network", "gateway-show")
    assert "all are on sim-0" in refused.stderr
    refused = machines.pool.run("network", "gateway-drill", "lab")
    assert "gateways are on one machine" in refused.stderr
