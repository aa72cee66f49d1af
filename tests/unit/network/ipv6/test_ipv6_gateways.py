"""Gateways carry IPv6 where an admin wants it: what their machine, their jobs and people learn."""

from __future__ import annotations

import pytest

from gpupool.network.reading import read_networks
from gpupool.wire.network.engine import NetworkEngineWork
from gpupool.wire.network.firewall import FirewallRuleIn
from gpupool.wire.network.networks import NetworkEngineIn, NetworkIn, SubnetIn
from gpupool.wire.network.port_forwards import PortForwardIn
from tests.unit.network.conftest import NetworkHouse

CIDR6 = "fd12:3456:789a::/64"
UPLINK = "198.18.0.0/16"
#: Of the gateway of the first network of the pool, on that uplink.
ADDRESS6 = "fd67:7075:706f:c612::3"


@pytest.fixture(autouse=True)
def networks(house: NetworkHouse) -> None:
    """A network with IPv6 and one without, both with a gateway."""
    house.enable()
    house.allocations.network_engine.enable(NetworkEngineIn(forward_ports="30000-30009"))
    for name, cidr6 in (("six", CIDR6), ("plain", None)):
        body = NetworkIn(name=name, subnets=[SubnetIn(cidr="10.0.0.0/24", cidr6=cidr6)])
        house.allocations.networks.create_network(house.admin, body)
        house.allocations.networks.create_gateway(house.admin, name)
        forward = PortForwardIn(target="web", target_port=80)
        house.allocations.port_forwards.create_forward(house.admin, name, forward)
    house.tell_engine("ready", northbound="unix:/nowhere", uplink=UPLINK)


def carry_ipv6(house: NetworkHouse, wanted: bool) -> None:
    house.allocations.network_engine.enable(NetworkEngineIn(gateway_ipv6=wanted))


def read_work(house: NetworkHouse, after: int = 0) -> tuple[int, NetworkEngineWork | None]:
    with house.store.read() as connection:
        return house.allocations.network_engine.read_work(connection, "node-1", after)


def show_gateway(house: NetworkHouse, name: str) -> str | None:
    gateway = house.allocations.networks.get_network(house.admin, name).gateway
    assert gateway is not None
    return gateway.address6


def test_gateways_carry_ipv4_alone_until_an_admin_wants_more(house: NetworkHouse) -> None:
    cursor, before = read_work(house)
    assert before is not None
    assert (before.uplink, before.uplink6) == (True, False)
    assert [one.gateway6 for one in before.forwards] == [None, None]
    assert show_gateway(house, "six") is None
    carry_ipv6(house, True)
    _, work = read_work(house, cursor)
    assert work is not None
    assert work.uplink6
    assert [one.gateway6 for one in work.forwards] == [ADDRESS6, None]
    assert (show_gateway(house, "six"), show_gateway(house, "plain")) == (ADDRESS6, None)
    carry_ipv6(house, False)
    _, work = read_work(house, cursor)
    assert work == before


def test_the_wish_outlives_an_engine_that_is_disabled(house: NetworkHouse) -> None:
    engine = house.allocations.network_engine
    carry_ipv6(house, True)
    assert engine.get_state().gateway_ipv6
    engine.disable()
    house.tell_engine("stopped")
    assert engine.enable().gateway_ipv6
    # What is null stays as it is.
    assert engine.enable(NetworkEngineIn(forward_ports="30000-30019")).gateway_ipv6


def test_jobs_get_a_route_outside_with_the_gateway(house: NetworkHouse) -> None:
    carry_ipv6(house, True)
    for network in ("six", "plain"):
        house.submit(100, 1, name=network, network=network)
    found = [one.network.has_outside6 for one in house.work() if one.network is not None]
    assert found == [True, False]


def test_the_machine_learns_of_a_network_that_gets_ipv6_later(house: NetworkHouse) -> None:
    carry_ipv6(house, True)
    networks = house.allocations.networks
    networks.create_subnet(
        house.admin, "plain", SubnetIn(name="later", cidr="10.1.0.0/24", cidr6="auto")
    )
    cursor, work = read_work(house)
    assert work is not None
    assert None not in [one.gateway6 for one in work.forwards]
    networks.delete_subnet(house.admin, "plain", "later")
    _, work = read_work(house, cursor)
    assert work is not None
    assert [one.gateway6 for one in work.forwards] == [ADDRESS6, None]


def test_what_is_compiled_has_the_address_that_is_shown(house: NetworkHouse) -> None:
    carry_ipv6(house, True)
    with house.store.read() as connection:
        found = {one.name: one.gateway for one in read_networks(connection).values()}
    six = found["six"]
    plain = found["plain"]
    assert six is not None
    assert plain is not None
    assert (str(six.address6), str(plain.address6)) == (ADDRESS6, "None")


def test_a_rule_about_ipv6_names_the_ipv6_address_of_a_gateway(house: NetworkHouse) -> None:
    carry_ipv6(house, True)
    for prefix in ("2001:db8::/32", "192.0.2.0/24"):
        body = FirewallRuleIn(action="deny", prefix=prefix, network="six")
        house.allocations.firewall.create_rule(house.admin, body)
    _, work = read_work(house)
    assert work is not None
    assert [(one.prefix, one.gateway) for one in work.firewall] == [
        ("2001:db8::/32", ADDRESS6),
        ("192.0.2.0/24", "198.18.0.3"),
    ]
