"""An admin's rules for the boundary: their order, what the agent learns, what tenants see."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gpupool.base.errors import BadAddress, NameTaken, TooManyNetworks, UnknownNetwork
from gpupool.network.firewall import service
from gpupool.network.firewall.service import FirewallService
from gpupool.wire.network.firewall import FirewallRuleIn, FirewallWork
from tests.unit.network.conftest import NetworkHouse

UPLINK = "198.18.0.0/16"
DENY = FirewallRuleIn(action="deny", prefix="10.0.0.0/8")


@pytest.fixture
def firewall(house: NetworkHouse) -> FirewallService:
    house.enable()
    house.create_network("lab", "10.0.0.0/24")
    return house.allocations.firewall


def list_work(house: NetworkHouse) -> list[FirewallWork]:
    with house.store.read() as connection:
        _, work = house.allocations.network_engine.read_work(connection, "node-1", 0)
    assert work is not None
    return work.firewall


def test_rules_have_an_order_and_the_agent_gets_them_in_it(
    house: NetworkHouse, firewall: FirewallService
) -> None:
    last = firewall.create_rule(house.admin, DENY)
    first = firewall.create_rule(
        house.admin,
        FirewallRuleIn(
            action="allow", prefix="10.1.0.0/16", protocol="tcp", first_port=443, number=5
        ),
    )
    next_one = firewall.create_rule(house.admin, DENY)
    assert [last.number, first.number, next_one.number] == [10, 5, 20]
    assert [rule.id for rule in firewall.list_rules(house.admin)] == [
        first.id,
        last.id,
        next_one.id,
    ]
    assert list_work(house) == [], "without an uplink nothing passes"
    house.allocations.networks.create_gateway(house.admin, "lab")
    house.tell_engine("ready", northbound="unix:/nowhere", uplink=UPLINK)
    assert [(one.action, one.prefix, one.last_port) for one in list_work(house)] == [
        ("allow", "10.1.0.0/16", 443),
        ("deny", "10.0.0.0/8", None),
        ("deny", "10.0.0.0/8", None),
    ]
    firewall.delete_rule(last.id)
    assert len(list_work(house)) == 2


def test_a_rule_of_a_network_holds_while_it_has_a_gateway_and_goes_with_it(
    house: NetworkHouse, firewall: FirewallService
) -> None:
    body = DENY.model_copy(update={"network": "lab", "direction": "in"})
    made = firewall.create_rule(house.admin, body)
    assert (made.network, made.tenant) == ("lab", house.admin.tenant)
    house.create_network("other", "10.0.0.0/24")
    house.allocations.networks.create_gateway(house.admin, "other")
    house.tell_engine("ready", northbound="unix:/nowhere", uplink=UPLINK)
    assert list_work(house) == []
    house.allocations.networks.create_gateway(house.admin, "lab")
    assert [one.gateway for one in list_work(house)] == ["198.18.0.4"]
    house.allocations.networks.delete_gateway(house.admin, "lab")
    house.allocations.networks.delete_network(house.admin, "lab")
    assert firewall.list_rules(house.admin) == []


def test_a_tenant_sees_the_rules_that_concern_it(
    house: NetworkHouse, firewall: FirewallService
) -> None:
    of_all = firewall.create_rule(house.admin, DENY)
    of_lab = firewall.create_rule(house.admin, DENY.model_copy(update={"network": "lab"}))
    house.tenancy.tenants.create(house.admin, "elsewhere", None)
    stranger = house.member("stranger", "elsewhere")
    assert [one.id for one in firewall.list_rules(stranger)] == [of_all.id]
    assert [one.id for one in firewall.list_rules(house.admin)] == [of_all.id, of_lab.id]


def test_what_is_refused_changes_nothing(
    house: NetworkHouse, firewall: FirewallService, monkeypatch: pytest.MonkeyPatch
) -> None:
    for body, error, words in (
        (DENY.model_copy(update={"prefix": "10.0.0.1/8"}), BadAddress, "10.0.0.1/8"),
        (DENY.model_copy(update={"prefix": "2001:db8::1/32"}), BadAddress, "2001:db8::1/32"),
        (DENY.model_copy(update={"prefix": "2001:db8::"}), BadAddress, "no prefix length"),
        (DENY.model_copy(update={"network": "none"}), UnknownNetwork, "no network 'none'"),
    ):
        with pytest.raises(error, match=words):
            firewall.create_rule(house.admin, body)
    firewall.create_rule(house.admin, DENY.model_copy(update={"number": 9999}))
    with pytest.raises(NameTaken, match="has number 9999"):
        firewall.create_rule(house.admin, DENY.model_copy(update={"number": 9999}))
    with pytest.raises(NameTaken, match="9999 is the highest"):
        firewall.create_rule(house.admin, DENY)
    monkeypatch.setattr(service, "MOST_RULES", 1)
    with pytest.raises(TooManyNetworks, match="1 is the most"):
        firewall.create_rule(house.admin, DENY.model_copy(update={"number": 1}))
    with pytest.raises(UnknownNetwork, match="no firewall rule 'w-none'"):
        firewall.delete_rule("w-none")
    assert len(firewall.list_rules(house.admin)) == 1


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"first_port": 80}, "ports need the protocol tcp or udp"),
        ({"protocol": "tcp", "first_port": 80, "last_port": 79}, "last_port 79 is below"),
        ({"protocol": "tcp", "last_port": 79}, "last_port needs first_port"),
    ],
)
def test_ports_are_those_of_a_protocol_with_ports(values: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        FirewallRuleIn(action="deny", prefix="10.0.0.0/8", **values)
