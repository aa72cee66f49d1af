"""A drill that an agent's death cut short is ended by the next agent."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.gateways.drill import GatewayDrill
from gpupool.network.gateways.model import GROUP
from gpupool.wire.network.gateways import GatewayDrillWork
from tests.support.ovsdb import DatabaseServer, find_missing_part, northbound_server

pytestmark = pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part())

WORK = GatewayDrillWork(
    id="d-1",
    port="n-1",
    address="100.126.0.5",
    prefix=29,
    gateway="100.126.0.1",
    mac="32:00:00:00:00:01",
    mtu=1442,
    target="203.0.113.1",
    origin="one",
    chassis={"one": "c1", "two": "c2"},
)


@pytest.fixture
def run() -> Iterator[Path]:
    # A socket's path has 107 bytes at most.
    with tempfile.TemporaryDirectory(prefix="gpd-") as directory:
        yield Path(directory)


@pytest.fixture
def server(run: Path) -> Iterator[DatabaseServer]:
    with northbound_server(f"--remote=punix:{run}/northbound.sock") as made:
        made.command("ha-chassis-group-add", GROUP)
        yield made


def set_priorities(server: DatabaseServer, one: int, two: int) -> None:
    for chassis, priority in (("c1", one), ("c2", two)):
        server.command("ha-chassis-group-add-chassis", GROUP, chassis, str(priority))


def read_priorities(server: DatabaseServer) -> set[str]:
    found = server.command("--format=csv", "--columns=chassis_name,priority", "list", "HA_Chassis")
    return set(found.splitlines()[1:])


def test_gateways_go_back_where_a_killed_drill_found_them(
    run: Path, server: DatabaseServer
) -> None:
    set_priorities(server, 21, 30)
    report = GatewayDrill(EngineFiles("0", run, run)).run(WORK)
    assert report.moves == []
    assert report.reason == "the agent ended during the drill; the gateways are back on one"
    assert read_priorities(server) == {"c1,31", "c2,20"}


def test_gateways_stay_where_the_first_machine_is_away(run: Path, server: DatabaseServer) -> None:
    set_priorities(server, 11, 30)
    report = GatewayDrill(EngineFiles("0", run, run)).run(WORK)
    assert "c1 does not stand by for c2" in report.reason
    assert read_priorities(server) == {"c1,11", "c2,30"}
