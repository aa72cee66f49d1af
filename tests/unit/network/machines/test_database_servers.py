"""A cluster of databases: formed, changed and ended, in any order of reports and with lost ones."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from gpupool.base.errors import NetworkingUnavailable
from gpupool.network.engine_service import NetworkEngineService
from gpupool.wire.fleet import ReportsIn
from gpupool.wire.network.databases import (
    DatabaseReplica,
    DatabaseServerReport,
    DatabaseServerWork,
)
from gpupool.wire.network.engine import NetworkEngineReport, NetworkEngineWork
from gpupool.wire.network.networks import NetworkEngineIn, NetworkEngineOut
from tests.unit.network.conftest import NetworkHouse

pytest.importorskip("cryptography")

NODES = ("node-1", "node-2", "node-3", "node-4")
DATABASES = ("northbound", "southbound")


@dataclass
class Disk:
    """What a machine has on its disk of a cluster."""

    cluster: int
    has_files: bool = False


@dataclass
class Machines:
    """Agents with the rules of the real one, and the clusters that their servers are members of."""

    house: NetworkHouse
    disks: dict[str, Disk] = field(default_factory=dict)
    #: By cluster, its members in the order in which they joined; the first one leads.
    members: dict[int, list[str]] = field(default_factory=dict)
    created: list[int] = field(default_factory=list)

    def read_work(self, node: str) -> NetworkEngineWork | None:
        return self.house.allocations.agents.read_work(node, 0).network

    def act(self, node: str, *, is_report_lost: bool = False) -> None:
        """Do what the machine's work says; an agent that is killed by then reports nothing."""
        work = self.read_work(node)
        report = None if work is None else self._apply(node, work.databases)
        if is_report_lost:
            return
        places = {"northbound": "unix:/nowhere"} if node == "node-1" else {}
        if node == "node-1" and report is None:
            places["southbound"] = "ssl:10.0.0.1:6642"
        body = NetworkEngineReport(state="ready", databases=report, **places)
        self.house.allocations.agents.apply_reports(node, ReportsIn(network=body))

    def _apply(self, node: str, work: DatabaseServerWork | None) -> DatabaseServerReport | None:
        disk = self.disks.get(node)
        if disk is not None and (work is None or work.cluster != disk.cluster):
            del self.disks[node]
            disk = None
        if work is None:
            return None
        if work.step == "serve" and (disk is None or not disk.has_files):
            self.disks.pop(node, None)
            return DatabaseServerReport(cluster=work.cluster, is_lost=True)
        if work.step == "prepare":
            self.disks[node] = Disk(work.cluster)
        disk = self.disks.setdefault(node, Disk(work.cluster))
        peer = locate_peer(node)
        if work.step == "create" and not disk.has_files:
            self.created.append(work.cluster)
            self.members[work.cluster] = [peer]
        if work.step == "join" and not disk.has_files:
            assert set(work.peers.northbound) & set(self.members[work.cluster])
            assert peer not in self.members[work.cluster], "a server with an address of another one"
            self.members[work.cluster].append(peer)
        disk.has_files = disk.has_files or work.step in ("create", "join")
        members = self.members.get(work.cluster, [])
        if members and members[0] == peer:
            # As the real one: what it was asked to remove may be gone by now.
            for address in set(members).intersection(work.expelled.northbound):
                members.remove(address)
        return self._report(work.cluster, peer)

    def _report(self, cluster: int, peer: str) -> DatabaseServerReport:
        members = self.members.get(cluster, [])
        replica = DatabaseReplica(address=peer)
        if peer in members:
            role = "leader" if members[0] == peer else "follower"
            replica = DatabaseReplica(
                address=peer, role=role, term=1, is_member=True, members=list(members)
            )
        return DatabaseServerReport(
            cluster=cluster,
            northbound_remote=f"{peer}:nb",
            southbound_remote=f"{peer}:sb",
            northbound=replica,
            southbound=replica,
        )

    def choose(self, *nodes: str) -> NetworkEngineOut:
        body = NetworkEngineIn(databases=list(nodes))
        return self.house.allocations.network_engine.enable(body)

    def settle(self, *, without: str = "") -> None:
        for _ in range(8):
            for node in NODES:
                if node != without:
                    self.act(node)

    def states(self) -> dict[str, str]:
        engine = self.house.allocations.network_engine.get_state()
        return {one.node: one.state for one in engine.databases}


def locate_peer(node: str) -> str:
    return f"ssl:10.0.0.{node[-1]}:6643"


@pytest.fixture
def machines(house: NetworkHouse) -> Machines:
    for node in NODES[1:]:
        house.register(2, node)
    house.allocations.network_engine.enable()
    made = Machines(house)
    made.settle()
    return made


def southbound(machines: Machines, node: str) -> str:
    work = machines.read_work(node)
    assert work is not None
    return work.southbound


def test_three_machines_become_servers_and_every_client_names_all(machines: Machines) -> None:
    assert southbound(machines, "node-4") == "ssl:10.0.0.1:6642"
    machines.choose("node-1", "node-2", "node-3")
    machines.settle()
    assert machines.states() == dict.fromkeys(NODES[:3], "joined")
    assert len(machines.created) == 1
    peers = [locate_peer(node) for node in NODES[:3]]
    assert machines.members[machines.created[0]] == peers
    wanted = ",".join(f"{peer}:sb" for peer in peers)
    assert {southbound(machines, node) for node in NODES} == {wanted}
    remote = machines.house.allocations.network_engine.read_northbound()
    assert remote == ",".join(f"{peer}:nb" for peer in peers)


def test_members_stay_at_the_centre_until_it_serves_the_cluster(machines: Machines) -> None:
    machines.choose("node-1", "node-2", "node-3")
    for node in ("node-2", "node-3", "node-2"):
        machines.act(node)
    assert southbound(machines, "node-2") == "ssl:10.0.0.1:6642"
    work = machines.read_work("node-2")
    assert work is not None
    assert work.databases is not None
    assert work.databases.step == "prepare"


def test_a_machine_is_replaced_and_the_lost_one_is_removed(machines: Machines) -> None:
    machines.choose("node-1", "node-2", "node-3")
    machines.settle()
    machines.choose("node-1", "node-3", "node-4")
    assert machines.states()["node-2"] == "leaving"
    # It is lost for good: its agent reports no more.
    machines.settle(without="node-2")
    assert machines.states() == dict.fromkeys(("node-1", "node-3", "node-4"), "joined")
    members = machines.members[machines.created[0]]
    assert locate_peer("node-2") not in members
    assert len(members) == 3
    # Should it come back, it removes what it has.
    machines.act("node-2")
    assert "node-2" not in machines.disks


def test_a_server_that_never_came_up_is_replaced_without_an_alarm(machines: Machines) -> None:
    machines.choose("node-1", "node-2", "node-3")
    # It has chosen its ports, and then it is lost.
    for node in ("node-2", "node-1", "node-1"):
        machines.act(node)
    assert machines.states() == {"node-1": "joined", "node-2": "joining", "node-3": "joining"}
    assert machines.choose("node-1", "node-3", "node-4").state == "ready"
    assert machines.choose("node-1", "node-4", "node-3").state == "ready"
    machines.settle(without="node-2")
    assert machines.states() == dict.fromkeys(("node-1", "node-3", "node-4"), "joined")


def test_a_server_whose_disk_is_lost_joins_again(machines: Machines) -> None:
    machines.choose("node-1", "node-2", "node-3")
    machines.settle()
    del machines.disks["node-2"]
    machines.act("node-2")
    assert machines.states()["node-2"] == "lost"
    machines.settle()
    assert machines.states() == dict.fromkeys(NODES[:3], "joined")
    assert len(machines.created) == 1
    assert len(machines.members[machines.created[0]]) == 3


def test_the_centre_alone_ends_the_cluster(machines: Machines) -> None:
    machines.choose("node-1", "node-2", "node-3")
    machines.settle()
    assert machines.choose("node-1").state == "starting"
    machines.settle()
    assert machines.disks == {}
    assert machines.states() == {}
    assert {southbound(machines, node) for node in NODES[1:]} == {"ssl:10.0.0.1:6642"}
    assert machines.house.allocations.network_engine.get_state().state == "ready"


def test_every_machine_knows_the_number_of_the_cluster_that_it_connects_to(
    machines: Machines,
) -> None:
    def read_numbers() -> set[int]:
        works = [machines.read_work(node) for node in NODES]
        return {work.cluster for work in works if work is not None}

    numbers = list[set[int]]()
    for chosen in (NODES[:3], NODES[:1], NODES[:3]):
        machines.choose(*chosen)
        machines.settle()
        numbers.append(read_numbers())
    assert machines.created[0] != machines.created[1]
    assert numbers == [{machines.created[0]}, {0}, {machines.created[1]}]


def test_a_cluster_whose_files_are_all_gone_begins_again(machines: Machines) -> None:
    machines.choose("node-1", "node-2", "node-3")
    for node in ("node-1", "node-1"):
        machines.act(node)
    assert machines.states()["node-1"] == "joined"
    machines.disks.clear()
    machines.settle()
    assert machines.states() == dict.fromkeys(NODES[:3], "joined")
    assert len(set(machines.created)) == 2


@pytest.mark.parametrize("seed", range(4))
def test_any_order_of_reports_and_kills_ends_with_the_wanted_servers(
    machines: Machines, seed: int
) -> None:
    order = random.Random(seed)
    others = [node for node in NODES if node != "node-1"]
    for _ in range(3):
        wish = ("node-1", *order.sample(others, 2))
        try:
            machines.choose(*wish)
        except NetworkingUnavailable:
            # Too many have lost their disks just now: the cluster first heals.
            machines.settle()
            machines.choose(*wish)
        for _ in range(order.randrange(40)):
            node = order.choice(NODES)
            if (
                machines.states().get(node) == "joined"
                and node != "node-1"
                and order.random() < 0.2
            ):
                machines.disks.pop(node, None)
            machines.act(node, is_report_lost=order.random() < 0.4)
    machines.settle()
    assert machines.states() == dict.fromkeys(wish, "joined")
    assert len(machines.created) == 1
    assert sorted(machines.members[machines.created[0]]) == sorted(map(locate_peer, wish))
    assert sorted(machines.disks) == sorted(wish)


def test_numbers_and_machines_that_do_not_do_are_refused_with_the_reason(
    machines: Machines,
) -> None:
    with pytest.raises(NetworkingUnavailable, match="2 machines for the databases"):
        machines.choose("node-1", "node-2")
    with pytest.raises(NetworkingUnavailable, match="no machine node-9; it has node-1, node-2"):
        machines.choose("node-1", "node-2", "node-9")
    with pytest.raises(NetworkingUnavailable, match="the databases are on node-1, the centre"):
        machines.choose("node-2", "node-3", "node-4")
    with pytest.raises(NetworkingUnavailable, match="the databases are on node-1, the centre"):
        machines.choose("node-2")
    assert machines.states() == {}


def test_a_cluster_without_majority_refuses_changes_and_says_so(machines: Machines) -> None:
    machines.choose("node-1", "node-2", "node-3")
    machines.settle()
    house = machines.house
    away = {"node-2"}
    engine = NetworkEngineService(house.store, 0, lambda _: list(NODES), away.__contains__)
    assert engine.get_state().state == "ready"
    check = engine.check()
    assert check.state == "warn"
    assert "1 of 3 servers of the databases away (node-2): changes wait if one more fails" in (
        check.text
    )
    away.add("node-3")
    state = engine.get_state()
    assert state.state == "failed"
    assert "existing traffic flows, changes wait for 1 of them" in state.reason
    assert engine.check().state == "fail"
    body = NetworkEngineIn(databases=["node-1", "node-2", "node-4"])
    with pytest.raises(NetworkingUnavailable, match="2 of 3 servers of the databases are away"):
        engine.enable(body)
    # Back to the centre alone, which needs no majority.
    assert engine.enable(NetworkEngineIn(databases=["node-1"])).databases == []


def test_another_centre_leaves_the_databases_where_they_are(machines: Machines) -> None:
    machines.choose("node-1", "node-2", "node-3")
    machines.settle()
    before = southbound(machines, "node-4")
    engine = machines.house.allocations.network_engine
    assert engine.enable(NetworkEngineIn(node="node-4")).node == "node-4"
    assert {southbound(machines, node) for node in NODES} == {before}
    assert machines.states() == dict.fromkeys(NODES[:3], "joined")


def test_another_centre_before_a_server_has_joined_ends_the_forming(machines: Machines) -> None:
    machines.choose("node-1", "node-2", "node-3")
    machines.act("node-1")
    engine = machines.house.allocations.network_engine
    assert engine.enable(NetworkEngineIn(node="node-2")).databases == []


def test_disable_ends_the_cluster_too(machines: Machines) -> None:
    machines.choose("node-1", "node-2", "node-3")
    machines.settle()
    machines.house.allocations.network_engine.disable()
    assert machines.states() == {}
    work = machines.read_work("node-2")
    assert work is not None
    assert (work.want, work.databases) == ("stop", None)
