"""Networks of tenants: who sees and changes them, and what is refused."""

from __future__ import annotations

import pytest

from gpupool.base.errors import (
    BadAddress,
    NameTaken,
    NetworkingUnavailable,
    OverlappingSubnets,
    StillInUse,
    SubnetFull,
    TooManyNetworks,
    UnknownNetwork,
    UnknownTenant,
)
from gpupool.model.tenant import Principal, UserRole
from gpupool.network.service import MOST_NETWORKS
from gpupool.tenancy.tenants import insert_tenant
from gpupool.wire.network.networks import NetworkIn, SubnetIn
from tests.unit.network.conftest import NetworkHouse


@pytest.fixture
def stranger(house: NetworkHouse) -> Principal:
    with house.store.write() as write:
        tenant = insert_tenant(write, "lab")
    return Principal(2, "ann", tenant, "lab", UserRole.TENANT_ADMIN)


def test_a_network_of_another_tenant_is_answered_as_one_that_does_not_exist(
    house: NetworkHouse, stranger: Principal
) -> None:
    made = house.create_network("a", "10.0.0.0/24")
    networks = house.allocations.networks
    for name in ("a", made.id, "never-was"):
        with pytest.raises(UnknownNetwork, match="no network"):
            networks.get_network(stranger, name)
        with pytest.raises(UnknownNetwork):
            networks.delete_network(stranger, name)
    with pytest.raises(UnknownTenant):
        networks.get_network(stranger, "a", tenant="default")
    assert networks.list_networks(stranger, None, 100).items == []
    assert [one.name for one in networks.list_networks(house.admin, None, 100).items] == ["a"]


def test_two_tenants_may_have_the_same_name_and_addresses(
    house: NetworkHouse, stranger: Principal
) -> None:
    house.create_network("a", "10.0.0.0/24")
    body = NetworkIn(name="a", subnets=[SubnetIn(cidr="10.0.0.0/24")])
    made = house.allocations.networks.create_network(stranger, body)
    assert made.tenant == "lab"


def test_a_refused_network_leaves_nothing(house: NetworkHouse) -> None:
    with pytest.raises(OverlappingSubnets):
        house.create_network("a", "10.0.0.0/24", "10.0.0.128/25")
    with pytest.raises(BadAddress):
        house.create_network("a", "10.0.0.0/24", "10.0.0.0/8")
    house.create_network("a", "10.0.0.0/24")
    with pytest.raises(NameTaken):
        house.create_network("a", "10.0.1.0/24")


def test_a_tenant_has_so_many_networks_at_most(house: NetworkHouse) -> None:
    for number in range(MOST_NETWORKS):
        house.create_network(f"n{number}", "10.0.0.0/24")
    with pytest.raises(TooManyNetworks) as caught:
        house.create_network("more", "10.0.0.0/24")
    assert caught.value.details["limit"] == MOST_NETWORKS


def test_a_subnet_in_use_or_needed_by_waiting_jobs_is_not_deleted(house: NetworkHouse) -> None:
    house.enable()
    house.create_network("a", "10.0.0.0/28", "10.0.1.0/28")
    for number in range(14):
        house.submit(100, 1, name=f"j{number}", network="a")
    networks = house.allocations.networks
    for subnet in ("s0", "s1"):
        with pytest.raises(StillInUse):
            networks.delete_subnet(house.admin, "a", subnet)
    with pytest.raises(StillInUse, match="14 jobs in network a"):
        networks.delete_network(house.admin, "a")
    for number in range(14):
        house.finish(f"j{number}")
    networks.delete_subnet(house.admin, "a", "s0")
    with pytest.raises(StillInUse, match="only subnet"):
        networks.delete_subnet(house.admin, "a", "s1")
    networks.delete_network(house.admin, "a")
    assert house.job("j0").network is None


def test_a_network_takes_no_more_jobs_than_it_has_addresses(house: NetworkHouse) -> None:
    house.enable()
    house.create_network("a", "10.0.0.0/28")
    house.submit(100, 1, network="a", array=12)
    house.submit(100, 1, network="a")
    with pytest.raises(SubnetFull) as caught:
        house.submit(100, 1, network="a")
    assert caught.value.details == {"addresses": 13, "jobs": 13}


def test_a_gateway_asks_the_engine_for_an_uplink_and_is_ready_with_it(house: NetworkHouse) -> None:
    house.create_network("a", "10.0.0.0/24")
    networks = house.allocations.networks
    with pytest.raises(NetworkingUnavailable):
        networks.create_gateway(house.admin, "a")
    house.enable()
    made = networks.create_gateway(house.admin, "a")
    assert made.gateway is not None
    assert (made.gateway.state, made.gateway.address) == ("starting", None)
    work = house.allocations.agents.read_work("node-1", 0).network
    assert work is not None
    assert work.uplink
    house.tell_engine("ready", northbound="unix:/nowhere", uplink="198.18.0.0/16")
    ready = networks.create_gateway(house.admin, "a").gateway
    assert ready is not None
    assert (ready.state, ready.address) == ("ready", "198.18.0.3")
    networks.delete_network(house.admin, "a")
    work = house.allocations.agents.read_work("node-1", 0).network
    assert work is not None
    assert not work.uplink


def test_a_tenant_with_a_network_is_not_deleted(house: NetworkHouse) -> None:
    house.tenancy.tenants.create(house.admin, "acme", None)
    subnets = [SubnetIn(name="default", cidr="10.0.0.0/24")]
    body = NetworkIn(name="lab", subnets=subnets, tenant="acme")
    house.allocations.networks.create_network(house.admin, body)
    with pytest.raises(StillInUse, match="tenant acme still has 1 network"):
        house.tenancy.tenants.delete(house.admin, "acme")
    house.allocations.networks.delete_network(house.admin, "lab", "acme")
    house.tenancy.tenants.delete(house.admin, "acme")
