"""Load balancers of HTTP: their work for the agent, drains, certificates, and what is refused."""

from __future__ import annotations

import subprocess

import pytest

from gpupool.base.errors import (
    BadInput,
    NetworkingUnavailable,
    StillInUse,
    TooManyNetworks,
    UnknownNetwork,
    WrongState,
)
from gpupool.network.balancing import proxies
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.network.engine import NetworkEngineReport
from gpupool.wire.network.load_balancers import (
    CertificateIn,
    DrainIn,
    HttpRouteIn,
    HttpSettingsIn,
    LoadBalancerIn,
    LoadBalancerOut,
)
from gpupool.wire.network.networks import ProxyReport, ProxyServerReport, ProxyWork
from tests.unit.network.conftest import NetworkHouse

ROUTE = HttpRouteIn(host="API.example.com", path="/v1", backends=["api"], target_port=9000)


def make_body(
    name: str = "web", backends: tuple[str, ...] = ("serve",), **http: object
) -> LoadBalancerIn:
    settings = HttpSettingsIn.model_validate(http)
    return LoadBalancerIn(
        name=name, port=80, target_port=8000, backends=list(backends), http=settings
    )


def create(house: NetworkHouse, body: LoadBalancerIn) -> LoadBalancerOut:
    return house.allocations.load_balancers.create_balancer(house.admin, "lab", body)


def read_work(house: NetworkHouse) -> list[ProxyWork]:
    page = house.allocations.agents.read_work("node-1", 0)
    assert page.network is not None
    return page.network.proxies


@pytest.fixture
def pool(house: NetworkHouse) -> NetworkHouse:
    house.create_network("lab", "10.0.0.0/28")
    house.enable()
    return house


@pytest.fixture(scope="module")
def pem(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("pem")
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=x "
        f"-keyout {folder}/key -out {folder}/chain"
    )
    subprocess.run(command.split(), check=True, capture_output=True)
    return (folder / "chain").read_text() + (folder / "key").read_text()


def test_the_agent_learns_of_jobs_as_they_come_and_go(pool: NetworkHouse) -> None:
    made = create(pool, make_body(routes=[ROUTE]))
    assert made.http is not None
    assert (made.address, made.http.address, made.is_checked) == ("100.126.0.2", "10.0.0.2", False)
    (work,) = read_work(pool)
    assert [(one.host, one.path, one.servers) for one in work.routes] == [
        ("api.example.com", "/v1", []),
        (None, "/", []),
    ]
    cursor = pool.allocations.agents.read_work("node-1", 0).cursor
    pool.submit(name="serve", network="lab")
    page = pool.allocations.agents.read_work("node-1", cursor)
    assert page.network is not None
    (server,) = page.network.proxies[0].routes[1].servers
    assert (server.address, server.port, server.is_draining) == ("10.0.0.3", 8000, False)
    pool.finish("serve")
    assert read_work(pool)[0].routes[1].servers == []
    pool.allocations.load_balancers.delete_balancer(pool.admin, "lab", "web")
    assert read_work(pool) == []


def test_its_proxy_has_an_address_that_no_job_gets(pool: NetworkHouse) -> None:
    networks = pool.allocations.networks
    create(pool, make_body())
    assert networks.get_network(pool.admin, "lab").subnets[0].free == 12
    for _ in range(12):
        pool.submit(10, 1, network="lab")
    used = {port.address for port in networks.get_network(pool.admin, "lab").ports}
    assert len(used) == 12
    assert "10.0.0.2" not in used


def test_a_subnet_with_a_proxy_stays(pool: NetworkHouse) -> None:
    from gpupool.wire.network.networks import SubnetIn

    networks = pool.allocations.networks
    networks.create_subnet(pool.admin, "lab", SubnetIn(name="more", cidr="10.0.1.0/28"))
    create(pool, make_body())
    with pytest.raises(StillInUse, match="load balancers have their proxies in subnet s0: web"):
        networks.delete_subnet(pool.admin, "lab", "s0")
    networks.delete_network(pool.admin, "lab")


def test_members_have_the_state_that_the_agent_reports(pool: NetworkHouse) -> None:
    create(pool, make_body())
    pool.submit(name="serve", network="lab")
    service = pool.allocations.http_balancers
    shown = service.get_balancer(pool.admin, "lab", "web").http
    assert shown is not None
    assert (shown.state, shown.members[0].state) == ("starting", "unknown")
    (work,) = read_work(pool)
    server = ProxyServerReport(
        id=work.routes[0].servers[0].id, state="up", check="L7OK 200", sessions=2, requests=7
    )
    report = ProxyReport(id=work.port.id, state="ready", servers=[server])
    engine = NetworkEngineReport(state="ready", northbound="unix:/nowhere", proxies=[report])
    pool.allocations.agents.apply_reports("node-1", ReportsIn(network=engine))
    shown = service.get_balancer(pool.admin, "lab", "web").http
    assert shown is not None
    (member,) = shown.members
    assert (shown.state, member.state, member.check) == ("ready", "up", "L7OK 200")
    assert (member.sessions, member.requests) == (2, 7)


def test_a_drain_is_of_the_jobs_that_run_and_not_of_a_later_one(pool: NetworkHouse) -> None:
    create(pool, make_body())
    service = pool.allocations.http_balancers
    with pytest.raises(UnknownNetwork, match="no job 'serve' serves behind load balancer web"):
        service.drain(pool.admin, "lab", "web", DrainIn(job="serve"))
    pool.submit(name="serve", network="lab")
    drained = service.drain(pool.admin, "lab", "web", DrainIn(job="serve"))
    assert drained.http is not None
    assert drained.http.members[0].state == "draining"
    assert read_work(pool)[0].routes[0].servers[0].is_draining
    service.end_drain(pool.admin, "lab", "web", "serve")
    assert not read_work(pool)[0].routes[0].servers[0].is_draining
    service.drain(pool.admin, "lab", "web", DrainIn(job="serve"))
    pool.finish("serve")
    pool.submit(name="serve", network="lab")
    assert not read_work(pool)[0].routes[0].servers[0].is_draining


def test_a_certificate_is_checked_and_never_shown(pool: NetworkHouse, pem: str) -> None:
    made = create(pool, make_body(certificate=pem, redirects=True))
    assert made.http is not None
    assert (made.http.https_port, made.http.certificate_end_ns is not None) == (443, True)
    assert "PRIVATE" not in made.model_dump_json()
    assert read_work(pool)[0].certificate == pem
    assert "PRIVATE" not in repr(read_work(pool))
    service = pool.allocations.http_balancers
    chain = pem.partition("-----BEGIN PRIVATE")[0]
    for text, reason in (("x", "not PEM"), (chain, "private key is missing"), ("ä", "not PEM")):
        with pytest.raises(BadInput, match=reason) as refused:
            service.set_certificate(pool.admin, "lab", "web", CertificateIn(certificate=text))
        assert "PRIVATE" not in str(refused.value)
    assert read_work(pool)[0].certificate == pem
    create(pool, make_body("plain"))
    with pytest.raises(WrongState, match="has no HTTPS"):
        service.set_certificate(pool.admin, "lab", "plain", CertificateIn(certificate=pem))


def test_what_is_refused_leaves_nothing(
    pool: NetworkHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    for body, reason in (
        (make_body(backends=()), "needs a backend"),
        (make_body(redirects=True), "without a certificate"),
        (make_body(check_path="x"), "not a path"),
        (make_body(routes=[ROUTE, ROUTE]), "two routes of api.example.com/v1"),
        (make_body(routes=[ROUTE.model_copy(update={"host": "a b"})]), "not a host"),
    ):
        with pytest.raises(BadInput, match=reason):
            create(pool, body)
    assert read_work(pool) == []
    lacking = NetworkEngineReport(
        state="ready", northbound="unix:/nowhere", missing_proxy="haproxy"
    )
    pool.allocations.agents.apply_reports("node-1", ReportsIn(network=lacking))
    with pytest.raises(NetworkingUnavailable, match="has no haproxy") as refused:
        create(pool, make_body())
    assert "apt-get install" in str(refused.value.hint)
    assert pool.allocations.networks.get_network(pool.admin, "lab").subnets[0].free == 13
    pool.tell_engine("ready", northbound="unix:/nowhere")
    monkeypatch.setattr(proxies, "MOST_PROXIES", 1)
    create(pool, make_body())
    with pytest.raises(TooManyNetworks, match="1 load balancers of HTTP; 1 is the most"):
        create(pool, make_body("more"))
