"""Two machines move a load balancer in a real northbound database, each with what it sees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.agent.network.balancing import proxy_mover
from gpupool.agent.network.balancing.proxy_mover import ProxyMover, forget_serving, read_serving
from gpupool.agent.network.balancing.proxy_moves import PairSight
from gpupool.network.gateways.model import GatewayRole
from tests.support.ovsdb import DatabaseServer, find_missing_part, northbound_server
from tests.support.supervised import until
from tests.unit.agent.network.balancing.test_living_proxies import kill, listen

pytestmark = pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part())

ACTIVE = PairSight(GatewayRole.ACTIVE, GatewayRole.STANDBY, True, True, True)
STANDBY = replace(ACTIVE, role=GatewayRole.STANDBY, peer_role=GatewayRole.ACTIVE)
FLUSH = "ct_flush"
VIP = '"100.126.0.8:80"'


@pytest.fixture
def server() -> Iterator[DatabaseServer]:
    with northbound_server() as made:
        made.command("lb-add", "web", "100.126.0.8:80", "10.0.0.5:80")
        for option in (
            f"{FLUSH}=false",
            'gpupool-proxies="h-1 h-2"',
            'gpupool-proxy-hosts="10.0.0.5 10.0.0.6"',
        ):
            made.command("set", "Load_Balancer", "web", f"options:{option}")
        # One that no pair has.
        made.command("lb-add", "other", "100.126.0.9:80", "10.0.0.5:80")
        yield made


class Machine:
    """A mover with its directory, and one proxy that a process stands for."""

    def __init__(self, server: DatabaseServer, root: Path, *, is_first: bool) -> None:
        self.run = root / ("first" if is_first else "second")
        self.key = "h-1" if is_first else "h-2"
        (self.run / "proxies").mkdir(parents=True)
        self.process = listen(self.run / "proxies", self.key)
        self.mover = ProxyMover(server.remote, self.run, is_first=is_first)
        self.mover.start()
        self.sight = ACTIVE if is_first else STANDBY

    def close(self) -> None:
        self.mover.close()
        kill(self.process)


@pytest.fixture
def pair(server: DatabaseServer, short_path: Path) -> Iterator[tuple[Machine, Machine]]:
    made = (
        Machine(server, short_path, is_first=True),
        Machine(server, short_path, is_first=False),
    )
    yield made
    for machine in made:
        machine.close()


def read(server: DatabaseServer, column: str) -> str:
    return server.command("get", "Load_Balancer", "web", column)


def wait_for(pair: tuple[Machine, Machine], target: Machine) -> None:
    """Let both look as watchdogs do, until one of them serves."""

    def look() -> bool:
        for machine in pair:
            machine.mover.look(machine.sight)
        return [read_serving(one.run) for one in pair] == [
            frozenset({one.key} if one is target else ()) for one in pair
        ]

    until(look)


def wait_for_peer(server: DatabaseServer) -> None:
    until(lambda: "gpupool-ready-second" in read(server, "external_ids"))


@pytest.fixture
def no_timed_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Movers look at what they are told and at nothing else."""
    monkeypatch.setattr(proxy_mover, "_LOOK_SECONDS", 3600.0)


@pytest.mark.usefixtures("no_timed_looks")
def test_a_dead_proxy_is_left_at_once(
    server: DatabaseServer, pair: tuple[Machine, Machine]
) -> None:
    first, second = pair
    wait_for(pair, first)
    wait_for_peer(server)
    kill(first.process)
    wait_for(pair, second)
    assert read(server, f"vips:{VIP}") == '"10.0.0.6:80"'
    assert "gpupool-ready-first" not in read(server, "external_ids")
    assert "10.0.0.5:80" in server.command("lb-list", "other")


def test_a_planned_move_lets_open_connections_be(
    server: DatabaseServer, pair: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupool.agent.network.balancing.proxy_moves.FOLLOW_SECONDS", 0.2)
    first, second = pair
    wait_for(pair, first)
    first.sight = STANDBY
    second.sight = ACTIVE
    wait_for(pair, second)
    assert read(server, f"options:{FLUSH}") == '"false"'
    assert read(server, f"vips:{VIP}") == '"10.0.0.6:80"'


def test_connections_to_a_silent_machine_are_forgotten(
    server: DatabaseServer, pair: tuple[Machine, Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpupool.agent.network.balancing.proxy_moves.ARMED_SECONDS", 1.0)
    first, second = pair
    wait_for(pair, first)
    second.sight = replace(STANDBY, is_peer_up=False)
    second.mover.look(second.sight)
    # Controllers learn of it before the row leads elsewhere.
    until(lambda: read(server, f"options:{FLUSH}") == '"true"')
    assert read(server, f"vips:{VIP}") == '"10.0.0.5:80"'
    wait_for(pair, second)
    assert read(server, f"options:{FLUSH}") == '"false"'


def test_a_machine_that_was_cut_off_reads_over_a_new_connection(
    server: DatabaseServer, pair: tuple[Machine, Machine]
) -> None:
    first, _ = pair
    wait_for(pair, first)
    before = first.mover._session
    first.mover.look(replace(ACTIVE, is_any_up=False, is_peer_up=False, is_informed=False))
    until(lambda: first.mover._session not in (None, before))
    assert read(server, f"vips:{VIP}") == '"10.0.0.5:80"'


def test_a_machine_of_no_pair_serves_nothing(short_path: Path) -> None:
    assert read_serving(short_path) == frozenset()
    (short_path / proxy_mover._SERVING).write_text('["h-1"]')
    assert read_serving(short_path) == {"h-1"}
    forget_serving(short_path)
    forget_serving(short_path)
    assert read_serving(short_path) == frozenset()
