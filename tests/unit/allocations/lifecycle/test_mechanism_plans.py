"""The plan of mechanisms that an agent reads with its work, and what comes of its reports."""

from __future__ import annotations

import json

from gpupool.base.units import GIB
from gpupool.model.isolation.mechanism_offer import write_offers
from gpupool.wire.fleet import DeviceIn, NodeIn, WorkOut
from gpupool.wire.submissions import NeedsIn
from tests.support.house import House
from tests.support.offered_nodes import NODES

OFFERS = {card.name: card.offers for card in NODES}
NOTHING = {"memory": "none", "compute": "none", "bandwidth": "none", "fault": "none"}


def add_node(house: House, offers: str = "h200-r615:0") -> None:
    facts = {"mechanisms": write_offers(OFFERS[offers])}
    card = DeviceIn(
        uuid="GPU-new",
        index=0,
        vendor="nvidia",
        product="NVIDIA H200",
        model="H200",
        memory_bytes=140 * GIB,
        simulated=True,
        health="ok",
        facts=facts,
    )
    node = NodeIn(devices=[card], labels={"kind": "new"}, simulated=True, adopt=True)
    house.fleet.register_node("new", node, house.admin)


def list_planned(work: WorkOut) -> list[str]:
    return [one.mechanism for one in work.plan]


def test_the_work_of_a_claim_with_a_goal_has_its_plan(house: House) -> None:
    add_node(house)
    house.submit(labels={"kind": "new"}, needs=NeedsIn(goal="throughput"))
    (work,) = house.work(node="new")
    assert list_planned(work) == ["mps", "fence", "share"]
    assert work.plan[0].holds["memory"] == "hard"


def test_a_plan_has_nothing_weaker_than_demanded_and_knows_the_other_tenants(
    house: House,
) -> None:
    add_node(house)
    house.tenancy.tenants.create(house.admin, "shop", None)
    other = house.member("bob", "shop")
    house.submit(labels={"kind": "new"}, principal=other)
    house.submit(labels={"kind": "new"}, needs=NeedsIn(isolation="hard", goal="density"))
    plain, demanding = house.work(node="new")
    assert plain.plan == []
    assert list_planned(demanding) == ["fence"]


def test_offers_of_a_later_registration_change_the_plan(house: House) -> None:
    add_node(house)
    house.submit(labels={"kind": "new"}, needs=NeedsIn(isolation="soft"))
    add_node(house, "h200-cgroup-v1:0")
    (work,) = house.work(node="new")
    assert {one.mechanism: one.holds["memory"] for one in work.plan} == {
        "fence": "soft",
        "mps": "soft",
    }


def test_an_allocation_that_is_to_stop_has_no_plan(house: House) -> None:
    add_node(house)
    job = house.submit(labels={"kind": "new"}, needs=NeedsIn(isolation="soft"))
    house.allocations.jobs.stop_job(job.name, house.admin, 0)
    (work,) = house.work(node="new")
    assert (work.want, work.plan) == ("stop", [])


def test_an_explanation_has_what_the_node_took_and_why_it_refused_the_plan(house: House) -> None:
    add_node(house)
    job = house.submit(labels={"kind": "new"}, needs=NeedsIn(goal="throughput"))
    (work,) = house.work(node="new")
    house.report(
        work,
        "running",
        node="new",
        mechanism="fence",
        holds={**NOTHING, "memory": "hard", "compute": "soft"},
        layers=["memgroup"],
        refused={"mps": "no daemon"},
    )
    # An agent that was started anew repeats its report, and knows no refusals.
    house.report(work, "running", node="new", mechanism="fence", holds=NOTHING, layers=["memgroup"])
    answer = house.allocations.jobs.explain_job(job.name, house.admin)
    assert answer.mechanism == "fence+memgroup"
    assert answer.holds == NOTHING
    assert answer.mechanism_why.startswith("memory hard, compute soft")
    rows = {row.mechanism: row.reason for row in answer.rejected}
    assert rows["mps"] == "its node refused it: no daemon"
    assert "fence" not in rows


def test_a_whole_card_holds_what_its_node_offers(house: House) -> None:
    add_node(house)
    job = house.submit(1000, None, labels={"kind": "new"}, needs=NeedsIn(isolation="fault"))
    (work,) = house.work(node="new")
    assert list_planned(work) == ["whole"]
    house.report(work, "running", node="new", mechanism="whole", holds=NOTHING, layers=[])
    answer = house.allocations.jobs.explain_job(job.name, house.admin)
    assert (answer.mechanism, set(answer.holds.values())) == ("whole", {"hard"})


def test_a_difference_from_the_plan_is_an_event_of_the_job(house: House) -> None:
    add_node(house)
    house.submit(labels={"kind": "new"}, needs=NeedsIn(goal="throughput"))
    (work,) = house.work(node="new")
    house.report(work, "noticed", node="new", notice="mechanism", reason="it has fence: …")
    with house.store.read() as connection:
        kinds = connection.exec_driver_sql("SELECT kind, data FROM events").all()
    assert ("job.mechanism", "it has fence: …") in [
        (kind, json.loads(data).get("found")) for kind, data in kinds
    ]
