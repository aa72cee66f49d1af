"""Ports for tenants are opened by an admin, given once, and led to the machine's agent."""

from __future__ import annotations

import pytest

from gpupool.base.errors import (
    BadAddress,
    NameTaken,
    StillInUse,
    TooManyNetworks,
    UnknownNetwork,
    WrongState,
)
from gpupool.network.forwarding.service import PortForwardService
from gpupool.network.northbound import compile_network
from gpupool.network.reading import read_networks
from gpupool.wire.network.load_balancers import LoadBalancerIn
from gpupool.wire.network.networks import NetworkEngineIn
from gpupool.wire.network.port_forwards import PortForwardIn
from tests.unit.network.conftest import NetworkHouse

WEB = PortForwardIn(target="Web.1", target_port=80)
UPLINK = "198.18.0.0/16"


@pytest.fixture
def forwards(house: NetworkHouse) -> PortForwardService:
    house.enable()
    house.create_network("lab", "10.0.0.0/24")
    return house.allocations.port_forwards


def open_ports(house: NetworkHouse, ports: str) -> None:
    engine = house.allocations.network_engine
    engine.enable(NetworkEngineIn(forward_ports=ports))
    house.allocations.networks.create_gateway(house.admin, "lab")
    house.tell_engine("ready", northbound="unix:/nowhere", uplink=UPLINK)


def list_work(house: NetworkHouse) -> list[tuple[str, int, str]]:
    with house.store.read() as connection:
        _, work = house.allocations.network_engine.read_work(connection, "node-1", 0)
    assert work is not None
    return [(one.protocol, one.port, one.gateway) for one in work.forwards]


@pytest.mark.parametrize("name", ["My_lb", "api.v1", "web"])
def test_a_forward_leads_to_a_balancer_of_any_name(
    house: NetworkHouse, forwards: PortForwardService, name: str
) -> None:
    open_ports(house, "30000-30001")
    house.submit(name="serve", network="lab")
    body = LoadBalancerIn(name=name, port=80, target_port=8000, backends=["serve"])
    house.allocations.load_balancers.create_balancer(house.admin, "lab", body)
    to_balancer = PortForwardIn(target=name, target_port=80)
    forwards.create_forward(house.admin, "lab", to_balancer)
    with house.store.read() as connection:
        (network,) = read_networks(connection).values()
    (row,) = [row for row in compile_network(network) if row.key.startswith("forward/")]
    assert row.columns["vips"] == {"198.18.0.3:30000": "10.0.0.2:8000"}


def test_a_forward_gets_a_free_port_and_its_agent_learns_of_it(
    house: NetworkHouse, forwards: PortForwardService
) -> None:
    open_ports(house, "30000-30001")
    made = [forwards.create_forward(house.admin, "lab", WEB) for _ in range(2)]
    assert [(one.port, one.target) for one in made] == [(30000, "web-1"), (30001, "web-1")]
    assert list_work(house) == [("tcp", 30000, "198.18.0.3"), ("tcp", 30001, "198.18.0.3")]
    with pytest.raises(TooManyNetworks, match="all 2 ports 30000-30001 are taken"):
        forwards.create_forward(house.admin, "lab", WEB)
    udp = WEB.model_copy(update={"protocol": "udp"})
    assert forwards.create_forward(house.admin, "lab", udp).port == 30000
    forwards.delete_forward(house.admin, "lab", made[0].id)
    assert list_work(house) == [("tcp", 30001, "198.18.0.3"), ("udp", 30000, "198.18.0.3")]
    assert forwards.create_forward(house.admin, "lab", WEB).port == 30000


def test_open_ports_outlive_an_engine_that_is_disabled(
    house: NetworkHouse, forwards: PortForwardService
) -> None:
    engine = house.allocations.network_engine
    open_ports(house, "30000-30009")
    made = forwards.create_forward(house.admin, "lab", WEB)
    engine.disable()
    house.tell_engine("stopped")
    assert (engine.get_state().state, engine.get_state().forward_ports) == ("off", "")
    assert engine.enable().forward_ports == "30000-30009"
    house.tell_engine("ready", northbound="unix:/nowhere", uplink=UPLINK)
    assert list_work(house) == [("tcp", made.port, "198.18.0.3")]


def test_what_is_refused_says_why(house: NetworkHouse, forwards: PortForwardService) -> None:
    engine = house.allocations.network_engine
    with pytest.raises(WrongState, match="lab has no gateway"):
        forwards.create_forward(house.admin, "lab", WEB)
    house.allocations.networks.create_gateway(house.admin, "lab")
    with pytest.raises(WrongState, match="no port of the pool's machine is for tenants"):
        forwards.create_forward(house.admin, "lab", WEB)
    for ports in ("80-90", "30000-29999", "60000-70000"):
        with pytest.raises(BadAddress, match="is no range of ports from 1024"):
            engine.enable(NetworkEngineIn(forward_ports=ports))
    open_ports(house, "30000-30009")
    with pytest.raises(WrongState, match="port 22 is not for tenants; 30000-30009 are"):
        forwards.create_forward(house.admin, "lab", WEB.model_copy(update={"port": 22}))
    taken = WEB.model_copy(update={"port": 30005})
    made = forwards.create_forward(house.admin, "lab", taken)
    with pytest.raises(NameTaken, match="port 30005 is taken"):
        forwards.create_forward(house.admin, "lab", taken)
    with pytest.raises(StillInUse, match="through the gateway of lab: 30005"):
        house.allocations.networks.delete_gateway(house.admin, "lab")
    with pytest.raises(StillInUse, match="closed are forwarded: 30005"):
        engine.enable(NetworkEngineIn(forward_ports="30000-30004"))
    assert engine.enable().forward_ports == "30000-30009"
    forwards.delete_forward(house.admin, "lab", made.id)
    with pytest.raises(UnknownNetwork, match="no port forward"):
        forwards.delete_forward(house.admin, "lab", made.id)
    assert engine.enable(NetworkEngineIn(forward_ports="")).forward_ports == ""
