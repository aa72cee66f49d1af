"""A job that asks for an address has it, and no other job does, from its submission to its end."""

from __future__ import annotations

import pytest

from gpupool.base.errors import AddressTaken, BadAddress, StillInUse, UnknownNetwork
from gpupool.network.model import make_vm_mac
from gpupool.wire.network.load_balancers import LoadBalancerIn
from gpupool.wire.network.networks import SubnetIn
from gpupool.wire.network.security_groups import SecurityGroupIn
from tests.unit.network.conftest import NetworkHouse


def ask(house: NetworkHouse, address: str, name: str, **more: object) -> str | None:
    network = {"name": "a", "address": address}
    return house.submit(name=name, network=network, **more).address


def test_a_job_has_the_address_that_it_asks_for_in_the_subnet_of_that_address(
    house: NetworkHouse,
) -> None:
    house.enable()
    house.create_network("a", "10.0.0.0/24", "10.1.0.0/24")
    assert ask(house, "10.1.0.20", "one") == "10.1.0.20"
    (item,) = house.work()
    assert item.network is not None
    assert (item.network.address, item.network.gateway) == ("10.1.0.20", "10.1.0.1")
    (port,) = house.allocations.networks.get_network(house.admin, "a").ports
    assert (port.address, port.subnet) == ("10.1.0.20", "s1")
    # Others have what is free, from the first subnet on.
    assert house.submit(name="two", network="a").address == "10.0.0.2"


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("10.2.0.5", "10.2.0.5 is outside of the network's subnets: 10.0.0.0/24"),
        ("10.0.0.0", "the subnet's own address"),
        ("10.0.0.1", "the router's"),
        ("10.0.0.255", "the broadcast address"),
        ("10.0.0.254", "probes of load balancers"),
        ("ten", "not an IPv4 address: 'ten'"),
        ("fd00::1", "not an IPv4 address"),
    ],
)
def test_an_address_that_no_job_may_have_is_refused(
    house: NetworkHouse, address: str, reason: str
) -> None:
    house.enable()
    house.create_network("a", "10.0.0.0/24")
    body = LoadBalancerIn(name="api", port=80, target_port=80, backends=["web"])
    house.allocations.load_balancers.create_balancer(house.admin, "a", body)
    with pytest.raises(BadAddress, match=reason) as refused:
        ask(house, address, "one")
    assert refused.value.hint
    assert house.work() == []


def test_one_address_is_not_for_several_jobs(house: NetworkHouse) -> None:
    house.enable()
    house.create_network("a", "10.0.0.0/24")
    with pytest.raises(BadAddress, match="one address for 2 jobs"):
        ask(house, "10.0.0.9", "many", array=2)
    with pytest.raises(BadAddress, match="one address for 2 jobs"):
        ask(
            house, "10.0.0.9", "pair", gang={"name": "pair", "parts": [{"name": "all", "count": 2}]}
        )
    assert ask(house, "10.0.0.9", "one") == "10.0.0.9"


def test_an_address_is_kept_for_a_job_that_waits(house: NetworkHouse) -> None:
    house.enable()
    # Addresses 2 to 14, so the search comes past each of them.
    house.create_network("a", "10.0.0.0/28")
    house.submit(1000, None, name="full", count=8)
    assert ask(house, "10.0.0.3", "waiting") is None
    for _ in range(2):
        with pytest.raises(AddressTaken, match=r"job waiting has the address 10.0.0.3") as refused:
            ask(house, "10.0.0.3", "late")
        assert refused.value.details["job"] == "waiting"
    networks = house.allocations.networks
    networks.create_subnet(house.admin, "a", SubnetIn(name="s1", cidr="10.1.0.0/24"))
    with pytest.raises(StillInUse, match="waiting asked for an address of subnet s0"):
        networks.delete_subnet(house.admin, "a", "s0")
    house.finish("full")
    house.allocations.placer.run_cycle()
    assert house.job("waiting").address == "10.0.0.3"
    others = [house.submit(100, 1, name=f"other-{n}", network="a").address for n in range(12)]
    assert [one for one in others if one and one.startswith("10.0.0.")] == others
    assert len(set(others)) == 12
    assert "10.0.0.3" not in others
    house.finish("waiting")
    # Free again for the next job that asks for it.
    assert ask(house, "10.0.0.3", "late") == "10.0.0.3"


def test_an_address_that_a_running_job_was_given_is_refused_with_its_name(
    house: NetworkHouse,
) -> None:
    house.enable()
    house.create_network("a", "10.0.0.0/24")
    house.submit(name="first", network="a")
    with pytest.raises(AddressTaken, match=r"job first has the address 10.0.0.2"):
        ask(house, "10.0.0.2", "second")
    house.create_network("b", "10.0.0.0/24")
    assert house.submit(name="third", network={"name": "b", "address": "10.0.0.2"}).address


def test_a_vm_joins_by_name_alone_and_keeps_its_addresses_where_it_starts_again(
    house: NetworkHouse,
) -> None:
    house.enable()
    house.create_network("a", "10.0.0.0/24")
    house.allocations.networks.set_default(house.admin, "a", wanted=True)
    assert house.submit_vm(name="plain").network is None
    groups = house.allocations.security_groups
    groups.create_group(house.admin, "a", SecurityGroupIn(name="web"))
    join = {"name": "a", "address": "10.0.0.9", "security_groups": ["web"]}
    first = house.submit_vm(name="dev", network=join)
    before = house.work()[-1].network
    assert before is not None
    assert before.mac == make_vm_mac(first.id)
    (port,) = house.allocations.networks.get_network(house.admin, "a").ports
    assert (port.mac, port.security_groups) == (before.mac, ["web"])
    house.finish("dev")
    again = {"continues": first.id, "identity": first.id}
    second = house.submit_vm(name="dev", vm=again)
    (port,) = house.allocations.networks.get_network(house.admin, "a").ports
    assert (port.address, port.mac, port.security_groups) == ("10.0.0.9", before.mac, ["web"])
    house.finish("dev")
    groups.delete_group(house.admin, "a", "web")
    # Without the group it would reach more than it asked for.
    with pytest.raises(UnknownNetwork, match="a security group of it"):
        house.submit_vm(name="dev", vm={"continues": second.id, "identity": first.id})
    third = house.submit_vm(
        name="dev", vm={"continues": second.id, "identity": first.id}, network={"name": "none"}
    )
    assert third.network is None
