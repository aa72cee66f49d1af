"""The pair of gateways: named by an admin, given as work to its machines, moved by reports."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadAddress, NetworkingUnavailable, UnknownNetwork, WrongState
from gpupool.network.gateways import reading
from gpupool.network.gateways.service import GatewayPairService
from gpupool.network.reconciler import NetworkReconciler
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.network.engine import NetworkEngineReport, NetworkEngineWork
from gpupool.wire.network.floating_ips import FloatingIpIn
from gpupool.wire.network.gateways import GatewayPairIn, GatewayReport
from gpupool.wire.network.networks import NetworkEngineIn
from tests.support.ovsdb import DatabaseServer, find_missing_part, northbound_server
from tests.support.supervised import until
from tests.unit.network.conftest import NetworkHouse

pytest.importorskip("cryptography")

PAIR = GatewayPairIn(nodes=["node-2", "node-3"], address="203.0.113.10", upstream="203.0.113.1")
UPLINK = "198.18.0.0/16"


def report(house: NetworkHouse, agent: str, **more: object) -> None:
    body = {"state": "ready", "mtu": 1442, **more}
    parsed = NetworkEngineReport.model_validate(body)
    house.allocations.agents.apply_reports(agent, ReportsIn(network=parsed))


def say(house: NetworkHouse, agent: str, state: str, reason: str = "", **more: object) -> None:
    """Report the state of a machine of the pair."""
    gateway = GatewayReport.model_validate({"state": state, "reason": reason, "since_ns": 5})
    tunnel = f"10.0.0.{agent[-1]}"
    report(house, agent, gateway=gateway.model_dump(), tunnel=tunnel, **more)


def read_work(house: NetworkHouse, agent: str) -> NetworkEngineWork:
    work = house.allocations.agents.read_work(agent, 0).network
    assert work is not None
    return work


@pytest.fixture
def pairs(house: NetworkHouse) -> GatewayPairService:
    for number in (2, 3):
        house.register(2, f"node-{number}")
    house.allocations.network_engine.enable()
    house.allocations.placer.load()
    centre = {"northbound_tls": "ssl:10.0.0.1:6641", "southbound": "ssl:10.0.0.1:6642"}
    report(house, "node-1", northbound="unix:/nowhere", tunnel="10.0.0.1", **centre)
    for number in (2, 3):
        report(house, f"node-{number}", tunnel=f"10.0.0.{number}")
    house.create_network("lab", "10.0.0.0/24")
    return house.allocations.gateway_pairs


def test_machines_of_a_pair_have_gateways_and_the_centre_has_none(
    house: NetworkHouse, pairs: GatewayPairService
) -> None:
    house.allocations.networks.create_gateway(house.admin, "lab")
    assert read_work(house, "node-1").uplink
    pairs.set_pair(PAIR)
    assert not read_work(house, "node-1").uplink
    work = read_work(house, "node-2")
    assert work.uplink
    assert work.gateway is not None
    assert work.gateway.prefix == ""
    assert (work.gateway.peer, work.gateway.peer_tunnel) == ("gpupool-node-3", "10.0.0.3")
    assert (work.gateway.is_first, work.gateway.northbound) == (True, "ssl:10.0.0.1:6641")
    # The first that has a prefix decides for both.
    say(house, "node-3", "standby", uplink=UPLINK)
    other = read_work(house, "node-2").gateway
    assert other is not None
    assert other.prefix == UPLINK
    pairs.delete_pair()
    assert read_work(house, "node-1").uplink
    assert read_work(house, "node-2").gateway is None


def test_a_move_is_what_the_new_active_machine_reports(
    house: NetworkHouse, pairs: GatewayPairService
) -> None:
    pairs.set_pair(PAIR)
    say(house, "node-2", "active")
    say(house, "node-3", "standby")
    assert pairs.get_pair().active == "node-2"
    say(house, "node-3", "active", "node-2 does not answer")
    found = pairs.get_pair()
    assert (found.active, found.moved_from) == ("node-3", "node-2")
    assert (found.move_reason, found.active_since_ns) == ("node-2 does not answer", 5)


@pytest.mark.parametrize(
    ("nodes", "address", "upstream", "error"),
    [
        (["node-2", "node-2"], "203.0.113.10", None, WrongState),
        (["node-2", "node-9"], "203.0.113.10", None, NetworkingUnavailable),
        (["node-2", "node-3"], "203.0.113.300", None, BadAddress),
        (["node-2", "node-3"], "127.0.0.1", None, BadAddress),
        (["node-2", "node-3"], "203.0.113.1", "203.0.113.1", BadAddress),
    ],
)
def test_a_pair_that_cannot_be_is_refused(
    pairs: GatewayPairService,
    nodes: list[str],
    address: str,
    upstream: str | None,
    error: type[Exception],
) -> None:
    with pytest.raises(error):
        pairs.set_pair(GatewayPairIn(nodes=nodes, address=address, upstream=upstream))
    with pytest.raises(UnknownNetwork, match="all are on node-1"):
        pairs.get_pair()


def test_an_address_that_a_job_has_outside_is_refused(
    house: NetworkHouse, pairs: GatewayPairService
) -> None:
    house.allocations.network_engine.enable(NetworkEngineIn(floating_ips="203.0.113.8/29"))
    house.allocations.networks.create_gateway(house.admin, "lab")
    floating = house.allocations.floating_ips
    taken = floating.create_floating(house.admin, "lab", FloatingIpIn(target="job")).address
    for change in ({"address": taken}, {"upstream": taken}):
        with pytest.raises(BadAddress, match=f"{taken} is the floating IP of a job"):
            pairs.set_pair(PAIR.model_copy(update=change))
    pairs.set_pair(PAIR)


def test_another_pair_is_refused_and_other_settings_are_not(pairs: GatewayPairService) -> None:
    pairs.set_pair(PAIR)
    with pytest.raises(WrongState, match="node-2 and node-3"):
        pairs.set_pair(PAIR.model_copy(update={"nodes": ["node-1", "node-3"]}))
    assert pairs.set_pair(PAIR.model_copy(update={"upstream": None})).upstream is None


def test_a_drain_needs_a_machine_that_stands_by(
    house: NetworkHouse, pairs: GatewayPairService
) -> None:
    pairs.set_pair(PAIR)
    say(house, "node-2", "active")
    say(house, "node-3", "away", "eth1 has no carrier")
    with pytest.raises(WrongState, match="node-3 cannot take the gateways; it is away: eth1"):
        pairs.set_drain("node-2", wanted=True)
    say(house, "node-3", "standby")
    assert pairs.set_drain("node-2", wanted=True).machines[0].is_drained
    work = read_work(house, "node-2").gateway
    assert work is not None
    assert work.is_drained
    assert not pairs.set_drain("node-2", wanted=False).machines[0].is_drained
    with pytest.raises(UnknownNetwork):
        pairs.set_drain("node-1", wanted=True)


@pytest.mark.skipif(bool(find_missing_part()), reason=find_missing_part())
def test_a_drill_that_is_late_is_no_work_of_an_agent_that_starts(
    house: NetworkHouse, pairs: GatewayPairService, monkeypatch: pytest.MonkeyPatch
) -> None:
    house.allocations.networks.create_gateway(house.admin, "lab")
    pairs.set_pair(PAIR)
    say(house, "node-2", "active", uplink=UPLINK)
    say(house, "node-3", "standby", uplink=UPLINK)
    started = house.allocations.gateway_drills.start(house.admin, "lab")
    work = read_work(house, "node-1").drill
    assert work is not None
    assert work.id == started.id
    monkeypatch.setattr(reading, "MOST_DRILL_SECONDS", 0)
    assert read_work(house, "node-1").drill is None


def test_the_rows_of_a_pair_come_and_go_and_priorities_stay(
    house: NetworkHouse, pairs: GatewayPairService
) -> None:
    with northbound_server() as server:
        reconciler = NetworkReconciler(
            house.store, house.allocations.network_engine.read_northbound
        )
        reconciler.start()
        try:
            report(house, "node-1", northbound=server.remote, tunnel="10.0.0.1")
            house.allocations.networks.create_gateway(house.admin, "lab")
            pairs.set_pair(PAIR)
            say(house, "node-2", "active", uplink=UPLINK)
            until(lambda: _has_group(server))
            chassis = server.command("--columns=chassis_name,priority", "list", "HA_Chassis")
            assert "31" in chassis
            assert "20" in chassis
            # A watchdog has moved the gateways: they stay there.
            row = server.command("--bare", "--columns=_uuid", "find", "HA_Chassis", "priority=20")
            server.command("set", "HA_Chassis", row.strip(), "priority=30")
            house.create_network("other", "10.0.0.0/24")
            until(lambda: "other" in server.command("list", "Logical_Switch_Port"))
            assert "30" in server.command("--columns=priority", "list", "HA_Chassis")
            pairs.delete_pair()
            report(house, "node-1", northbound=server.remote, tunnel="10.0.0.1", uplink=UPLINK)
            until(lambda: server.command("list", "HA_Chassis_Group").strip() == "")
            until(lambda: "gpupool" in server.command("list", "Gateway_Chassis"))
        finally:
            reconciler.close()
            reconciler.join(30)


def _has_group(server: DatabaseServer) -> bool:
    """Whether the router's port outside refers to the pair's group."""
    columns = "--columns=name,ha_chassis_group"
    found = server.command("--bare", columns, "list", "Logical_Router_Port")
    return any("uplink" in one and len(one.split()) == 2 for one in found.split("\n\n"))
