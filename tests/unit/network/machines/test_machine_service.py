"""Machines of the engine: admitted, given work in the right order, and placed on when ready."""

from __future__ import annotations

import sys

import pytest
import sqlalchemy as sa

from gpupool.base.errors import BadQuantity, NetworkingUnavailable
from gpupool.network.machines.tables import network_authorities, network_machines
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.network.engine import NetworkEngineReport, NetworkEngineWork
from gpupool.wire.network.networks import NetworkEngineIn, NetworkIn
from tests.unit.network.conftest import NetworkHouse

pytest.importorskip("cryptography")


def read_work(house: NetworkHouse, agent: str, after: int = 0) -> NetworkEngineWork | None:
    return house.allocations.agents.read_work(agent, after).network


def report(house: NetworkHouse, agent: str, state: str = "ready", **more: object) -> None:
    body = NetworkEngineReport.model_validate({"state": state, **more})
    house.allocations.agents.apply_reports(agent, ReportsIn(network=body))


def enable_two(house: NetworkHouse) -> None:
    house.register(2, "node-2")
    house.allocations.network_engine.enable()
    house.allocations.placer.load()
    report(house, "node-1", northbound="unix:/nowhere", southbound="ssl:10.0.0.1:6642", mtu=1442)


def states(house: NetworkHouse) -> dict[str, tuple[str, str]]:
    found = house.allocations.network_engine.get_state().machines
    return {one.node: (one.role, one.state) for one in found}


def test_one_machine_needs_no_certificate_and_two_have_one_each(house: NetworkHouse) -> None:
    house.allocations.network_engine.enable()
    alone = read_work(house, "node-1")
    assert alone is not None
    assert alone.certificate is None
    assert alone.members == []
    house.register(2, "node-2")
    assert read_work(house, "node-2") is None
    joined = read_work(house, "node-1")
    assert joined is not None
    assert joined.certificate is not None
    assert joined.members == ["gpupool-node-2"]


def test_keys_of_machines_and_of_their_authority_are_encrypted(
    house: NetworkHouse, caplog: pytest.LogCaptureFixture
) -> None:
    enable_two(house)
    with house.store.read() as connection:
        keys = connection.execute(
            sa.select(network_machines.c.private_key).union_all(
                sa.select(network_authorities.c.private_key)
            )
        ).scalars()
        assert [key.partition(".")[0] for key in keys] == ["gpenc1"] * 3
    work = read_work(house, "node-2")
    assert work is not None
    assert work.certificate is not None
    assert "BEGIN PRIVATE KEY" in work.certificate.private_key
    house.lose_key()
    assert read_work(house, "node-2") is None
    # A third machine joins the pool, and networks later.
    house.register(2, "node-3")
    assert read_work(house, "node-3") is None
    assert "node-3 joins no networks: " in caplog.text
    assert set(states(house)) == {"node-1", "node-2"}
    house.store.secrets.rotate(house.store, give_up_lost=True)
    house.allocations.network_engine.admit_agent("node-3")
    new = read_work(house, "node-2")
    assert new is not None
    assert new.certificate is not None
    assert new.certificate.private_key != work.certificate.private_key
    # What the earlier authority has signed is trusted until each machine has its new certificate.
    assert new.certificate.trusted.startswith(work.certificate.trusted)
    assert new.certificate.trusted.count("BEGIN CERTIFICATE") == 2


def test_a_member_gets_work_once_its_centre_has_said_where_it_listens(house: NetworkHouse) -> None:
    house.register(2, "node-2")
    house.allocations.network_engine.enable()
    assert read_work(house, "node-2") is None
    report(house, "node-1", northbound="unix:/nowhere", southbound="ssl:10.0.0.1:6642")
    work = read_work(house, "node-2")
    assert work is not None
    assert (work.role, work.chassis) == ("member", "gpupool-node-2")
    assert work.southbound == "ssl:10.0.0.1:6642"
    assert work.certificate is not None
    assert states(house) == {"node-1": ("centre", "ready"), "node-2": ("member", "starting")}


def test_a_machine_that_gets_no_certificate_has_its_other_work(
    house: NetworkHouse, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    house.allocations.network_engine.enable()
    house.register(2, "node-2")
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert house.allocations.agents.read_work("node-2", 0).live == []
    assert "node-2 joins no networks" in caplog.text
    assert list(states(house)) == ["node-1"]


def test_jobs_join_only_where_the_engine_is_ready(house: NetworkHouse) -> None:
    enable_two(house)
    report(house, "node-1", "failed", reason="no package")
    report(house, "node-2", tunnel="10.0.0.2")
    report(house, "node-1", northbound="unix:/nowhere", southbound="ssl:10.0.0.1:6642")
    report(house, "node-2", "starting", reason="not connected")
    house.create_network("a", "10.0.0.0/24")
    for number in range(8):
        house.submit(1000, None, name=f"job-{number}", network="a")
    placed = {house.job(f"job-{number}").node for number in range(8)}
    assert placed == {"node-1"}
    house.submit(name="elsewhere")
    assert house.job("elsewhere").node == "node-2"


def test_a_claim_that_waits_for_an_engine_says_so(house: NetworkHouse) -> None:
    house.enable()
    house.create_network("a", "10.0.0.0/24")
    for number in range(8):
        house.submit(1000, None, name=f"job-{number}", network="a")
    house.register(4, "node-2")
    house.allocations.placer.load()
    house.submit(1000, None, name="waits", network="a")
    waiting = house.job("waits")
    assert waiting.state == "pending"
    assert waiting.reason is not None
    assert "a ready network engine" in waiting.reason, waiting.reason


def test_a_check_names_a_machine_that_takes_no_jobs_and_why(house: NetworkHouse) -> None:
    enable_two(house)
    report(house, "node-2", "failed", reason="this machine lacks ovs-vswitchd; apt-get install x")
    found = house.allocations.network_engine.check()
    assert found.state == "warn"
    assert "1 of 2 machines take no jobs with a network; node-2 is failed" in found.text
    assert "apt-get install x" in found.text


def test_a_tunnel_address_of_another_machine_is_refused(house: NetworkHouse) -> None:
    enable_two(house)
    report(house, "node-2", tunnel="10.0.0.2", mtu=1442)
    report(house, "node-1", tunnel="10.0.0.2", mtu=1442)
    engine = house.allocations.network_engine.get_state()
    centre = engine.machines[0]
    assert centre.state == "failed"
    assert "the tunnel address of node-2 too" in centre.reason


def test_another_centre_starts_before_members_connect_to_it(house: NetworkHouse) -> None:
    enable_two(house)
    report(house, "node-2", tunnel="10.0.0.2")
    engine = house.allocations.network_engine
    assert engine.enable(NetworkEngineIn(node="node-2")).node == "node-2"
    work = read_work(house, "node-2")
    assert work is not None
    assert (work.role, work.chassis) == ("centre", "gpupool")
    assert read_work(house, "node-1") is None
    assert engine.read_northbound() is None
    report(house, "node-2", northbound="unix:/there", southbound="ssl:10.0.0.2:6642")
    member = read_work(house, "node-1")
    assert member is not None
    assert (member.role, member.southbound) == ("member", "ssl:10.0.0.2:6642")
    with pytest.raises(NetworkingUnavailable, match="no machine node-3; it has node-1, node-2"):
        engine.enable(NetworkEngineIn(node="node-3"))


def test_members_end_before_their_centre_and_the_engine_after_it(house: NetworkHouse) -> None:
    enable_two(house)
    engine = house.allocations.network_engine
    assert engine.disable().state == "stopping"
    member = read_work(house, "node-2")
    assert member is not None
    assert member.want == "stop"
    assert read_work(house, "node-1") is None
    report(house, "node-2", "stopped")
    centre = read_work(house, "node-1")
    assert centre is not None
    assert centre.want == "stop"
    assert engine.get_state().state == "stopping"
    report(house, "node-1", "stopped")
    assert engine.get_state().state == "off"
    assert engine.get_state().machines == []


def test_an_engine_that_is_enabled_while_it_ends_starts_on_every_machine(
    house: NetworkHouse,
) -> None:
    enable_two(house)
    engine = house.allocations.network_engine
    engine.disable()
    assert engine.enable().state == "starting"
    work = read_work(house, "node-1")
    assert work is not None
    assert (work.want, work.role) == ("run", "centre")
    assert states(house) == {"node-1": ("centre", "starting"), "node-2": ("member", "starting")}


def test_packets_that_some_tunnel_does_not_carry_are_refused(house: NetworkHouse) -> None:
    enable_two(house)
    report(house, "node-2", tunnel="10.0.0.2", mtu=1342)
    networks = house.allocations.networks
    subnets = [{"name": "default", "cidr": "10.0.0.0/24"}]
    body = {"name": "a", "subnets": subnets}
    with pytest.raises(BadQuantity, match="1442 bytes do not fit: tunnels of node-2 carry 1342"):
        networks.create_network(house.admin, NetworkIn.model_validate(body))
    fitting = NetworkIn.model_validate({**body, "mtu": 1342})
    assert networks.create_network(house.admin, fitting).mtu == 1342


def test_certificates_are_renewed_when_they_are_due(house: NetworkHouse) -> None:
    enable_two(house)
    first = read_work(house, "node-2")
    assert first is not None
    again = read_work(house, "node-2")
    assert again == first
    with house.store.write() as write:
        write.execute(network_machines.update().values(renew_ns=0))
    renewed = read_work(house, "node-2")
    assert renewed is not None
    assert first.certificate is not None
    assert renewed.certificate is not None
    assert renewed.certificate.certificate != first.certificate.certificate
    assert renewed.certificate.trusted == first.certificate.trusted
