"""Floating IPs are opened by an admin, given once, bound to a name, and led to the gateways' agent."""

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
from gpupool.network.floating.service import MOST_FLOATING_IPS, FloatingIpService
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.network.engine import NetworkEngineReport
from gpupool.wire.network.firewall import FirewallRuleIn
from gpupool.wire.network.floating_ips import FloatingIpIn, FloatingIpReport
from gpupool.wire.network.networks import NetworkEngineIn
from tests.unit.network.conftest import NetworkHouse

WEB = FloatingIpIn(target="web")
UPLINK = "198.18.0.0/16"


@pytest.fixture
def floating(house: NetworkHouse) -> FloatingIpService:
    """A network with a gateway, and no prefix open yet."""
    house.enable()
    house.create_network("lab", "10.0.0.0/24")
    house.allocations.networks.create_gateway(house.admin, "lab")
    house.tell_engine("ready", northbound="unix:/nowhere", uplink=UPLINK)
    return house.allocations.floating_ips


def open_prefix(house: NetworkHouse, prefix: str = "203.0.113.32/28") -> None:
    house.allocations.network_engine.enable(NetworkEngineIn(floating_ips=prefix))


def list_work(house: NetworkHouse) -> list[tuple[str, str]]:
    with house.store.read() as connection:
        _, work = house.allocations.network_engine.read_work(connection, "node-1", 0)
    assert work is not None
    return [(one.address, one.inner) for one in work.floating_ips]


def report(house: NetworkHouse, key: str, state: str) -> None:
    seen = [FloatingIpReport(id=key, state=state, reason=f"it is {state}")]
    more = {"northbound": "unix:/nowhere", "uplink": UPLINK}
    made = NetworkEngineReport(state="ready", floating_ips=seen, **more)
    house.allocations.agents.apply_reports("node-1", ReportsIn(network=made))


def test_an_address_is_the_jobs_of_a_name_one_after_the_other(
    house: NetworkHouse, floating: FloatingIpService
) -> None:
    open_prefix(house)
    made = floating.create_floating(house.admin, "lab", WEB)
    assert (made.address, made.state, made.job) == ("203.0.113.33", "starting", None)
    report(house, made.id, "down")
    # The machine is ready for it, and no job has it.
    assert floating.get_floating(house.admin, "lab", made.id).state == "waiting"
    assert list_work(house) == [("203.0.113.33", "198.18.128.1")]
    assert house.submit(name="web", network="lab").floating_ip == "203.0.113.33"
    report(house, made.id, "reachable")
    shown = floating.get_floating(house.admin, "lab", "203.0.113.33")
    assert (shown.job, shown.job_address, shown.state) == ("web", "10.0.0.2", "reachable")
    house.finish("web")
    assert floating.get_floating(house.admin, "lab", made.id).state == "waiting"
    assert house.job("web").floating_ip is None
    house.submit(name="other", network="lab")
    job = house.submit(name="web", network="lab")
    assert (job.address, job.floating_ip) == ("10.0.0.4", "203.0.113.33")
    # A second job of the DNS name has none: the first one has it.
    assert house.submit(name="Web", network="lab").floating_ip is None
    floating.delete_floating(house.admin, "lab", "203.0.113.33")
    assert list_work(house) == []
    assert floating.list_floating(house.admin, "lab") == []


def test_an_address_in_the_network_is_a_target_too(
    house: NetworkHouse, floating: FloatingIpService
) -> None:
    open_prefix(house)
    job = house.submit(name="web", network="lab")
    body = FloatingIpIn(target="10.0.0.2", address="203.0.113.40")
    made = floating.create_floating(house.admin, "lab", body)
    assert (made.address, made.job, made.state) == ("203.0.113.40", "web", "starting")
    assert house.job(job.name).floating_ip == "203.0.113.40"
    with pytest.raises(NameTaken, match=r"web already has the floating IP 203\.0\.113\.40"):
        floating.create_floating(house.admin, "lab", WEB)
    with pytest.raises(BadAddress, match=r"10\.0\.9\.9; its subnets are 10\.0\.0\.0/24"):
        floating.create_floating(house.admin, "lab", FloatingIpIn(target="10.0.9.9"))


def test_refusals_give_numbers_and_change_nothing(
    house: NetworkHouse, floating: FloatingIpService
) -> None:
    with pytest.raises(WrongState, match="no address outside is for tenants"):
        floating.create_floating(house.admin, "lab", WEB)
    open_prefix(house, "203.0.113.0/24")
    for number in range(MOST_FLOATING_IPS):
        floating.create_floating(house.admin, "lab", FloatingIpIn(target=f"job-{number}"))
    with pytest.raises(TooManyNetworks, match="has 16 floating IPs; 16 is the most"):
        floating.create_floating(house.admin, "lab", WEB)
    with pytest.raises(StillInUse, match=r"16 floating IPs would be outside: 203\.0\.113\.1, "):
        open_prefix(house, "203.0.113.128/25")
    with pytest.raises(StillInUse):
        open_prefix(house, "")
    with pytest.raises(StillInUse, match="lead through the gateway of lab"):
        house.allocations.networks.delete_gateway(house.admin, "lab")
    with pytest.raises(UnknownNetwork, match="no floating IP 'i-none'"):
        floating.delete_floating(house.admin, "lab", "i-none")
    house.create_network("closed", "10.0.0.0/24")
    with pytest.raises(WrongState, match="closed has no gateway"):
        floating.create_floating(house.admin, "closed", WEB)
    assert len(list_work(house)) == MOST_FLOATING_IPS
    assert house.allocations.network_engine.get_state().floating_ips == "203.0.113.0/24"


def test_an_array_is_no_target(house: NetworkHouse, floating: FloatingIpService) -> None:
    open_prefix(house)
    house.submit(100, 1, name="many", network="lab", array=2)
    with pytest.raises(WrongState, match="many is 2 jobs") as refused:
        floating.create_floating(house.admin, "lab", FloatingIpIn(target="many"))
    member = str(refused.value.hint).split(", ")[1].removeprefix("as ")
    made = floating.create_floating(house.admin, "lab", FloatingIpIn(target=member))
    assert made.job == member


def test_the_address_goes_with_its_network(
    house: NetworkHouse, floating: FloatingIpService
) -> None:
    open_prefix(house)
    floating.create_floating(house.admin, "lab", WEB)
    house.allocations.networks.delete_network(house.admin, "lab")
    assert list_work(house) == []
    open_prefix(house, "")


def test_the_boundary_knows_packets_of_floating_ips_as_the_networks(
    house: NetworkHouse, floating: FloatingIpService
) -> None:
    open_prefix(house)
    floating.create_floating(house.admin, "lab", WEB)
    rule = FirewallRuleIn(action="deny", prefix="10.0.0.0/8", network="lab")
    house.allocations.firewall.create_rule(house.admin, rule)
    with house.store.read() as connection:
        _, work = house.allocations.network_engine.read_work(connection, "node-1", 0)
    assert work is not None
    assert [(one.gateway, one.others) for one in work.firewall] == [
        ("198.18.0.3", ["198.18.128.1"])
    ]


def test_states_are_off_while_networking_is(
    house: NetworkHouse, floating: FloatingIpService
) -> None:
    open_prefix(house)
    made = floating.create_floating(house.admin, "lab", WEB)
    report(house, made.id, "reachable")
    house.allocations.network_engine.disable()
    house.tell_engine("stopped")
    assert floating.get_floating(house.admin, "lab", made.id).state == "off"
    # The prefix that an admin opened is still open.
    house.enable()
    assert house.allocations.network_engine.get_state().floating_ips == "203.0.113.32/28"
