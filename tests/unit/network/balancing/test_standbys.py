"""Second proxies: given with a pair of gateways, taken back with it, each machine its own work."""

from __future__ import annotations

import pytest

from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.balancing.proxy_states import ProxyStates, describe_machines, find_serving
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.network.engine import NetworkEngineReport
from gpupool.wire.network.gateways import GatewayPairIn
from gpupool.wire.network.load_balancers import (
    HttpBalancerOut,
    HttpSettingsIn,
    LoadBalancerIn,
)
from gpupool.wire.network.networks import ProxyReport, ProxyServerReport, ProxyWork
from tests.unit.network.conftest import NetworkHouse

PAIR = GatewayPairIn(nodes=["node-2", "node-3"], address="203.0.113.10")


def report(house: NetworkHouse, agent: str, **more: object) -> None:
    body = {"state": "ready", "tunnel": f"10.9.0.{agent[-1]}", "mtu": 1442, **more}
    parsed = NetworkEngineReport.model_validate(body)
    house.allocations.agents.apply_reports(agent, ReportsIn(network=parsed))


def read_work(house: NetworkHouse, agent: str) -> list[ProxyWork]:
    work = house.allocations.agents.read_work(agent, 0).network
    assert work is not None
    return work.proxies


def show(house: NetworkHouse) -> HttpBalancerOut:
    found = house.allocations.http_balancers.get_balancer(house.admin, "lab", "web").http
    assert found is not None
    return found


def create(house: NetworkHouse, name: str = "web") -> None:
    body = LoadBalancerIn(
        name=name, port=80, target_port=8000, backends=["serve"], http=HttpSettingsIn()
    )
    house.allocations.load_balancers.create_balancer(house.admin, "lab", body)


@pytest.fixture
def pool(house: NetworkHouse) -> NetworkHouse:
    pytest.importorskip("cryptography")
    for number in (2, 3):
        house.register(2, f"node-{number}")
    house.allocations.network_engine.enable()
    house.allocations.placer.load()
    centre = {"northbound_tls": "ssl:10.9.0.1:6641", "southbound": "ssl:10.9.0.1:6642"}
    report(house, "node-1", northbound="unix:/nowhere", **centre)
    for number in (2, 3):
        report(house, f"node-{number}")
    house.create_network("lab", "10.0.0.0/28")
    return house


def test_a_pair_gets_one_proxy_for_each_machine_and_the_centre_none(pool: NetworkHouse) -> None:
    create(pool)
    (work,) = read_work(pool, "node-1")
    assert not work.is_paired
    pool.allocations.gateway_pairs.set_pair(PAIR)
    # One of before the pair, and one that comes later.
    create(pool, "more")
    assert read_work(pool, "node-1") == []
    first = read_work(pool, "node-2")
    second = read_work(pool, "node-3")
    assert [one.port.dns_name for one in first] == [one.port.dns_name for one in second]
    assert all(one.is_paired for one in (*first, *second))
    ports = [one.port for one in (*first, *second)]
    for name in ("id", "address", "mac"):
        assert len({getattr(port, name) for port in ports}) == 4
    used = pool.allocations.networks.get_network(pool.admin, "lab").subnets[0]
    assert used.free == 9
    pool.allocations.gateway_pairs.delete_pair()
    assert [one.port.id for one in read_work(pool, "node-1")] == [one.port.id for one in first]
    assert (read_work(pool, "node-2"), read_work(pool, "node-3")) == ([], [])
    assert pool.allocations.networks.get_network(pool.admin, "lab").subnets[0].free == 11


def test_a_full_subnet_leaves_a_load_balancer_on_the_first_machine(pool: NetworkHouse) -> None:
    create(pool)
    create(pool, "other")
    for _ in range(11):
        pool.submit(10, 1, network="lab")
    pool.allocations.gateway_pairs.set_pair(PAIR)
    assert [one.is_paired for one in read_work(pool, "node-2")] == [False, False]
    assert read_work(pool, "node-3") == []
    # The same again gives it one as soon as there is an address.
    pool.allocations.load_balancers.delete_balancer(pool.admin, "lab", "other")
    pool.allocations.gateway_pairs.set_pair(PAIR)
    (work,) = read_work(pool, "node-3")
    assert (work.is_paired, work.port.dns_name) == (True, "web")


def make_report(key: str, *, is_serving: bool, requests: int = 0) -> ProxyReport:
    server = ProxyServerReport(id="n-1", state="up", sessions=1, requests=requests)
    return ProxyReport(id=key, state="ready", servers=[server], is_serving=is_serving)


def test_a_second_proxy_takes_no_address_that_a_job_waits_for(pool: NetworkHouse) -> None:
    create(pool)
    for _ in range(12):
        # The first has all cards of its node, and the others wait.
        pool.submit(1000, None, count=8, network="lab")
    pool.allocations.gateway_pairs.set_pair(PAIR)
    assert [one.is_paired for one in read_work(pool, "node-2")] == [False]


def test_a_machine_that_is_gone_needs_no_haproxy() -> None:
    silent = set[str]()
    states = ProxyStates(lambda agent: agent in silent)
    states.replace("a", [], "haproxy")
    with pytest.raises(NetworkingUnavailable, match="a has no haproxy"):
        states.require_programs()
    silent.add("a")
    states.require_programs()


def test_the_later_of_two_that_say_so_serves() -> None:
    silent = set[str]()
    states = ProxyStates(lambda agent: agent in silent)
    states.replace("a", [make_report("h-1", is_serving=True)], "")
    states.replace("b", [make_report("h-2", is_serving=False)], "")
    found = [states.find("h-1"), states.find("h-2")]
    assert [(one.node, one.role, one.sessions) for one in describe_machines(found)] == [
        ("a", "serving", 1),
        ("b", "standby", 1),
    ]
    # The first machine dies, and has said that it serves.
    silent.add("a")
    states.replace("b", [make_report("h-2", is_serving=True)], "")
    found = [states.find("h-1"), states.find("h-2")]
    assert [(one.role, one.state, one.sessions) for one in describe_machines(found)] == [
        ("standby", "silent", 0),
        ("serving", "ready", 1),
    ]
    states.forget("b")
    serving = find_serving([states.find("h-1"), states.find("h-2")])
    assert serving is not None
    assert serving.node == "a"
    assert find_serving([None, None]) is None


def test_a_machine_without_haproxy_is_named(pool: NetworkHouse) -> None:
    pool.allocations.gateway_pairs.set_pair(PAIR)
    report(pool, "node-3", missing_proxy="haproxy")
    with pytest.raises(NetworkingUnavailable, match="node-3 has no haproxy"):
        create(pool)
    # What a machine without gateways lacks is not asked for.
    report(pool, "node-3")
    report(pool, "node-1", missing_proxy="haproxy", northbound="unix:/nowhere")
    create(pool)


def test_counts_are_those_of_both_machines(pool: NetworkHouse) -> None:
    pool.allocations.gateway_pairs.set_pair(PAIR)
    create(pool)
    job = pool.submit(name="serve", network="lab")
    assert job is not None
    (first,) = read_work(pool, "node-2")
    (second,) = read_work(pool, "node-3")
    port = first.routes[0].servers[0].id
    for agent, work, requests in (("node-2", first, 3), ("node-3", second, 4)):
        made = make_report(work.port.id, is_serving=agent == "node-3", requests=requests)
        servers = [made.servers[0].model_copy(update={"id": port})]
        body = made.model_copy(update={"servers": servers}).model_dump()
        report(pool, agent, proxies=[body])
    shown = show(pool)
    assert [(one.requests, one.sessions) for one in shown.members] == [(7, 2)]
    assert [(one.node, one.role) for one in shown.machines] == [
        ("node-2", "standby"),
        ("node-3", "serving"),
    ]


def test_a_move_is_an_event_of_the_tenant(pool: NetworkHouse) -> None:
    pool.allocations.gateway_pairs.set_pair(PAIR)
    create(pool)
    (first,) = read_work(pool, "node-2")
    (second,) = read_work(pool, "node-3")

    def tell(agent: str, work: ProxyWork, *, is_serving: bool) -> None:
        made = make_report(work.port.id, is_serving=is_serving)
        report(pool, agent, proxies=[made.model_dump()])

    def list_moves() -> list[str]:
        events = pool.allocations.events.read_events(pool.admin, 0, 1000)
        return [one.data["node"] for one in events if one.kind == "network.lb_moved"]

    tell("node-2", first, is_serving=True)
    tell("node-3", second, is_serving=False)
    assert list_moves() == []
    tell("node-3", second, is_serving=True)
    tell("node-3", second, is_serving=True)
    assert list_moves() == ["node-3"]
    tell("node-2", first, is_serving=False)
    tell("node-2", first, is_serving=True)
    assert list_moves() == ["node-3", "node-2"]
