"""Consent to a peering covers the subnets that there were; later ones need it again."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gpupool.base.errors import OverlappingSubnets
from gpupool.model.tenant import Principal, UserRole
from gpupool.network.model import Network, Port
from gpupool.network.northbound import compile_network
from gpupool.network.reachability import Traffic, decide_reach
from gpupool.network.reading import read_networks
from gpupool.tenancy.tenants import insert_tenant
from gpupool.wire.network.networks import NetworkIn, PeeringOut, SubnetIn
from tests.unit.network.conftest import NetworkHouse

#: Of the internet: its owner would get what `ours` sends there.
PUBLIC = "8.8.8.0/24"


@dataclass
class Pair:
    """Two peered networks: `ours` of the admin's tenant, and `theirs` of another one."""

    house: NetworkHouse
    stranger: Principal
    peering: str

    def read(self, name: str) -> Network:
        with self.house.store.read() as connection:
            found = read_networks(connection)
        return next(one for one in found.values() if one.name == name)

    def add(self, prefix: str, cidr6: str | None = None) -> None:
        """Let the other owner add a subnet."""
        body = SubnetIn(name="more", cidr=prefix, cidr6=cidr6)
        self.house.allocations.networks.create_subnet(self.stranger, "theirs", body)

    def list_routes(self) -> list[object]:
        """List the prefixes that `ours` sends to the other network."""
        rows = compile_network(self.read("ours"))
        routes = [row for row in rows if row.table == "Logical_Router_Static_Route"]
        return sorted(str(row.columns["ip_prefix"]) for row in routes)

    def accept(self) -> PeeringOut:
        peerings = self.house.allocations.network_peerings
        return peerings.accept_peering(self.house.admin, "ours", self.peering)

    def show(self, *, is_theirs: bool = False) -> PeeringOut:
        peerings = self.house.allocations.network_peerings
        caller = self.stranger if is_theirs else self.house.admin
        (found,) = peerings.list_peerings(caller, "theirs" if is_theirs else "ours")
        return found


@pytest.fixture(params=["requester", "accepter"])
def pair(request: pytest.FixtureRequest, house: NetworkHouse) -> Pair:
    """The two as either of them asked for it."""
    with house.store.write() as write:
        tenant = insert_tenant(write, "lab")
    stranger = Principal(2, "ann", tenant, "lab", UserRole.TENANT_ADMIN)
    rooms = house.allocations.networks
    ours = rooms.create_network(
        house.admin, NetworkIn(name="ours", subnets=[SubnetIn(cidr="10.0.0.0/24", cidr6="auto")])
    )
    body = NetworkIn(name="theirs", subnets=[SubnetIn(cidr="10.1.0.0/24")])
    theirs = rooms.create_network(stranger, body)
    peerings = house.allocations.network_peerings
    if request.param == "requester":
        made = peerings.request_peering(house.admin, "ours", theirs.id)
        peerings.accept_peering(stranger, "theirs", made.id)
    else:
        made = peerings.request_peering(stranger, "theirs", ours.id)
        peerings.accept_peering(house.admin, "ours", made.id)
    return Pair(house, stranger, made.id)


def test_a_later_prefix_leads_nowhere_until_it_is_accepted(pair: Pair) -> None:
    before = pair.list_routes()
    assert before == ["10.1.0.0/24"]
    pair.add(PUBLIC, "fd12:3456:789a::/64")
    assert pair.list_routes() == before
    shown = pair.show()
    assert shown.other_prefixes == ["10.1.0.0/24"]
    assert shown.other_new_prefixes == [PUBLIC, "fd12:3456:789a::/64"]
    assert pair.show(is_theirs=True).own_new_prefixes == shown.other_new_prefixes
    accepted = pair.accept()
    assert accepted.other_new_prefixes == []
    assert pair.list_routes() == ["10.1.0.0/24", PUBLIC, "fd12:3456:789a::/64"]
    assert pair.accept() == accepted


def test_packets_of_a_later_prefix_do_not_enter_the_peering(pair: Pair) -> None:
    keys = {row.key for row in compile_network(pair.read("theirs"))}
    pair.add(PUBLIC)
    rows = {row.key: row for row in compile_network(pair.read("theirs"))}
    (policy,) = (rows[key] for key in rows.keys() - keys if "hidden" in key)
    assert policy.columns["action"] == "drop"
    assert str(policy.columns["match"]).endswith(f" && ip4.src == {{{PUBLIC}}}")
    router = next(row for row in rows.values() if row.table == "Logical_Router")
    assert policy.key in router.references["policies"]
    pair.accept()
    assert policy.key not in {row.key for row in compile_network(pair.read("theirs"))}


def test_a_job_of_a_later_prefix_learns_why_it_reaches_nothing(pair: Pair) -> None:
    pair.add("10.2.0.0/24")
    network = pair.read("theirs")
    subnet = next(one for one in network.subnets if str(one.cidr) == "10.2.0.0/24")
    source = Port(1, "n-1", subnet.key, subnet.cidr[5], "train")
    answer = decide_reach(network, source, "10.0.0.9", Traffic("tcp", 22))
    assert answer.is_reached is False
    assert "has not accepted the subnet of 10.2.0.5" in answer.reason
    pair.accept()
    assert (
        decide_reach(pair.read("theirs"), source, "10.0.0.9", Traffic("tcp", 22)).is_reached is None
    )


def test_a_prefix_that_no_one_accepted_keeps_none_from_others(pair: Pair) -> None:
    """Else an owner could keep another one from its own subnets."""
    pair.add("10.2.0.0/24")
    body = SubnetIn(name="more", cidr="10.2.0.0/25")
    pair.house.allocations.networks.create_subnet(pair.house.admin, "ours", body)
    with pytest.raises(OverlappingSubnets) as caught:
        pair.accept()
    assert caught.value.details["clashing"] == ["10.2.0.0/25 and 10.2.0.0/24"]
    assert pair.list_routes() == ["10.1.0.0/24"]


def test_a_subnet_that_was_deleted_leaves_no_consent(pair: Pair) -> None:
    pair.add("10.2.0.0/24")
    pair.accept()
    pair.house.allocations.networks.delete_subnet(pair.stranger, "theirs", "more")
    assert pair.list_routes() == ["10.1.0.0/24"]
    pair.add("10.2.0.0/24")
    assert pair.list_routes() == ["10.1.0.0/24"]


def test_networks_of_one_tenant_need_no_consent_again(house: NetworkHouse) -> None:
    house.create_network("ours", "10.0.0.0/24")
    other = house.create_network("theirs", "10.1.0.0/24")
    peerings = house.allocations.network_peerings
    asked = peerings.request_peering(house.admin, "ours", other.id)
    peerings.accept_peering(house.admin, "theirs", asked.id)
    pair = Pair(house, house.admin, asked.id)
    pair.add("10.2.0.0/24")
    assert pair.list_routes() == ["10.1.0.0/24", "10.2.0.0/24"]
    assert pair.show().other_new_prefixes == []
