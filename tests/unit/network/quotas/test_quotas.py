"""Quotas of tenants for objects of networks: refused where they are made, with the numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpupool.base.errors import TooManyNetworks, UnknownTenant
from gpupool.network.quotas.check import KINDS
from gpupool.wire.network.floating_ips import FloatingIpIn
from gpupool.wire.network.load_balancers import LoadBalancerIn
from gpupool.wire.network.networks import NetworkEngineIn
from gpupool.wire.network.port_forwards import PortForwardIn
from gpupool.wire.network.quotas import NetworkQuotaIn
from gpupool.wire.network.security_groups import SecurityGroupIn
from tests.unit.network.conftest import NetworkHouse


def set_quota(house: NetworkHouse, **quotas: int | None) -> None:
    body = NetworkQuotaIn.model_validate(quotas)
    house.allocations.network_quotas.set_quotas(house.admin, house.admin.tenant, body)


def read_quotas(house: NetworkHouse) -> dict[str, tuple[int | None, int]]:
    shown = house.allocations.network_quotas.list_quotas(house.admin, house.admin.tenant)
    return {one.kind: (one.most, one.used) for one in shown}


def make_group(house: NetworkHouse, name: str) -> None:
    body = SecurityGroupIn(name=name)
    house.allocations.security_groups.create_group(house.admin, "one", body)


def make_balancer(house: NetworkHouse, name: str) -> None:
    body = LoadBalancerIn(name=name, port=80, target_port=80, backends=["web"])
    house.allocations.load_balancers.create_balancer(house.admin, "one", body)


def make_forward(house: NetworkHouse, _name: str) -> None:
    body = PortForwardIn(target="web", target_port=80)
    house.allocations.port_forwards.create_forward(house.admin, "one", body)


def make_floating(house: NetworkHouse, name: str) -> None:
    body = FloatingIpIn(target=f"job-{name}")
    house.allocations.floating_ips.create_floating(house.admin, "one", body)


def ask_peering(house: NetworkHouse, name: str) -> None:
    accepter = f"v-{name * 10}"
    house.allocations.network_peerings.request_peering(house.admin, "one", accepter)


def make_gateway(house: NetworkHouse, name: str) -> None:
    house.create_network(f"g{name}", "10.9.0.0/24")
    house.allocations.networks.create_gateway(house.admin, f"g{name}")


def submit_job(house: NetworkHouse, name: str) -> None:
    house.submit(100, 1, name=f"job-{name}", network="one")


MAKERS: dict[str, Callable[[NetworkHouse, str], object]] = {
    "networks": lambda house, name: house.create_network(name, "10.8.0.0/24"),
    "gateways": make_gateway,
    "jobs": submit_job,
    "load_balancers": make_balancer,
    "port_forwards": make_forward,
    "floating_ips": make_floating,
    "peerings": ask_peering,
    "security_groups": make_group,
}


@pytest.mark.parametrize("kind", sorted(MAKERS))
def test_one_more_than_the_quota_is_refused_with_the_numbers(
    house: NetworkHouse, kind: str
) -> None:
    house.enable()
    open_to = NetworkEngineIn(forward_ports="30000-30009", floating_ips="203.0.113.32/28")
    house.allocations.network_engine.enable(open_to)
    house.create_network("one", "10.0.0.0/24")
    if kind in ("port_forwards", "floating_ips"):
        house.allocations.networks.create_gateway(house.admin, "one")
    used = read_quotas(house)[kind][1]
    set_quota(house, **{kind: used + 1})
    MAKERS[kind](house, "a")
    with pytest.raises(TooManyNetworks, match=f"its quota is {used + 1}") as refused:
        MAKERS[kind](house, "b")
    assert refused.value.details["present"] == used + 1
    assert f"--{kind.replace('_', '-')} N" in (refused.value.hint or "")
    assert read_quotas(house)[kind] == (used + 1, used + 1)
    set_quota(house, **{kind: None})
    MAKERS[kind](house, "c")


def test_what_a_tenant_has_already_stays_below_a_lower_quota(house: NetworkHouse) -> None:
    house.create_network("one", "10.0.0.0/24")
    house.create_network("two", "10.0.0.0/24")
    set_quota(house, networks=1, lines=0)
    assert read_quotas(house)["networks"] == (1, 2)
    assert {
        name: found[0] for name, found in read_quotas(house).items() if found[0] is not None
    } == {
        "networks": 1,
        "lines": 0,
    }
    set_quota(house, lines=None)
    assert read_quotas(house)["networks"] == (1, 2)
    assert read_quotas(house)["lines"] == (None, 0)


def test_each_field_of_a_request_is_a_kind() -> None:
    assert set(NetworkQuotaIn.model_fields) == set(KINDS)


def test_another_tenants_quota_is_not_found(house: NetworkHouse) -> None:
    with pytest.raises(UnknownTenant):
        house.allocations.network_quotas.list_quotas(house.admin, "absent")
