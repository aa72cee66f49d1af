"""Networks are put into zones, moved, and refused, on the pool's own database."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.base.errors import (
    NetworkingUnavailable,
    TooManyNetworks,
    UnknownNetwork,
    WrongState,
)
from gpupool.network.engine_work import read_engine_work
from gpupool.network.machines.service import admit_machines
from gpupool.network.tables import networks
from gpupool.wire.network.engine import NetworkEngineWork
from gpupool.wire.network.lines import LineIn
from gpupool.wire.network.networks import NetworkEngineIn, NetworkIn, NetworkOut, SubnetIn
from gpupool.wire.network.zones import NetworkZoneReport
from tests.unit.network.conftest import NetworkHouse


def enable(house: NetworkHouse, size: int = 1) -> None:
    house.allocations.network_engine.enable(NetworkEngineIn(zone_size=size))
    house.tell_engine("ready", northbound="unix:/nowhere")


def create(house: NetworkHouse, name: str, zone: int | None = None) -> NetworkOut:
    number = ord(name) - ord("a")
    subnets = [SubnetIn(cidr=f"10.{number}.0.0/24")]
    body = NetworkIn(name=name, subnets=subnets, zone=zone)
    return house.allocations.networks.create_network(house.admin, body)


def read_zones(house: NetworkHouse) -> dict[str, int]:
    with house.store.read() as connection:
        rows = connection.execute(sa.select(networks.c.name, networks.c.zone))
        return {row.name: row.zone for row in rows}


def read_work(house: NetworkHouse) -> NetworkEngineWork:
    with house.store.read() as connection:
        _, work = read_engine_work(connection, house.store, "node-1", 0)
    assert work is not None
    return work


def peer(house: NetworkHouse, requester: NetworkOut, accepter: NetworkOut) -> None:
    peerings = house.allocations.network_peerings
    made = peerings.request_peering(house.admin, requester.name, accepter.id)
    peerings.accept_peering(house.admin, accepter.name, made.id)


def test_the_agent_begins_and_ends_zones_with_their_networks(house: NetworkHouse) -> None:
    enable(house)
    assert [create(house, name).zone for name in "abc"] == [0, 1, 2]
    assert read_work(house).zones == [1, 2]
    house.allocations.networks.delete_network(house.admin, "b")
    assert read_work(house).zones == [2]
    assert create(house, "d").zone == 1


def test_the_size_of_zones_is_for_networks_that_come_later(house: NetworkHouse) -> None:
    enable(house)
    for name in "ab":
        create(house, name)
    enable(house, 2)
    assert [create(house, name).zone for name in "cd"] == [0, 1]
    assert read_zones(house) == {"a": 0, "b": 1, "c": 0, "d": 1}
    assert house.allocations.network_engine.get_state().zone_size == 2


def test_a_zone_that_is_asked_for_is_used_and_not_too_full(house: NetworkHouse) -> None:
    enable(house)
    with pytest.raises(UnknownNetwork, match="zones that are used: 0"):
        create(house, "a", 1)
    assert [create(house, name, 0).zone for name in "ab"] == [0, 0]
    with pytest.raises(TooManyNetworks, match="zone 0 has 2 networks; 2 is the most"):
        create(house, "c", 0)
    assert read_zones(house) == {"a": 0, "b": 0}


def test_several_machines_have_zone_0_alone(house: NetworkHouse) -> None:
    enable(house)
    with house.store.write() as write:
        admit_machines(write, ["node-2"])
    assert [create(house, name).zone for name in "ab"] == [0, 0]
    with pytest.raises(NetworkingUnavailable, match="they are on 2"):
        create(house, "c", 1)


def test_a_machine_more_is_refused_while_there_are_zones(house: NetworkHouse) -> None:
    enable(house)
    for name in "ab":
        create(house, name)
    engine = house.allocations.network_engine
    house.register(2, "node-2")
    engine.admit_agent("node-2")
    state = engine.get_state()
    assert [machine.node for machine in state.machines] == ["node-1"]
    assert "do not run on node-2: networks are in 2 zones" in state.reason
    with pytest.raises(WrongState, match="2 zones, which need one machine: node-1"):
        engine.enable(NetworkEngineIn(node="node-2"))
    with pytest.raises(WrongState, match="2 zones"):
        engine.enable(NetworkEngineIn(databases=["node-1", "node-2", "node-3"]))


def test_networks_are_placed_when_networking_is_enabled(house: NetworkHouse) -> None:
    for name in "abc":
        create(house, name)
    assert read_zones(house) == {"a": 0, "b": 0, "c": 0}
    enable(house, 2)
    assert read_zones(house) == {"a": 0, "b": 0, "c": 1}


def test_a_network_without_jobs_moves_to_the_one_it_is_peered_with(house: NetworkHouse) -> None:
    enable(house)
    first = create(house, "a")
    second = create(house, "b")
    house.submit(name="job", network="b")
    peer(house, second, first)
    assert read_zones(house) == {"a": 1, "b": 1}


def test_the_requester_moves_where_the_accepter_cannot(house: NetworkHouse) -> None:
    enable(house)
    first = create(house, "a")
    second = create(house, "b")
    house.submit(name="job", network="a")
    peer(house, second, first)
    assert read_zones(house) == {"a": 0, "b": 0}
    assert read_work(house).zones == []


def test_a_peering_between_zones_with_jobs_in_both_is_refused(house: NetworkHouse) -> None:
    enable(house)
    first = create(house, "a")
    second = create(house, "b")
    for name in "ab":
        house.submit(name=f"job-{name}", network=name)
    with pytest.raises(WrongState, match="a is in zone 0 and the other one in zone 1") as refusal:
        peer(house, second, first)
    assert "a has jobs" in refusal.value.message
    assert "--zone 1" in refusal.value.hint
    assert read_zones(house) == {"a": 0, "b": 1}
    beside = create(house, "c", 1)
    peer(house, second, beside)
    (peering,) = house.allocations.network_peerings.list_peerings(house.admin, "c")
    assert peering.state == "accepted"


def test_a_dedicated_line_needs_zone_0(house: NetworkHouse) -> None:
    enable(house)
    for name in "ab":
        create(house, name)
    line = LineIn(
        vlan=200,
        address="192.168.200.1/29",
        peer="192.168.200.4",
        asn=64512,
        peer_asn=64513,
        allowed=["172.16.0.0/12"],
    )
    with pytest.raises(WrongState, match="need a network of zone 0; b is in zone 1"):
        house.allocations.network_lines.create_line(house.admin, "b", line)


def test_jobs_are_refused_where_their_zone_has_failed(house: NetworkHouse) -> None:
    enable(house)
    for name in "ab":
        create(house, name)
    failed = NetworkZoneReport(number=1, state="failed", reason="no memory")
    house.tell_engine("ready", northbound="unix:/nowhere", zones=[failed])
    house.submit(name="one", network="a")
    with pytest.raises(NetworkingUnavailable, match="zone 1 of networks failed: no memory"):
        house.submit(name="two", network="b")
