"""Mirrors of tenants: made between running jobs, shown as read back, and ended with a job."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.allocations.store.tables import allocations
from gpupool.base.errors import (
    BadInput,
    GpupoolError,
    NameTaken,
    TooManyNetworks,
    UnknownNetwork,
    WrongState,
)
from gpupool.fleet.tables import nodes
from gpupool.model.tenant import Principal, UserRole
from gpupool.network.machines.service import admit_machines
from gpupool.network.machines.tables import network_machines
from gpupool.network.mirroring import service as module
from gpupool.network.mirroring.mirror_states import MirrorStates
from gpupool.network.mirroring.service import MirrorService
from gpupool.network.mirroring.tunnel_keys import find_tunnel_key
from gpupool.network.ports import delete_ports
from gpupool.network.tables import network_ports
from gpupool.store.database import WriteTransaction
from gpupool.tenancy.tenants import insert_tenant
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.network.engine import NetworkEngineReport
from gpupool.wire.network.mirrors import MirrorIn, MirrorReading, MirrorWork
from tests.unit.network.conftest import NetworkHouse


@pytest.fixture
def mirrors(house: NetworkHouse) -> MirrorService:
    house.enable()
    house.create_network("lab", "10.0.0.0/24")
    for name in ("web", "sensor"):
        house.submit(name=name, network="lab")
    return house.allocations.network_mirrors


def create(house: NetworkHouse, name: str = "copies", **more: str) -> None:
    body = {"name": name, "source": "web", "target": "sensor", **more}
    house.allocations.network_mirrors.create_mirror(
        house.admin, "lab", MirrorIn.model_validate(body)
    )


def read_work(house: NetworkHouse) -> list[MirrorWork]:
    work = house.allocations.agents.read_work("node-1", 0).network
    assert work is not None
    return work.mirrors


def show(house: NetworkHouse) -> tuple[str, str, int]:
    (mirror,) = house.allocations.network_mirrors.list_mirrors(house.admin, "lab")
    return (mirror.state, mirror.reason, mirror.packets)


def test_a_mirror_is_verified_when_the_switch_has_counted_copies(
    house: NetworkHouse, mirrors: MirrorService
) -> None:
    create(house, direction="in")
    (work,) = read_work(house)
    assert (work.interface, work.direction) == ("copies", "in")
    assert show(house) == ("not enforced", "the machine has not confirmed it yet", 0)
    for reading, expected in (
        ({"reason": "the two jobs are on different machines"}, "not enforced"),
        ({}, "set"),
        ({"packets": 7, "bytes": 700}, "verified"),
    ):
        made = MirrorReading.model_validate({"key": work.key, **reading})
        report = NetworkEngineReport(state="ready", northbound="unix:/nowhere", mirrors=[made])
        house.allocations.agents.apply_reports("node-1", ReportsIn(network=report))
        assert show(house) == (expected, made.reason, made.packets)


def test_a_mirror_ends_with_either_of_its_jobs(house: NetworkHouse, mirrors: MirrorService) -> None:
    create(house)
    with house.store.write() as write:
        query = network_ports.select().where(network_ports.c.name == "sensor")
        port = write.execute(query).one()
        delete_ports(write, [port.allocation_id])
    assert mirrors.list_mirrors(house.admin, "lab") == []
    assert read_work(house) == []


@pytest.mark.parametrize(
    ("more", "error", "match"),
    [
        ({"target": "gone"}, UnknownNetwork, "has the name 'gone' now"),
        ({"target": "web"}, WrongState, "source and the target of one mirror"),
        ({"name": "eth0"}, BadInput, "name of an interface"),
        ({"name": "a-name-of-16-chs"}, BadInput, "up to 15 characters"),
    ],
)
def test_what_is_refused_says_why(
    house: NetworkHouse,
    mirrors: MirrorService,
    more: dict[str, str],
    error: type[GpupoolError],
    match: str,
) -> None:
    with pytest.raises(error, match=match):
        create(house, **more)
    assert mirrors.list_mirrors(house.admin, "lab") == []


def test_names_and_numbers_of_mirrors_are_bounded(
    house: NetworkHouse, mirrors: MirrorService, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(house)
    with pytest.raises(NameTaken, match="already has a mirror 'copies'"):
        create(house)
    monkeypatch.setattr(module, "MOST_MIRRORS", 1)
    with pytest.raises(TooManyNetworks, match="has 1 mirrors; 1 is the most"):
        create(house, "more")
    with house.store.write() as write:
        tenant = insert_tenant(write, "other")
    stranger = Principal(2, "eve", tenant, "other", UserRole.TENANT_ADMIN)
    with pytest.raises(UnknownNetwork):
        mirrors.delete_mirror(stranger, "lab", "copies")
    mirrors.delete_mirror(house.admin, "lab", "copies")
    with pytest.raises(UnknownNetwork, match="no mirror 'copies'"):
        mirrors.delete_mirror(house.admin, "lab", "copies")


def test_the_machine_that_makes_a_mirror_speaks_for_it() -> None:
    states = MirrorStates()
    states.replace("one", [MirrorReading(key="m-1", reason="elsewhere")])
    states.replace("two", [MirrorReading(key="m-1", packets=3)])
    found = states.get("m-1")
    assert found is not None
    assert found.packets == 3
    states.replace("two", [])
    found = states.get("m-1")
    assert found is not None
    assert found.reason == "elsewhere"
    assert states.get("m-2") is None


def test_both_machines_confirm_a_mirror_between_them() -> None:
    states = MirrorStates()
    first = MirrorReading(key="m-1", part="source", packets=9)
    second = MirrorReading(key="m-1", part="target", packets=3)
    states.replace("one", [first])
    found = states.get("m-1")
    assert found is not None
    assert found.reason == "the machine of the target has not confirmed it yet"
    states.replace("two", [second])
    # What arrives counts.
    assert states.get("m-1") == second
    fault = MirrorReading(key="m-1", part="source", reason="no such device")
    states.replace("one", [fault])
    assert states.get("m-1") == fault


def test_machines_of_a_mirror_learn_each_other_and_a_number_of_its_own(
    house: NetworkHouse, mirrors: MirrorService, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(house)
    assert [work.tunnel_key for work in read_work(house)] == [0]
    with house.store.write() as write:
        query = network_ports.select().where(network_ports.c.name == "sensor")
        port = write.execute(query).one()
        move_allocation(write, port.allocation_id, "other", "192.0.2.2")
    (work,) = read_work(house)
    assert (work.source_tunnel, work.target_tunnel) == ("", "192.0.2.2")
    assert work.tunnel_key == find_tunnel_key(work.key)
    # The next two ids would have the number of the first mirror.
    ids = iter([work.key, work.key, "m-zzzzzzzzzz"])
    monkeypatch.setattr(module, "new_id", lambda _kind: next(ids))
    create(house, "more")
    assert [one.key for one in read_work(house)] == [work.key, "m-zzzzzzzzzz"]


def move_allocation(write: WriteTransaction, allocation_id: int, agent: str, tunnel: str) -> None:
    """Put an allocation on a new node of another agent, with an address for tunnels."""
    values = write.execute(sa.select(nodes)).mappings().first()
    assert values is not None
    own = {"id": None, "name": agent, "agent": agent}
    node = write.insert(nodes, **{**values, **own})
    ours = allocations.c.id == allocation_id
    write.execute(allocations.update().where(ours).values(node_id=node))
    admit_machines(write, [agent])
    machine = network_machines.c.agent == agent
    write.execute(network_machines.update().where(machine).values(tunnel=tunnel))
