"""Tenants limit their networks, admins cap tenants, and the state is what an agent read back."""

from __future__ import annotations

import pytest

from gpupool.base.errors import (
    BandwidthAboveCap,
    TooManyNetworks,
    UnknownNetwork,
    UnknownTenant,
    WrongState,
)
from gpupool.model.tenant import Principal, UserRole
from gpupool.network.limiting import service as limiting_service
from gpupool.network.limiting.service import BandwidthLimitService, make_target
from gpupool.tenancy.tenants import insert_tenant
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.network.engine import NetworkEngineReport
from gpupool.wire.network.promises import BandwidthIn, BandwidthLimitIn, LimitReading, LimitWork
from tests.unit.network.conftest import NetworkHouse


@pytest.fixture
def limits(house: NetworkHouse) -> BandwidthLimitService:
    house.enable()
    house.create_network("lab", "10.0.0.0/24")
    return house.allocations.bandwidth_limits


def report(house: NetworkHouse, *readings: LimitReading) -> None:
    body = NetworkEngineReport(state="ready", northbound="unix:/nowhere", limits=list(readings))
    house.allocations.agents.apply_reports("node-1", ReportsIn(network=body))


def list_work(house: NetworkHouse) -> list[LimitWork]:
    work = house.allocations.agents.read_work("node-1", 0).network
    assert work is not None
    return work.limits


def list_states(
    house: NetworkHouse, limits: BandwidthLimitService
) -> dict[str, list[tuple[str, str]]]:
    states = limits.list_limits(house.admin, "lab").states
    return {
        one.name: [(each.state, each.reason) for each in (one.inward, one.outward)]
        for one in states
    }


def test_a_limit_is_set_once_the_agent_has_read_it_back(
    house: NetworkHouse, limits: BandwidthLimitService
) -> None:
    house.submit(name="one", network="lab")
    assert list_work(house) == []
    limits.set_limit(house.admin, "lab", BandwidthLimitIn(in_kbit=20_000, out_kbit=50_000))
    (work,) = list_work(house)
    assert (work.subject, work.in_kbit, work.out_kbit) == ("port", 20_000, 50_000)
    waiting = ("not enforced", "the machine has not confirmed it yet")
    assert list_states(house, limits) == {"one": [waiting, waiting]}
    reading = LimitReading(key=work.key, in_kbit=20_000, out_reason="the switch has no meter")
    report(house, reading)
    assert list_states(house, limits) == {
        "one": [("set", ""), ("not enforced", "the switch has no meter")]
    }
    report(house, LimitReading(key=work.key, in_kbit=20_000, out_kbit=50_000))
    assert list_states(house, limits) == {"one": [("set", ""), ("set", "")]}
    # A reading of another limit is none of this one.
    limits.set_limit(house.admin, "lab", BandwidthLimitIn(in_kbit=30_000))
    assert list_states(house, limits) == {"one": [waiting, ("none", "")]}
    report(house)
    assert list_states(house, limits) == {"one": [waiting, ("none", "")]}


def test_a_new_job_brings_its_limit_along_and_takes_it_with_it(
    house: NetworkHouse, limits: BandwidthLimitService
) -> None:
    limits.set_limit(house.admin, "lab", BandwidthLimitIn(in_kbit=20_000))
    limits.set_limit(house.admin, "lab", BandwidthLimitIn(target="Train.1", out_kbit=9_000))
    house.submit(name="one", network="lab")
    (item,) = house.work()
    assert item.network is not None
    assert (item.network.in_kbit, item.network.out_kbit) == (20_000, None)
    assert [work.key for work in list_work(house)] == [item.network.id]
    house.finish("one")
    assert list_work(house) == []


def test_a_cap_holds_at_once_and_refuses_higher_limits(
    house: NetworkHouse, limits: BandwidthLimitService
) -> None:
    house.submit(name="one", network="lab")
    assert limits.set_cap(
        house.admin, "default", "port", BandwidthIn(in_kbit=10_000)
    ) == BandwidthIn(in_kbit=10_000)
    (work,) = list_work(house)
    assert (work.in_kbit, work.out_kbit) == (10_000, None)
    with pytest.raises(BandwidthAboveCap, match="20 Mbit/s in is more than the 10 Mbit/s"):
        limits.set_limit(house.admin, "lab", BandwidthLimitIn(in_kbit=20_000))
    limits.set_limit(house.admin, "lab", BandwidthLimitIn(in_kbit=5_000, out_kbit=99_000))
    limits.set_limit(house.admin, "lab", BandwidthLimitIn(subject="gateway", in_kbit=20_000))
    limits.set_cap(house.admin, "default", "port", BandwidthIn(in_kbit=2_000))
    (work,) = list_work(house)
    assert (work.in_kbit, work.out_kbit) == (2_000, 99_000)
    limits.set_cap(house.admin, "default", "port", BandwidthIn())
    assert limits.get_cap(house.admin, "default", "port") == BandwidthIn()
    (work,) = list_work(house)
    assert (work.in_kbit, work.out_kbit) == (5_000, 99_000)


def test_what_is_refused_says_why_and_changes_nothing(
    house: NetworkHouse, limits: BandwidthLimitService, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WrongState, match="one direction at least"):
        limits.set_limit(house.admin, "lab", BandwidthLimitIn())
    body = BandwidthLimitIn(subject="gateway", target="one", in_kbit=2_000)
    with pytest.raises(WrongState, match="about a gateway or about a job"):
        limits.set_limit(house.admin, "lab", body)
    with house.store.write() as write:
        tenant = insert_tenant(write, "other")
    stranger = Principal(2, "eve", tenant, "other", UserRole.TENANT_ADMIN)
    with pytest.raises(UnknownNetwork):
        limits.set_limit(stranger, "lab", BandwidthLimitIn(in_kbit=2_000))
    with pytest.raises(UnknownTenant):
        limits.get_cap(stranger, "default", "port")
    monkeypatch.setattr(limiting_service, "MOST_LIMITS", 2)
    for target in ("a", "b", "b"):
        limits.set_limit(house.admin, "lab", BandwidthLimitIn(target=target, in_kbit=2_000))
    with pytest.raises(TooManyNetworks, match="has 2 bandwidth limits; 2 is the most"):
        limits.set_limit(house.admin, "lab", BandwidthLimitIn(target="c", in_kbit=2_000))
    first, second = limits.list_limits(house.admin, "lab").limits
    assert (first.target, second.target) == ("a", "b")
    limits.delete_limit(house.admin, "lab", first.id)
    with pytest.raises(UnknownNetwork, match="no bandwidth limit"):
        limits.delete_limit(house.admin, "lab", first.id)
    house.allocations.networks.delete_network(house.admin, "lab")


def test_a_member_of_an_array_is_named_as_jobs_are() -> None:
    assert [make_target(name) for name in ("Train", "train.3", "a_b", "v1.2.0")] == [
        "train",
        "train-3",
        "a-b",
        "v1-2-0",
    ]
