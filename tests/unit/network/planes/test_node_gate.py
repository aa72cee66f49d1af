"""Which nodes tenants get: those where every plane that they demand is in force."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.base.errors import StaleGeneration, WrongState
from gpupool.model.claim import PLANES_LABEL, describe_planes_label
from gpupool.network.planes.node_gate import NodeGate, NodeGrant, read_gate, refuse_closed_nodes
from gpupool.network.planes.tables import plane_evidence
from gpupool.wire.jobs import ExplainOut
from gpupool.wire.network.firewall import FirewallRuleIn
from gpupool.wire.network.networks import NetworkIn, SubnetIn
from gpupool.wire.network.planes import PlaneNodesIn, PlaneReportIn
from gpupool.wire.submissions import GroupIn, RoleIn
from tests.unit.network.planes.conftest import NO_NUMBERS, PlaneHouse


def find_nodes(house: PlaneHouse, name: str) -> set[str]:
    return {seat.device.partition(":")[0] for seat in house.job(name).seats}


def explain(house: PlaneHouse, name: str) -> ExplainOut:
    return house.allocations.jobs.explain_job(name, house.admin)


def test_no_node_is_handed_out_until_the_plane_is_in_force(house: PlaneHouse) -> None:
    house.demand("roce")
    assert house.run_job(house.manager, "train").state == "pending"
    answer = explain(house, "train")
    assert "every plane of acme in force" in answer.sentence
    assert any(
        hint.startswith("node-1: roce is not in force: leaf-1.frr.conf was never reported")
        for hint in answer.hints
    )
    house.apply_files("leaf-1.frr.conf", "leaf-1.interfaces", "leaf-2.frr.conf")
    assert house.place("train").state == "pending"
    house.apply_files("leaf-2.interfaces")
    assert house.place("train").state == "starting"
    assert find_nodes(house, "train") == {"node-1"}


def test_every_plane_that_is_demanded_counts(house: PlaneHouse) -> None:
    house.demand("roce", "infiniband")
    house.apply_files(
        "leaf-1.frr.conf", "leaf-1.interfaces", "leaf-2.frr.conf", "leaf-2.interfaces"
    )
    assert house.run_job(house.manager, "train").state == "pending"
    house.apply_files()
    assert house.place("train").state == "starting"


def test_other_tenants_get_no_node_of_a_tenant(house: PlaneHouse) -> None:
    house.demand("roce", nodes=("node-1", "node-2"))
    assert house.run_job(house.stranger, "guest").state == "pending"
    hints = explain(house, "guest").hints
    assert "2 nodes are for tenants with planes, or not out of them yet" in hints
    house.give("node-1")
    assert house.place("guest").state == "starting"
    assert find_nodes(house, "guest") == {"node-2"}


def test_a_node_goes_back_when_switches_are_without_it(house: PlaneHouse) -> None:
    house.demand("roce", nodes=("node-1", "node-2"))
    house.apply_files()
    house.allocations.planes.release_plane(house.manager, "roce")
    assert house.allocations.planes.get_nodes(house.manager).nodes == []
    assert house.run_job(house.stranger, "guest").state == "pending"
    house.apply_files()
    assert house.place("guest").state == "starting"
    with house.store.read() as connection:
        assert not read_gate(connection).is_used


def test_a_demand_without_nodes_says_what_is_missing(house: PlaneHouse) -> None:
    house.demand("storage", nodes=())
    assert house.run_job(house.manager, "train").state == "pending"
    (hint,) = [hint for hint in explain(house, "train").hints if "plane-nodes" in hint]
    assert hint.startswith("acme demands storage and has no node for it")


def test_the_end_of_a_demand_lets_waiting_jobs_start(house: PlaneHouse) -> None:
    house.demand("roce")
    assert house.run_job(house.manager, "train").state == "pending"
    house.allocations.planes.release_plane(house.manager, "roce")
    assert house.place("train").state == "starting"


def test_a_running_job_goes_on_and_the_next_one_waits(house: PlaneHouse) -> None:
    house.demand("roce")
    house.apply_files()
    assert house.run_job(house.manager, "train").state == "starting"
    report = PlaneReportIn(text="router bgp 64601\n")
    house.allocations.plane_evidence.report(house.admin, "leaf-1.frr.conf", report)
    assert house.run_job(house.manager, "next").state == "pending"
    assert house.job("train").state == "starting"


def test_a_running_job_moves_only_to_nodes_of_its_tenant(house: PlaneHouse) -> None:
    house.run_job(house.stranger, "guest")
    house.demand("roce", nodes=("node-2",))
    house.apply_files()
    house.run_job(house.manager, "train")
    snapshot = house.allocations.placer.planner.build_snapshot()
    labels = {job.tenant: job.shape.labels for job in snapshot.running}
    assert labels == {"other": (PLANES_LABEL,), "acme": (describe_planes_label("acme"),)}
    for place, labels_of_node in enumerate(snapshot.cards.node_labels):
        fits = {tenant for tenant, ((key, _),) in labels.items() if key in labels_of_node}
        assert fits == ({"other"} if snapshot.cards.nodes[place] == "node-1" else {"acme"})


def test_a_gang_waits_for_planes_and_starts_whole(house: PlaneHouse) -> None:
    house.demand("roce")
    group = GroupIn(name="all", parts=[RoleIn(name="worker", count=3)])
    house.submit(1000, None, principal=house.manager, name="gang", gang=group)
    names = [f"gang.{n}" for n in range(3)]
    assert {house.place(name).state for name in names} == {"pending"}
    house.apply_files()
    assert {house.place(name).state for name in names} == {"starting"}
    assert {node for name in names for node in find_nodes(house, name)} == {"node-1"}


def test_members_of_arrays_are_kept_on_ready_nodes(house: PlaneHouse) -> None:
    house.demand("roce")
    house.apply_files()
    house.submit(principal=house.manager, name="many", array=6, gpu_milli=1000, memory_gib=None)
    house.allocations.placer.run_cycle()
    running = [house.job(f"many.{n}") for n in range(6)]
    assert [job.state for job in running].count("starting") == 4
    for job in running:
        assert {seat.device.partition(":")[0] for seat in job.seats} <= {"node-1"}


def test_a_plan_of_before_is_not_written(house: PlaneHouse) -> None:
    house.demand("roce")
    house.apply_files()
    with house.store.read() as connection:
        own = NodeGrant("acme", "node-1", False)
        refuse_closed_nodes(connection, [own, NodeGrant("other", "node-2", False)])
        for grant in (NodeGrant("acme", "node-2", False), NodeGrant("other", "node-1", False)):
            with pytest.raises(StaleGeneration, match=grant.node):
                refuse_closed_nodes(connection, [own, grant])


def test_a_change_that_the_cache_has_not_seen_hands_out_nothing(house: PlaneHouse) -> None:
    house.demand("roce")
    house.apply_files()
    house.allocations.placer.refresh_cache()
    with house.store.engine.begin() as connection:
        # As another server's commit: this one's cache learns nothing of it.
        connection.execute(sa.delete(plane_evidence))
    assert house.run_job(house.manager, "train").state == "pending"


def test_jobs_submitted_before_the_demand_obey_it(house: PlaneHouse) -> None:
    for n in range(8):
        house.submit(1000, None, principal=house.stranger, name=f"filler-{n}")
    house.allocations.placer.run_cycle()
    house.submit(principal=house.manager, name="train")
    house.demand("roce")
    for n in range(8):
        end(house, f"filler-{n}")
    assert house.place("train").state == "pending"
    house.apply_files()
    assert house.place("train").state == "starting"


def test_a_restarted_server_knows_the_planes(house: PlaneHouse) -> None:
    house.demand("roce")
    house.submit(principal=house.manager, name="train")
    house.restart()
    assert house.place("train").state == "pending"
    house.apply_files()
    house.restart()
    assert house.place("train").state == "starting"


def test_a_deleted_tenant_gives_its_nodes_back(house: PlaneHouse) -> None:
    house.demand("roce", nodes=("node-1", "node-2"))
    house.tenancy.users.delete(house.admin, "ann")
    house.tenancy.tenants.delete(house.admin, "acme")
    assert house.run_job(house.stranger, "guest").state == "starting"
    house.allocations.planes.demand_plane(house.stranger, "roce", NO_NUMBERS)
    (plane,) = house.allocations.planes.list_planes(house.stranger)
    assert plane.vlan == 101
    body = PlaneNodesIn(nodes=["node-1"])
    assert house.allocations.planes.put_nodes(house.admin, body, "other").nodes == ["node-1"]


def test_without_planes_nothing_is_read(house: PlaneHouse) -> None:
    with house.store.read() as connection:
        assert read_gate(connection) == NodeGate()


def enable_networks(house: PlaneHouse) -> None:
    house.enable()
    subnet = SubnetIn(name="default", cidr="10.0.0.0/24")
    house.allocations.networks.create_network(
        house.manager, NetworkIn(name="lab", subnets=[subnet])
    )


def test_ethernet_needs_a_default_network_and_a_ready_engine(house: PlaneHouse) -> None:
    enable_networks(house)
    house.demand("ethernet", nodes=())
    house.submit(principal=house.manager, name="train", network="lab")
    assert house.place("train").state == "pending"
    hints = explain(house, "train").hints
    assert "node-1: ethernet is not in force: acme has no default network" in str(hints)
    house.allocations.networks.set_default(house.manager, "lab", wanted=True)
    assert house.place("train").state == "starting"
    # The engine has no part on the other node.
    assert find_nodes(house, "train") == {"node-1"}


def test_a_job_without_a_network_is_refused_where_a_plane_needs_one(house: PlaneHouse) -> None:
    enable_networks(house)
    house.submit(1000, None, count=4, principal=house.admin, name="filler")
    house.submit(1000, None, count=4, principal=house.admin, name="filler-2")
    house.allocations.placer.run_cycle()
    house.submit(principal=house.manager, name="early")
    house.allocations.networks.set_default(house.manager, "lab", wanted=True)
    house.demand("ethernet", "management", nodes=())
    with pytest.raises(WrongState, match="demands ethernet and management needs a network"):
        house.submit(principal=house.manager, name="late", network="none")
    house.submit(principal=house.manager, name="joined")
    for name in ("filler", "filler-2"):
        end(house, name)
    # It was submitted before the demand, and would use the network of its node.
    assert house.place("joined").state == "starting"
    assert house.job("early").state == "pending"
    assert "submit it again with --network NAME" in str(explain(house, "early").hints)
    for plane in ("ethernet", "management"):
        house.allocations.planes.release_plane(house.manager, plane)
    assert house.place("early").state == "starting"


def test_management_is_lost_with_a_gateway_and_back_with_a_rule(house: PlaneHouse) -> None:
    enable_networks(house)
    house.demand("management", nodes=())
    house.submit(principal=house.manager, name="first", network="lab")
    assert house.place("first").state == "starting"
    house.allocations.networks.create_gateway(house.manager, "lab")
    house.tell_engine("ready", northbound="unix:/nowhere", uplink="198.18.0.0/16")
    house.submit(principal=house.manager, name="second", network="lab")
    assert house.place("second").state == "pending"
    assert "the gateway of lab leads to 172.31.0.0/24" in str(explain(house, "second").hints)
    # A rule of IPv6 says nothing of these prefixes.
    rule = FirewallRuleIn(action="deny", prefix="fd00::/8")
    house.allocations.firewall.create_rule(house.admin, rule)
    assert house.place("second").state == "pending"
    rule = FirewallRuleIn(action="deny", prefix="172.16.0.0/12")
    house.allocations.firewall.create_rule(house.admin, rule)
    assert house.place("second").state == "starting"


def test_a_node_with_jobs_of_others_is_handed_out_after_their_end(house: PlaneHouse) -> None:
    house.submit(1000, None, count=4, principal=house.stranger, name="guest")
    house.submit(1000, None, count=4, principal=house.stranger, name="guest-2")
    house.allocations.placer.run_cycle()
    house.demand("roce", nodes=("node-1", "node-2"))
    house.apply_files()
    house.submit(100, 1, principal=house.manager, name="train")
    assert house.place("train").state == "pending"
    assert "1 job of another tenant runs on node-1" in str(explain(house, "train").hints)
    house.submit(principal=house.stranger, name="next")
    end(house, "guest")
    assert house.place("train").state == "starting"
    assert house.job("next").state == "pending"


def end(house: PlaneHouse, name: str) -> None:
    job = house.job(name)
    (node,) = find_nodes(house, name)
    item = next(one for one in house.work(node=node) if one.job == job.id)
    house.report(item, "ended", node, exit_code=0)
