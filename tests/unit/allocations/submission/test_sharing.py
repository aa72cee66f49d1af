"""Claims for MPS: what is refused, and one owner on a card from the first share to the last."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.allocations.submission.shapes import check_shape, name_owner
from gpupool.allocations.views.capacity import describe_capacity
from gpupool.base.errors import BadOption, IsolationNotOffered
from gpupool.base.units import GIB
from gpupool.model.isolation.mechanism_offer import CardOffers, write_offers
from gpupool.wire.containers import ContainerIn
from gpupool.wire.fleet import DeviceIn, NodeIn, RunAs
from gpupool.wire.jobs import JobOut
from gpupool.wire.submissions import JobIn, LaunchIn, ShapeIn
from tests.support.house import House
from tests.support.offered_nodes import FENCE, MPS, WHOLE_CARDS

OFFERS = CardOffers((WHOLE_CARDS, FENCE, replace(MPS, sharing=("mps",))))


def add_node(house: House, cards: int = 1, offers: CardOffers = OFFERS) -> None:
    devices = []
    for index in range(cards):
        devices.append(
            DeviceIn(
                uuid=f"GPU-mps-{index}",
                index=index,
                vendor="nvidia",
                product="NVIDIA L40S",
                model="L40S",
                memory_bytes=45 * GIB,
                simulated=True,
                health="ok",
                facts={"mechanisms": write_offers(offers)},
            )
        )
    house.fleet.register_node(
        "mps", NodeIn(devices=devices, simulated=True, adopt=True), house.admin
    )


def submit(
    house: House, account: str | None, sharing: str = "mps", gpu_milli: int = 300, **options: object
) -> JobOut:
    """Submit a share of an L40S as an account of the machine; None for the agent's own."""
    run_as = None if account is None else RunAs(uid=1000, gid=1000, groups=[], name=account)
    body = JobIn(
        shape=ShapeIn(gpu_milli=gpu_milli, memory_bytes=2 * GIB, sharing=sharing, model="L40S"),
        launch=LaunchIn(argv=["true"]),
        **options,
    )
    return house.allocations.jobs.submit_job(body, house.admin, run_as).first


def finish(house: House, job: JobOut) -> None:
    item = next(item for item in house.work(node="mps") if item.job == job.id)
    house.report(item, "running", node="mps")
    house.report(item, "ended", node="mps", exit_code=0)
    house.allocations.placer.run_cycle()


def test_the_owner_is_the_account_of_the_tenant() -> None:
    alice = RunAs(uid=1000, gid=1000, groups=[], name="alice")
    assert name_owner("nlp", alice) == "nlp/alice"
    assert name_owner("nlp", None) == "nlp"


def test_a_card_serves_one_owner_from_its_first_mps_share_to_its_last(house: House) -> None:
    add_node(house)
    first = submit(house, "alice")
    second = submit(house, "alice")
    assert [seat.device for seat in (*first.seats, *second.seats)] == ["mps:0", "mps:0"]
    other = submit(house, "bob")
    fenced = submit(house, "alice", sharing="fixed")
    assert (other.state, fenced.state) == ("pending", "pending")
    answer = house.allocations.jobs.explain_job(other.name, house.admin)
    assert answer.cards["serves MPS clients"] == 1
    assert (
        "mps:0 serves MPS clients of alice until the last of their jobs there ends" in answer.hints
    )
    finish(house, first)
    assert house.job(other.name).state == "pending", "one of alice's jobs is left"
    # Also a server that starts anew knows the owner.
    house.restart()
    house.allocations.placer.run_cycle()
    assert house.job(other.name).state == "pending"
    finish(house, second)
    assert house.job(other.name).seats[0].device == "mps:0"
    assert house.job(fenced.name).state == "pending"


def test_no_mps_claim_joins_a_card_with_other_shares(house: House) -> None:
    add_node(house, cards=2)
    fenced = submit(house, "alice", sharing="fixed")
    served = submit(house, "alice")
    assert {fenced.seats[0].device, served.seats[0].device} == {"mps:0", "mps:1"}
    waits = submit(house, "alice", gpu_milli=800)
    answer = house.allocations.jobs.explain_job(waits.name, house.admin)
    assert answer.cards["in use without MPS"] == 1
    assert answer.cards["not enough compute free"] == 1


def test_a_claim_for_mps_gets_mps_and_is_metered_as_a_share(house: House) -> None:
    add_node(house)
    job = submit(house, None)
    assert house.work(node="mps")[0].sharing == "mps"
    answer = house.allocations.jobs.explain_job(job.name, house.admin)
    assert answer.mechanism == "mps"
    assert {row.mechanism for row in answer.rejected} == {"whole", "fence"}
    assert job.seats[0].gpu_milli == 300


def test_a_pool_without_mps_refuses_with_the_reason_of_each_mechanism(house: House) -> None:
    add_node(house, offers=CardOffers((WHOLE_CARDS, FENCE)))
    with pytest.raises(IsolationNotOffered) as refused:
        submit(house, None)
    assert refused.value.message == (
        "no card gives --sharing mps to 0.30 GPU (30 % compute) + 2048 MiB\n1 × L40S:\n"
        "- whole: it serves fixed and burst shares; mps is asked\n"
        "- fence: it does not serve mps shares"
    )


@pytest.mark.parametrize(
    ("asked", "launch", "options", "says"),
    [
        ({"count": 2}, {}, {}, "an MPS server serves one card"),
        ({}, {"container": ContainerIn(image="img")}, {}, "in a container or VM"),
        ({}, {}, {"fence": False}, "no fence that could be left out"),
    ],
)
def test_what_mps_does_not_go_together_with_is_refused(
    house: House,
    asked: dict[str, int],
    launch: dict[str, object],
    options: dict[str, object],
    says: str,
) -> None:
    add_node(house, cards=2)
    body = JobIn(
        shape=ShapeIn(gpu_milli=300, sharing="mps", **asked),
        launch=LaunchIn(argv=["true"], **launch),
        **options,
    )
    with pytest.raises(BadOption, match=says):
        house.allocations.jobs.submit_job(body, house.admin, None)


def test_a_reservation_names_no_sharing() -> None:
    with pytest.raises(BadOption, match="holds cards for any sharing"):
        check_shape(ShapeIn(gpu_milli=300, sharing="mps"))


def test_a_card_shows_its_owner_and_its_room_to_no_other_claim(house: House) -> None:
    add_node(house)
    job = submit(house, "alice")
    (room,) = (
        one
        for one in describe_capacity(house.allocations.cache.build_snapshot()).models
        if one.model == "L40S"
    )
    assert (room.largest_milli, room.free_milli, room.whole_free) == (0, 0, 0)
    assert (room.mps_cards, room.mps_free_milli) == (1, 700)
    assert house.fleet.get_device("mps:0", house.admin).mps_owner == "alice"
    house.tenancy.tenants.create(house.admin, "ops", None)
    other = house.member("eve", "ops")
    assert house.fleet.get_device("mps:0", other).mps_owner == "another tenant"
    finish(house, job)
    assert house.fleet.get_device("mps:0", other).mps_owner is None
