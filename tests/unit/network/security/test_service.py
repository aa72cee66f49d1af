"""Security groups of a network: rules, refusals, and the jobs that are in them."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadAddress, NameTaken, StillInUse, TooManyNetworks, UnknownNetwork
from gpupool.model.tenant import Principal, UserRole
from gpupool.network.reading import read_networks
from gpupool.network.security import service
from gpupool.tenancy.tenants import insert_tenant
from gpupool.wire.jobs import JobOut
from gpupool.wire.network.security_groups import SecurityGroupIn, SecurityRuleIn
from tests.unit.network.conftest import NetworkHouse

SSH = SecurityRuleIn(protocol="tcp", first_port=22)


@pytest.fixture
def groups(house: NetworkHouse) -> service.SecurityGroupService:
    house.create_network("lab", "10.0.0.0/24")
    made = house.allocations.security_groups
    for name in ("web", "ops"):
        made.create_group(house.admin, "lab", SecurityGroupIn(name=name))
    return made


def submit(house: NetworkHouse, *names: str) -> JobOut:
    return house.submit(1000, None, network="lab", security_groups=names)


def test_rules_are_kept_once_and_deleted_by_id(
    house: NetworkHouse, groups: service.SecurityGroupService
) -> None:
    for _ in range(2):
        made = groups.create_rule(house.admin, "lab", "web", SSH)
    (rule,) = made.rules
    assert (rule.protocol, rule.first_port, rule.last_port, rule.source) == ("tcp", 22, 22, None)
    named = SecurityRuleIn(protocol="any", source="ops")
    prefix = SecurityRuleIn(protocol="icmp", source="10.0.0.0/8")
    groups.create_rule(house.admin, "lab", "web", named)
    made = groups.create_rule(house.admin, "lab", "web", prefix)
    assert [one.source for one in made.rules] == [None, "ops", "10.0.0.0/8"]
    groups.delete_rule(house.admin, "lab", "web", rule.id)
    assert len(groups.list_groups(house.admin, "lab")[1].rules) == 2
    with pytest.raises(UnknownNetwork, match="no rule"):
        groups.delete_rule(house.admin, "lab", "web", rule.id)


def test_what_is_refused_says_why(
    house: NetworkHouse,
    groups: service.SecurityGroupService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(NameTaken, match="already has a security group 'web'"):
        groups.create_group(house.admin, "lab", SecurityGroupIn(name="web"))
    for source, error in (("none", UnknownNetwork), ("10.0.0.5/8", BadAddress)):
        body = SecurityRuleIn(protocol="any", source=source)
        with pytest.raises(error):
            groups.create_rule(house.admin, "lab", "web", body)
    monkeypatch.setattr(service, "MOST_RULES", 1)
    groups.create_rule(house.admin, "lab", "web", SSH)
    with pytest.raises(TooManyNetworks, match="group web has 1 rules; 1 is the most"):
        groups.create_rule(house.admin, "lab", "web", SecurityRuleIn(protocol="any"))
    named = SecurityRuleIn(protocol="any", source="web")
    groups.create_rule(house.admin, "lab", "ops", named)
    with pytest.raises(StillInUse, match="rules of ops name security group web"):
        groups.delete_group(house.admin, "lab", "web")


def test_another_tenants_groups_are_not_found(
    house: NetworkHouse, groups: service.SecurityGroupService
) -> None:
    with house.store.write() as write:
        tenant = insert_tenant(write, "red")
    stranger = Principal(2, "ann", tenant, "red", UserRole.TENANT_ADMIN)
    with pytest.raises(UnknownNetwork, match="no network 'lab'"):
        groups.list_groups(stranger, "lab")


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"protocol": "icmp", "first_port": 1}, "icmp has no ports"),
        ({"protocol": "tcp", "last_port": 1}, "needs a first one"),
        ({"protocol": "tcp", "first_port": 9, "last_port": 8}, "below the first port, 9"),
        ({"protocol": "tcp", "first_port": 65536}, "65535"),
    ],
)
def test_wrong_ports_are_refused(fields: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        SecurityRuleIn.model_validate(fields)


def test_a_job_is_in_its_groups_from_its_grant_to_its_end(
    house: NetworkHouse, groups: service.SecurityGroupService
) -> None:
    house.enable()
    with pytest.raises(UnknownNetwork, match="no security group 'none'"):
        submit(house, "none")
    running = submit(house, "web", "ops")
    with house.store.read() as connection:
        (network,) = read_networks(connection).values()
    assert {network.ports[0].groups} == {tuple(group.key for group in network.groups)}
    (port,) = house.allocations.networks.get_network(house.admin, "lab").ports
    assert port.security_groups == ["web", "ops"]
    with pytest.raises(StillInUse, match="ops is in use: 1 job in it, 1 live submission for it"):
        groups.delete_group(house.admin, "lab", "ops")
    house.finish(running.name)
    for name in ("ops", "web"):
        groups.delete_group(house.admin, "lab", name)
    assert groups.list_groups(house.admin, "lab") == []


def test_a_group_that_a_waiting_job_names_stays(
    house: NetworkHouse, groups: service.SecurityGroupService
) -> None:
    house.enable()
    for _ in range(9):
        last = submit(house, "web")
    assert groups.list_groups(house.admin, "lab")[1].jobs == 8
    with pytest.raises(StillInUse, match="8 jobs in it, 9 live submissions for it"):
        groups.delete_group(house.admin, "lab", "web")
    assert last.state == "pending"
