"""Load balancers of a network: what is behind them, refusals, and the address of their probes."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadAddress, NameTaken, SubnetFull, TooManyNetworks, UnknownNetwork
from gpupool.model.tenant import Principal, UserRole
from gpupool.network.balancing import service
from gpupool.tenancy.tenants import insert_tenant
from gpupool.wire.network.load_balancers import LoadBalancerIn
from tests.unit.network.conftest import NetworkHouse

WEB = LoadBalancerIn(name="web", port=80, target_port=8000, backends=["Serve.1", "web"])


@pytest.fixture
def balancers(house: NetworkHouse) -> service.LoadBalancerService:
    house.create_network("lab", "10.0.0.0/28")
    house.enable()
    return house.allocations.load_balancers


def test_jobs_are_behind_it_while_they_run(
    house: NetworkHouse, balancers: service.LoadBalancerService
) -> None:
    made = balancers.create_balancer(house.admin, "lab", WEB)
    assert (made.address, made.backends, made.members) == ("100.126.0.2", ["serve-1", "web"], [])
    house.submit(name="serve.1", network="lab")
    house.submit(name="other", network="lab")
    ((member,),) = [one.members for one in balancers.list_balancers(house.admin, "lab")]
    assert (member.dns_name, member.address) == ("serve-1", "10.0.0.2")
    house.finish("serve.1")
    assert balancers.list_balancers(house.admin, "lab")[0].members == []
    balancers.delete_balancer(house.admin, "lab", "web")
    assert balancers.list_balancers(house.admin, "lab") == []


def test_probes_have_an_address_that_no_job_gets(
    house: NetworkHouse, balancers: service.LoadBalancerService
) -> None:
    networks = house.allocations.networks
    assert networks.get_network(house.admin, "lab").subnets[0].free == 13
    balancers.create_balancer(house.admin, "lab", WEB)
    assert networks.get_network(house.admin, "lab").subnets[0].free == 12
    for _ in range(12):
        house.submit(10, 1, network="lab")
    ports = networks.get_network(house.admin, "lab").ports
    assert len({port.address for port in ports}) == 12
    assert "10.0.0.14" not in {port.address for port in ports}
    with pytest.raises(SubnetFull):
        house.submit(10, 1, network="lab")


def test_a_subnet_without_an_address_for_probes_refuses_checks(
    house: NetworkHouse, balancers: service.LoadBalancerService
) -> None:
    for _ in range(13):
        house.submit(10, 1, network="lab")
    with pytest.raises(SubnetFull):
        balancers.create_balancer(house.admin, "lab", WEB)
    unchecked = WEB.model_copy(update={"is_checked": False})
    assert balancers.create_balancer(house.admin, "lab", unchecked).is_checked is False


def test_what_is_refused_says_why(
    house: NetworkHouse,
    balancers: service.LoadBalancerService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    balancers.create_balancer(house.admin, "lab", WEB)
    # Both have the DNS name `web`.
    with pytest.raises(NameTaken, match="already has a load balancer 'web'"):
        balancers.create_balancer(house.admin, "lab", WEB.model_copy(update={"name": "Web"}))
    with pytest.raises(NameTaken, match="already has a load balancer 'web'"):
        balancers.create_balancer(house.admin, "lab", WEB)
    monkeypatch.setattr(service, "MOST_BALANCERS", 1)
    with pytest.raises(TooManyNetworks, match="1 load balancers; 1 is the most"):
        balancers.create_balancer(house.admin, "lab", WEB.model_copy(update={"name": "b"}))
    with pytest.raises(UnknownNetwork, match="no load balancer 'none'"):
        balancers.delete_balancer(house.admin, "lab", "none")
    with pytest.raises(BadAddress, match="which is for load balancers"):
        house.create_network("other", "100.126.4.0/24")
    with house.store.write() as write:
        tenant = insert_tenant(write, "red")
    stranger = Principal(2, "ann", tenant, "red", UserRole.TENANT_ADMIN)
    with pytest.raises(UnknownNetwork, match="no network 'lab'"):
        balancers.list_balancers(stranger, "lab")


def test_a_network_is_deleted_with_its_balancers(
    house: NetworkHouse, balancers: service.LoadBalancerService
) -> None:
    balancers.create_balancer(house.admin, "lab", WEB)
    house.allocations.networks.delete_network(house.admin, "lab")
    house.create_network("lab", "10.0.0.0/28")
    assert balancers.list_balancers(house.admin, "lab") == []
