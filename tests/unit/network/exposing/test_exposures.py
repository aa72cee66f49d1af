"""Exposures: one call publishes, the same once more changes nothing, and the job's end removes all."""

from __future__ import annotations

import pytest

from gpupool.base.errors import (
    BadInput,
    NameTaken,
    NoPermission,
    NotFound,
    StillInUse,
    UnknownNetwork,
    WrongState,
)
from gpupool.model.tenant import Principal, UserRole
from gpupool.tenancy.tenants import insert_tenant
from gpupool.wire.network.load_balancers import ExposureIn
from gpupool.wire.network.networks import NetworkEngineIn, ProxyRouteWork
from tests.unit.network.conftest import NetworkHouse

HTTP = ExposureIn(port=8000, is_http=True)


@pytest.fixture
def pool(house: NetworkHouse) -> NetworkHouse:
    house.create_network("lab", "10.0.0.0/28")
    house.enable()
    house.submit(name="serve.1", network="lab")
    return house


def list_balancers(pool: NetworkHouse) -> list[str]:
    found = pool.allocations.load_balancers.list_balancers(pool.admin, "lab")
    return [one.name for one in found]


def read_routes(pool: NetworkHouse) -> list[ProxyRouteWork]:
    page = pool.allocations.agents.read_work("node-1", 0)
    assert page.network is not None
    return page.network.proxies[0].routes


def test_a_job_is_published_once_and_no_more_when_it_ends(pool: NetworkHouse) -> None:
    service = pool.allocations.exposures
    made = service.expose("serve.1", HTTP, pool.admin)
    assert made.load_balancer.name == "serve-1-8000"
    assert (made.network, made.machine_port) == ("lab", None)
    assert "network enable --forward-ports" in made.inside_reason
    assert [one.address for one in made.load_balancer.members] == ["10.0.0.2"]
    again = service.expose("serve.1", HTTP, pool.admin)
    assert again.load_balancer.id == made.load_balancer.id
    with pytest.raises(StillInUse, match=r"port 8000 of job .* is exposed already"):
        service.expose("serve.1", ExposureIn(port=8000), pool.admin)
    plain = service.expose("serve.1", ExposureIn(port=22, name="ssh"), pool.admin)
    assert (plain.load_balancer.port, plain.load_balancer.http) == (22, None)
    assert [one.port for one in service.list_exposures("serve.1", pool.admin)] == [22, 8000]
    pool.finish("serve.1")
    assert list_balancers(pool) == []
    assert service.list_exposures("serve.1", pool.admin) == []


def test_a_host_is_the_only_one_that_is_answered(pool: NetworkHouse) -> None:
    body = ExposureIn(port=8000, is_http=True, host="API.example.com")
    pool.allocations.exposures.expose("serve.1", body, pool.admin)
    (route,) = read_routes(pool)
    assert (route.host, route.path) == ("api.example.com", "/")
    assert [one.address for one in route.servers] == ["10.0.0.2"]
    pool.allocations.exposures.expose("serve.1", body, pool.admin)


def test_a_balancer_that_is_deleted_takes_its_port_of_the_machine_along(
    pool: NetworkHouse,
) -> None:
    allocations = pool.allocations
    allocations.network_engine.enable(NetworkEngineIn(forward_ports="30000-30000"))
    allocations.networks.create_gateway(pool.admin, "lab")
    made = allocations.exposures.expose("serve.1", ExposureIn(port=8000), pool.admin)
    assert made.machine_port == 30000
    allocations.load_balancers.delete_balancer(pool.admin, "lab", made.load_balancer.name)
    assert allocations.exposures.list_exposures("serve.1", pool.admin) == []
    # Whatever has this name next is not published by it.
    assert allocations.port_forwards.list_forwards(pool.admin, "lab") == []


def test_open_ports_and_a_gateway_lead_outside_and_end_too(pool: NetworkHouse) -> None:
    allocations = pool.allocations
    allocations.network_engine.enable(NetworkEngineIn(forward_ports="30000-30000"))
    service = allocations.exposures
    inside = service.expose("serve.1", HTTP, pool.admin)
    assert "gateway-create lab" in inside.inside_reason
    service.unexpose("serve.1", "8000", pool.admin)
    allocations.networks.create_gateway(pool.admin, "lab")
    made = service.expose("serve.1", HTTP, pool.admin)
    assert (made.machine_port, made.inside_reason) == (30000, "")
    full = service.expose("serve.1", ExposureIn(port=9000), pool.admin)
    assert (full.machine_port, "was taken" in full.inside_reason) == (None, True)
    (forward,) = allocations.port_forwards.list_forwards(pool.admin, "lab")
    assert (forward.port, forward.target, forward.target_port) == (30000, "serve-1-8000", 80)
    service.unexpose("serve.1", "8000", pool.admin)
    assert allocations.port_forwards.list_forwards(pool.admin, "lab") == []
    assert list_balancers(pool) == ["serve-1-9000"]


def test_a_deleted_balancer_is_exposed_no_more(pool: NetworkHouse) -> None:
    service = pool.allocations.exposures
    service.expose("serve.1", HTTP, pool.admin)
    pool.allocations.load_balancers.delete_balancer(pool.admin, "lab", "serve-1-8000")
    assert service.list_exposures("serve.1", pool.admin) == []
    service.expose("serve.1", HTTP, pool.admin)
    pool.finish("serve.1")
    pool.allocations.networks.delete_network(pool.admin, "lab")


def test_what_is_refused_says_why_and_leaves_nothing(pool: NetworkHouse) -> None:
    service = pool.allocations.exposures
    pool.submit(name="bare")
    for job, body, error, reason in (
        ("bare", HTTP, WrongState, "is in no network"),
        ("serve.1", ExposureIn(port=1, host="a.example"), BadInput, "a host is for HTTP"),
        ("serve.1", ExposureIn(port=1, is_http=True, host="a b"), BadInput, "not a host"),
        ("none", HTTP, NotFound, "none"),
    ):
        with pytest.raises(error, match=reason):
            service.expose(job, body, pool.admin)
    service.expose("serve.1", ExposureIn(port=1, name="web"), pool.admin)
    with pytest.raises(NameTaken, match="already has a load balancer 'web'"):
        service.expose("serve.1", ExposureIn(port=2, name="web"), pool.admin)
    assert list_balancers(pool) == ["web"]
    for port in ("2", "x"):
        with pytest.raises(UnknownNetwork, match=f"port {port} of job .* is not exposed"):
            service.unexpose("serve.1", port, pool.admin)
    pool.finish("serve.1")
    with pytest.raises(WrongState, match="does not run"):
        service.expose("serve.1", HTTP, pool.admin)


def test_other_users_and_other_tenants_publish_nothing(pool: NetworkHouse) -> None:
    service = pool.allocations.exposures
    colleague = Principal(99, "bo", pool.admin.tenant_id, pool.admin.tenant, UserRole.USER)
    with pytest.raises(NoPermission):
        service.expose("serve.1", HTTP, colleague)
    with pool.store.write() as write:
        tenant = insert_tenant(write, "red")
    stranger = Principal(2, "ann", tenant, "red", UserRole.TENANT_ADMIN)
    with pytest.raises(NotFound):
        service.expose("serve.1", HTTP, stranger)
    assert list_balancers(pool) == []


def test_jobs_whose_long_names_begin_alike_are_both_published(pool: NetworkHouse) -> None:
    begin = "n" * 55
    made = list[str]()
    for name in (f"{begin}-a", f"{begin}-b"):
        pool.submit(name=name, network="lab")
        out = pool.allocations.exposures.expose(name, ExposureIn(port=8000), pool.admin)
        made.append(out.load_balancer.name)
    assert len(set(made)) == 2
    assert all(len(name) <= 63 for name in made)
