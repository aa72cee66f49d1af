"""Which mechanism a claim would get: refused, placed by offers, planned and explained."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.errors import BadOption, IsolationNotOffered
from gpupool.base.units import GIB
from gpupool.model.isolation.claim_needs import ClaimNeeds, IsolationKind
from gpupool.model.isolation.host_kind import HostKind
from gpupool.model.isolation.mechanism_offer import CardOffers, write_offers
from gpupool.model.vm import VM_COMMAND
from gpupool.wire.fleet import DeviceIn, NodeIn
from gpupool.wire.jobs import JobOut
from gpupool.wire.submissions import JobIn, LaunchIn, NeedsIn, ShapeIn
from tests.support.house import House
from tests.support.offered_nodes import NODES

OFFERS = {card.name: card.offers for card in NODES}
HARD = NeedsIn(isolation="hard")


def add_node(house: House, name: str, offers: CardOffers) -> None:
    card = DeviceIn(
        uuid=f"GPU-{name}",
        index=0,
        vendor="nvidia",
        product="NVIDIA H200",
        model="H200",
        memory_bytes=140 * GIB,
        simulated=True,
        health="ok",
        facts={"mechanisms": write_offers(offers)},
    )
    node = NodeIn(devices=[card], simulated=True, adopt=True)
    house.fleet.register_node(name, node, house.admin)


def test_a_claim_that_no_card_isolates_is_refused_with_rows_and_next_step(house: House) -> None:
    add_node(house, "old", OFFERS["h200-cgroup-v1:0"])
    with pytest.raises(IsolationNotOffered) as refused:
        house.submit(needs=HARD)
    message = refused.value.message
    assert message.splitlines()[0] == (
        "no card gives --isolation hard to 0.30 GPU (30 % compute) + 8192 MiB"
    )
    assert "memory is soft, hard is asked" in message
    assert "gpupool mechanisms" in (refused.value.hint or "")
    assert refused.value.details["cards"] == {"does not isolate as asked": 3}


def test_a_claim_goes_to_the_node_that_isolates_it_and_keeps_its_needs(house: House) -> None:
    add_node(house, "old", OFFERS["h200-cgroup-v1:0"])
    add_node(house, "new", OFFERS["h200-r615:0"])
    for _ in range(3):
        job = house.submit(needs=HARD)
        assert [seat.device for seat in job.seats] == ["new:0"]
    assert house.work(node="new")[0].needs == {"isolation": "hard"}
    answer = house.allocations.jobs.explain_job(job.name, house.admin)
    assert answer.needs == {"isolation": "hard"}
    assert answer.mechanism == "fence+memgroup"
    assert answer.holds == {
        "memory": "hard",
        "compute": "soft",
        "bandwidth": "none",
        "fault": "none",
    }
    assert {row.mechanism for row in answer.rejected} >= {"whole", "mig", "share"}


def test_a_waiting_claim_waits_for_cards_that_isolate_it_also_after_a_restart(
    house: House,
) -> None:
    add_node(house, "new", OFFERS["h200-r615:0"])
    assert house.submit(1000, None, needs=HARD).seats
    waiting = house.submit(1000, None, needs=HARD)
    assert waiting.state == "pending"
    house.restart()
    house.allocations.placer.run_cycle()
    assert house.job(waiting.name).state == "pending"
    answer = house.allocations.jobs.explain_job(waiting.name, house.admin)
    assert answer.cards == {"does not isolate as asked": 2, "not a whole card free": 1}
    assert answer.mechanism == "whole"
    assert [(row.mechanism, row.cards) for row in answer.rejected][:1] == [("mig", 1)]


def test_a_plan_writes_nothing(house: House) -> None:
    add_node(house, "new", OFFERS["h200-r615:0"])
    body = JobIn(
        shape=ShapeIn(gpu_milli=300, memory_bytes=8 * GIB, needs=HARD),
        launch=LaunchIn(argv=["true"]),
        array=3,
    )
    plan = house.allocations.jobs.plan_job(body, house.admin, None)
    assert (plan.count, plan.mechanism) == (3, "fence+memgroup")
    assert plan.share == "0.30 GPU (30 % compute) + 8192 MiB"
    assert house.work(node="new") == []


def test_isolation_without_a_fence_is_refused(house: House) -> None:
    with pytest.raises(BadOption, match="--isolation soft without a fence"):
        house.submit(fence=False, needs=NeedsIn(isolation="soft"))


@pytest.mark.parametrize("host", ["container", "vm"])
def test_a_host_that_the_command_does_not_run_in_is_refused(house: House, host: str) -> None:
    with pytest.raises(BadOption, match=f"--host {host}: this command runs as a process"):
        house.submit(needs=NeedsIn.model_validate({"host": host}))


def submit_launch(house: House, **launch: object) -> JobOut:
    """Submit a whole card for a container or a VM, without words about the host."""
    body = JobIn(
        shape=ShapeIn(gpu_milli=1000), launch=LaunchIn.model_validate({"argv": ["true"], **launch})
    )
    return house.allocations.jobs.submit_job(body, house.admin, None).first


@pytest.mark.parametrize(
    ("launch", "host"),
    [
        ({"container": {"image": "r.example/a:1"}}, "container"),
        ({"argv": [VM_COMMAND], "vm": {"cpus": 1, "ram_bytes": 64 << 20, "image": "/a"}}, "vm"),
    ],
)
def test_a_container_or_vm_goes_to_a_card_that_serves_its_host(
    house: House, launch: dict[str, object], host: str
) -> None:
    offers = OFFERS["h200-r615:0"]
    add_node(house, "plain", change_hosts(offers, HostKind.PROCESS))
    with pytest.raises(IsolationNotOffered, match=f"--host {host}"):
        submit_launch(house, **launch)
    add_node(house, "ready", change_hosts(offers, HostKind(host)))
    job = submit_launch(house, **launch)
    assert [seat.device for seat in job.seats] == ["ready:0"]
    assert house.work(node="ready")[0].needs == {"host": host}
    answer = house.allocations.jobs.explain_job(job.name, house.admin)
    assert answer.needs == {"host": host}
    assert answer.mechanism == "whole"


def change_hosts(offers: CardOffers, *hosts: HostKind) -> CardOffers:
    """Return the offers of a card as if every mechanism served these hosts."""
    changed = [replace(offer, hosts=hosts) for offer in offers.mechanisms]
    return replace(offers, mechanisms=tuple(changed))


def test_the_wire_has_the_words_of_the_model() -> None:
    for kind in IsolationKind:
        assert NeedsIn(isolation=kind.value).isolation == ClaimNeeds(kind).write()["isolation"]
