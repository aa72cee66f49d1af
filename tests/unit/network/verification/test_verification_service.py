"""A verification makes two networks, is served by the agent, and is kept as its report."""

from __future__ import annotations

import pytest

from gpupool.base.errors import NetworkingUnavailable, UnknownNetwork, WrongState
from gpupool.model.tenant import Principal, UserRole
from gpupool.network.verification import service as verification_service
from gpupool.network.verification.service import NetworkVerificationService
from gpupool.network.verification.twins import read_twins
from gpupool.tenancy.tenants import insert_tenant
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.network.engine import NetworkEngineReport
from gpupool.wire.network.promises import (
    BandwidthLimitIn,
    LimitMeasurement,
    LimitReading,
    NetworkCheck,
    NetworkVerificationIn,
    NetworkVerificationReport,
    NetworkVerificationWork,
)
from tests.unit.network.conftest import NetworkHouse


@pytest.fixture
def verifications(house: NetworkHouse) -> NetworkVerificationService:
    house.enable()
    house.create_network("lab", "10.7.0.0/24")
    return house.allocations.network_verifications


def read_work(house: NetworkHouse) -> NetworkVerificationWork | None:
    work = house.allocations.agents.read_work("node-1", 0).network
    assert work is not None
    return work.verification


def report(house: NetworkHouse, found: NetworkVerificationReport) -> None:
    body = NetworkEngineReport(state="ready", northbound="unix:/nowhere", verification=found)
    house.allocations.agents.apply_reports("node-1", ReportsIn(network=body))


def list_twins(house: NetworkHouse) -> list[tuple[str, list[str]]]:
    with house.store.read() as connection:
        twins = read_twins(connection).values()
    return [
        (str(twin.subnets[0].cidr), [str(port.address) for port in twin.ports]) for twin in twins
    ]


def test_a_verification_has_two_networks_until_its_report(
    house: NetworkHouse, verifications: NetworkVerificationService
) -> None:
    house.submit(name="one", network="lab")
    started = verifications.start(house.admin, NetworkVerificationIn(network="lab"))
    assert (started.state, started.kept, started.network) == ("running", None, "lab")
    assert list_twins(house) == [
        ("10.7.0.0/24", ["10.7.0.2", "10.7.0.3"]),
        ("10.7.0.0/24", ["10.7.0.3"]),
    ]
    work = read_work(house)
    assert work is not None
    assert work.sender.network == work.control.network != work.outsider.network
    assert [job.name for job in work.jobs] == ["one"]
    macs = {port.mac for port in (work.sender, work.control, work.outsider, *work.jobs)}
    assert len(macs) == 4
    with pytest.raises(WrongState, match="another verification of networks runs"):
        verifications.start(house.admin, NetworkVerificationIn())
    checks = [NetworkCheck(name="isolation/udp", kept=True), NetworkCheck(name="dns", kept=None)]
    report(house, NetworkVerificationReport(id=started.id, checks=checks))
    done = verifications.get(house.admin, started.id)
    # No database answers at `unix:/nowhere`, so there is no verdict on drift.
    assert [(one.name, one.kept) for one in done.checks] == [
        ("drift", None),
        ("isolation/udp", True),
        ("dns", None),
    ]
    assert (done.state, done.kept) == ("done", True)
    assert list_twins(house) == []
    assert read_work(house) is None
    # The same report again, as agents send it, changes nothing.
    report(house, NetworkVerificationReport(id=started.id, checks=checks))
    assert verifications.get(house.admin, started.id) == done
    house.finish("one")
    house.allocations.networks.delete_network(house.admin, "lab")


def test_one_promise_that_is_not_kept_breaks_the_verdict(
    house: NetworkHouse, verifications: NetworkVerificationService
) -> None:
    started = verifications.start(house.admin, NetworkVerificationIn())
    checks = [NetworkCheck(name="a", kept=True), NetworkCheck(name="b", kept=False)]
    report(house, NetworkVerificationReport(id=started.id, checks=checks))
    assert verifications.get(house.admin, started.id).kept is False


def test_a_measured_limit_is_verified_until_it_changes(
    house: NetworkHouse, verifications: NetworkVerificationService
) -> None:
    house.submit(name="one", network="lab")
    limits = house.allocations.bandwidth_limits
    limits.set_limit(house.admin, "lab", BandwidthLimitIn(in_kbit=20_000))
    started = verifications.start(house.admin, NetworkVerificationIn(network="lab"))
    work = read_work(house)
    assert work is not None
    (job,) = work.jobs
    reading = LimitReading(key=job.key, in_kbit=20_000)
    measured = LimitMeasurement(
        key=job.key, direction="in", limit_kbit=20_000, measured_kbit=19_600
    )
    found = NetworkVerificationReport(id=started.id, checks=[], measurements=[measured])
    body = NetworkEngineReport(
        state="ready", northbound="unix:/nowhere", limits=[reading], verification=found
    )
    house.allocations.agents.apply_reports("node-1", ReportsIn(network=body))
    (state,) = limits.list_limits(house.admin, "lab").states
    assert (state.inward.state, state.inward.measured_kbit) == ("verified", 19_600)
    limits.set_limit(house.admin, "lab", BandwidthLimitIn(in_kbit=30_000))
    report_limits = NetworkEngineReport(
        state="ready",
        northbound="unix:/nowhere",
        limits=[LimitReading(key=job.key, in_kbit=30_000)],
    )
    house.allocations.agents.apply_reports("node-1", ReportsIn(network=report_limits))
    (state,) = limits.list_limits(house.admin, "lab").states
    assert (state.inward.state, state.inward.measured_kbit) == ("set", None)


def test_a_verification_without_a_report_fails_and_makes_room(
    house: NetworkHouse,
    verifications: NetworkVerificationService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = verifications.start(house.admin, NetworkVerificationIn())
    monkeypatch.setattr(verification_service, "_MOST_SECONDS", 0)
    assert verifications.get(house.admin, lost.id).state == "failed"
    monkeypatch.setattr(verification_service, "_MOST_SECONDS", -1)
    verifications.start(house.admin, NetworkVerificationIn())
    assert len(list_twins(house)) == 2


def test_a_tenant_verifies_its_own_networks_and_sees_its_own_reports(
    house: NetworkHouse, verifications: NetworkVerificationService
) -> None:
    house.submit(name="one", network="lab")
    with house.store.write() as write:
        tenant = insert_tenant(write, "other")
    stranger = Principal(2, "eve", tenant, "other", UserRole.TENANT_ADMIN)
    with pytest.raises(UnknownNetwork):
        verifications.start(stranger, NetworkVerificationIn(network="lab"))
    theirs = verifications.start(stranger, NetworkVerificationIn())
    work = read_work(house)
    assert work is not None
    assert work.jobs == []
    report(house, NetworkVerificationReport(id=theirs.id, checks=[]))
    ours = verifications.start(house.admin, NetworkVerificationIn(network="lab"))
    assert [one.id for one in verifications.list_last(stranger)] == [theirs.id]
    with pytest.raises(UnknownNetwork):
        verifications.get(stranger, ours.id)
    assert verifications.get(house.admin, theirs.id).kept is None


def test_without_an_engine_nothing_begins(house: NetworkHouse) -> None:
    with pytest.raises(NetworkingUnavailable):
        house.allocations.network_verifications.start(house.admin, NetworkVerificationIn())
