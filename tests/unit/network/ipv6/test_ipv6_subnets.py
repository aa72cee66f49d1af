"""Subnets with IPv6: which prefix they get, what their jobs have, and what is refused."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network

import pytest

from gpupool.base.errors import AddressTaken, BadAddress, OverlappingSubnets
from gpupool.network.ipv6.addresses import derive_site
from gpupool.network.verification.tables import network_verifications
from gpupool.wire.network.load_balancers import HttpSettingsIn, LoadBalancerIn
from gpupool.wire.network.networks import NetworkIn, NetworkOut, PeeringIn, SubnetIn
from gpupool.wire.network.promises import NetworkVerificationIn
from tests.unit.network.conftest import NetworkHouse

CIDR6 = "fd12:3456:789a::/64"


def create(
    house: NetworkHouse, name: str, cidr: str, cidr6: str | None, mtu: int = 1442
) -> NetworkOut:
    body = NetworkIn(name=name, subnets=[SubnetIn(cidr=cidr, cidr6=cidr6)], mtu=mtu)
    return house.allocations.networks.create_network(house.admin, body)


def ask(house: NetworkHouse, name: str, **addresses: str) -> tuple[str | None, str | None]:
    job = house.submit(name=name, network={"name": "a", **addresses})
    return job.address, job.address6


def test_a_job_has_an_address_of_each_family_and_its_agent_both(house: NetworkHouse) -> None:
    house.enable()
    create(house, "a", "10.0.0.0/24", CIDR6)
    assert ask(house, "one") == ("10.0.0.2", "fd12:3456:789a::2")
    (item,) = house.work()
    assert item.network is not None
    assert (item.network.address6, item.network.gateway6) == (
        "fd12:3456:789a::2",
        "fd12:3456:789a::1",
    )
    shown = house.allocations.networks.get_network(house.admin, "a")
    assert (shown.subnets[0].cidr6, shown.subnets[0].gateway6) == (CIDR6, "fd12:3456:789a::1")
    assert shown.ports[0].address6 == "fd12:3456:789a::2"


def test_a_network_without_ipv6_stays_as_it_is(house: NetworkHouse) -> None:
    house.enable()
    house.create_network("a", "10.0.0.0/24")
    assert ask(house, "one") == ("10.0.0.2", None)
    (item,) = house.work()
    assert item.network is not None
    assert (item.network.address6, item.network.gateway6) == (None, None)
    with pytest.raises(BadAddress, match="no subnet of the network has IPv6") as refused:
        ask(house, "two", address6="fd12:3456:789a::9")
    assert "--cidr6 auto" in refused.value.hint


def test_automatic_prefixes_are_of_the_networks_own_and_differ(house: NetworkHouse) -> None:
    made = create(house, "a", "10.0.0.0/24", "auto")
    networks = house.allocations.networks
    body = SubnetIn(name="s1", cidr="10.1.0.0/24", cidr6="auto")
    more = networks.create_subnet(house.admin, "a", body)
    prefixes = [IPv6Network(subnet.cidr6 or "") for subnet in more.subnets]
    assert len(set(prefixes)) == 2
    assert all(prefix.subnet_of(derive_site(made.id)) for prefix in prefixes)
    body = SubnetIn(name="s2", cidr="10.2.0.0/24", cidr6=str(prefixes[0]))
    with pytest.raises(OverlappingSubnets, match="of the same network"):
        networks.create_subnet(house.admin, "a", body)
    assert len(networks.get_network(house.admin, "a").subnets) == 2


def test_small_packets_and_bad_prefixes_are_refused_and_nothing_is_made(
    house: NetworkHouse,
) -> None:
    with pytest.raises(BadAddress, match=r"IPv6 needs packets of 1280 bytes; .* 1200 at most"):
        create(house, "a", "10.0.0.0/24", "auto", mtu=1200)
    with pytest.raises(BadAddress, match="a prefix of 64 bits"):
        create(house, "a", "10.0.0.0/24", "fd12::/60")
    assert house.allocations.networks.list_networks(house.admin, None, 10).items == []


def test_an_asked_ipv6_address_brings_an_ipv4_one_of_its_subnet(house: NetworkHouse) -> None:
    house.enable()
    house.create_network("a", "10.0.0.0/24")
    body = SubnetIn(name="six", cidr="10.1.0.0/24", cidr6=CIDR6)
    house.allocations.networks.create_subnet(house.admin, "a", body)
    assert ask(house, "one", address6="FD12:3456:789A::beef") == (
        "10.1.0.2",
        "fd12:3456:789a::beef",
    )
    both = {"address": "10.1.0.9", "address6": "fd12:3456:789a::99"}
    assert ask(house, "two", **both) == ("10.1.0.9", "fd12:3456:789a::99")
    with pytest.raises(BadAddress, match=r"is of subnet six, and 10\.0\.0\.9 is not"):
        ask(house, "three", address="10.0.0.9", address6="fd12:3456:789a::98")
    # Another one asks for an IPv4 address alone.
    assert ask(house, "four", address="10.1.0.20") == ("10.1.0.20", "fd12:3456:789a::14")


@pytest.mark.parametrize(
    ("address6", "reason"),
    [
        ("fd99::5", "outside of the network's subnets: fd12:3456:789a::/64"),
        ("fd12:3456:789a::", "every router of the subnet"),
        ("fd12:3456:789a::1", "the router's"),
        ("fd12:3456:789a:0:ffff:ffff:ffff:fffe", "probes of load balancers"),
        ("fd12:3456:789a:0:ffff:ffff:0:5", "the last ones, .* which proxies have"),
        ("10.0.0.9", "not an IPv6 address"),
    ],
)
def test_an_ipv6_address_that_no_job_may_have_is_refused(
    house: NetworkHouse, address6: str, reason: str
) -> None:
    house.enable()
    create(house, "a", "10.0.0.0/24", CIDR6)
    with pytest.raises(BadAddress, match=reason) as refused:
        ask(house, "one", address6=address6)
    assert refused.value.hint
    assert house.work() == []


def test_an_ipv6_address_is_kept_for_a_job_that_waits_and_never_given_twice(
    house: NetworkHouse,
) -> None:
    house.enable()
    create(house, "a", "10.0.0.0/28", CIDR6)
    house.submit(1000, None, name="full", count=8)
    # What the job with 10.0.0.3 would get.
    assert ask(house, "waiting", address6="fd12:3456:789a::3") == (None, None)
    with pytest.raises(AddressTaken, match="job waiting has the address fd12:3456:789a::3"):
        ask(house, "late", address6="fd12:3456:789a::3")
    house.finish("full")
    house.allocations.placer.run_cycle()
    others = [house.submit(100, 1, name=f"other-{n}", network="a") for n in range(12)]
    found = [job.address6 for job in (house.job("waiting"), *others)]
    assert found[0] == "fd12:3456:789a::3"
    assert None not in found
    assert len(set(found)) == 13
    assert all(IPv6Address(one or "") in IPv6Network(CIDR6) for one in found)
    house.finish("waiting")
    assert ask(house, "late", address6="fd12:3456:789a::3")[1] == "fd12:3456:789a::3"


def test_a_balancer_and_its_jobs_have_ipv6_addresses_where_their_network_has(
    house: NetworkHouse,
) -> None:
    house.enable()
    create(house, "a", "10.0.0.0/24", CIDR6)
    house.create_network("b", "10.0.0.0/24")
    balancers = house.allocations.load_balancers
    body = LoadBalancerIn(name="api", port=80, target_port=80, backends=["one"])
    made = balancers.create_balancer(house.admin, "a", body)
    assert made.address6 == "fd67:7075:706f:1::1"
    plain = balancers.create_balancer(house.admin, "b", body)
    assert plain.address6 is None
    http = body.model_copy(update={"name": "web", "http": HttpSettingsIn()})
    assert balancers.create_balancer(house.admin, "a", http).address6 == "fd67:7075:706f:1::3"
    plain_http = balancers.create_balancer(house.admin, "b", http)
    assert plain_http.address6 is None
    proxies = house.allocations.agents.read_work("node-1", 0).network
    assert proxies is not None
    six, plain_work = [one.port for one in proxies.proxies]
    assert six.address6 == "fd12:3456:789a:0:ffff:ffff:0:2"
    assert six.gateway6 == "fd12:3456:789a::1"
    assert (plain_work.address6, plain_work.gateway6) == (None, None)
    # 10.0.0.2 is the proxy's.
    ask(house, "one")
    ((member,), _) = [one.members for one in balancers.list_balancers(house.admin, "a")]
    assert (member.address, member.address6) == ("10.0.0.3", "fd12:3456:789a::3")


def test_networks_that_share_ipv6_addresses_are_not_peered(house: NetworkHouse) -> None:
    create(house, "a", "10.0.0.0/24", CIDR6)
    other = create(house, "b", "10.1.0.0/24", CIDR6)
    peerings = house.allocations.network_peerings
    asked = peerings.request_peering(house.admin, "a", PeeringIn(accepter=other.id).accepter)
    with pytest.raises(OverlappingSubnets, match="share addresses: fd12:3456:789a::/64 and"):
        peerings.accept_peering(house.admin, "b", asked.id)
    third = create(house, "c", "10.2.0.0/24", "auto")
    asked = peerings.request_peering(house.admin, "a", third.id)
    accepted = peerings.accept_peering(house.admin, "c", asked.id)
    assert accepted.other_prefixes == ["10.0.0.0/24", CIDR6]
    body = SubnetIn(name="s1", cidr="10.3.0.0/24", cidr6=CIDR6)
    with pytest.raises(OverlappingSubnets, match="of a peered network"):
        house.allocations.networks.create_subnet(house.admin, "c", body)


def test_a_verification_has_ipv6_where_what_it_verifies_has(house: NetworkHouse) -> None:
    house.enable()
    create(house, "plain", "10.0.0.0/24", None)
    create(house, "six", "10.0.0.0/24", CIDR6)
    verifications = house.allocations.network_verifications
    for name, address6 in (
        ("plain", None),
        ("six", "fd12:3456:789a::2"),
        (None, "fd12:3456:789a::2"),
    ):
        verifications.start(house.admin, NetworkVerificationIn(network=name))
        work = house.allocations.agents.read_work("node-1", 0).network
        assert work is not None
        assert work.verification is not None
        assert work.verification.sender.address6 == address6
        with house.store.write() as write:
            write.execute(network_verifications.delete())
