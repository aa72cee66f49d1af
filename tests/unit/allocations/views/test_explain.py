"""What `explain` says of a gang, and of a job in the moment in which it is placed."""

import pytest

from gpupool.allocations.views.explain import explain_job
from gpupool.base.units import GIB
from gpupool.wire.submissions import GroupIn, RoleIn, ShapeIn
from tests.support.house import House
from tests.support.resizing import running

WORKER = RoleIn(name="worker", count=2, shape=ShapeIn(gpu_milli=400, memory_bytes=GIB, count=2))
LAUNCHER = RoleIn(
    name="launcher", count=1, launcher=True, shape=ShapeIn(gpu_milli=100, memory_bytes=GIB)
)
BOTH = ["node-1:0", "node-1:1"]


def start(house: House, *roles: RoleIn) -> None:
    house.submit(name="train", gang=GroupIn(name="all", parts=list(roles)))
    for item in house.work():
        house.report(item, "running", started_ns=5)


def test_every_member_of_a_running_gang_is_told_with_its_cards(house: House) -> None:
    start(house, WORKER)
    told = house.allocations.jobs.explain_job("train", house.admin)
    assert (told.job, told.sentence.startswith("runs on node-1:0, node-1:1 since")) == (
        "train.0",
        True,
    )
    assert told.gang is not None
    assert (told.gang.name, told.gang.running) == ("train", 2)
    seen = [
        (member.job, member.role, member.state, member.node, member.devices)
        for member in told.gang.members
    ]
    assert seen == [(f"train.{n}", "worker", "running", "node-1", BOTH) for n in (0, 1)]
    assert house.allocations.jobs.explain_job("train.1", house.admin).gang == told.gang


def test_a_member_that_has_ended_is_told_without_cards(house: House) -> None:
    start(house, WORKER)
    house.finish("train.1")
    gang = house.allocations.jobs.explain_job("train", house.admin).gang
    assert gang is not None
    assert [(one.state, one.node, one.devices) for one in gang.members] == [
        ("running", "node-1", BOTH),
        ("done", None, []),
    ]
    assert gang.running == 1


def test_a_gang_by_its_launcher_is_told_before_the_launcher_runs(house: House) -> None:
    house.submit(name="train", gang=GroupIn(name="all", parts=[LAUNCHER, WORKER]))
    gang = house.allocations.jobs.explain_job("train", house.admin).gang
    assert gang is not None
    assert [(one.role, one.rank) for one in gang.members] == [
        ("launcher", 0),
        ("worker", 1),
        ("worker", 2),
    ]
    assert (gang.running, {one.state for one in gang.members}) == (0, {"starting"})


def test_of_a_gang_that_waits_or_has_ended_and_of_a_single_job_there_is_none(house: House) -> None:
    house.submit(1000, 8, count=2, name="single")
    house.submit(name="train", gang=GroupIn(name="all", parts=[WORKER]))
    assert house.job("train.0").state == "pending"
    for name in ("single", "train"):
        assert house.allocations.jobs.explain_job(name, house.admin).gang is None
    house.allocations.jobs.stop_job("train", house.admin, None)
    assert house.allocations.jobs.explain_job("train", house.admin).gang is None


def test_a_job_that_is_placed_while_somebody_asks_is_not_told_that_its_own_cards_are_in_use(
    house: House,
) -> None:
    for name in ("first", "second"):
        house.submit(1000, None, name=name)
    house.submit(1000, None, name="next")
    asked = house.job("next")
    house.finish("first")
    house.allocations.placer.run_cycle()
    cache, placer, clock = house.allocations.cache, house.allocations.placer, house.store.clock
    with house.store.read() as connection:
        told = explain_job(connection, asked, house.admin, cache, placer, clock.now_ns())
    assert (asked.state, told.sentence, told.holders) == (
        "pending",
        "it is being placed right now",
        [],
    )


def test_a_share_behind_a_gang_is_told_which_claim_of_its_own_user_it_waits_for(
    house: House,
) -> None:
    whole = RoleIn(name="worker", count=2, shape=ShapeIn(gpu_milli=1000))
    house.submit(name="small")
    house.submit(name="big", gang=GroupIn(name="all", parts=[whole]))
    house.submit(name="late")
    told = house.allocations.jobs.explain_job("late", house.admin)
    assert told.sentence == (
        "what is free is kept for a claim of higher rank, whose start is not known"
    )
    assert told.hints[:2] == [
        "the cards are kept for big; without it this one starts now: gpupool stop big",
        "1 job on those cards has no --max-time, so that start is not known",
    ]
    # A colleague sees the job and may not stop the gang.
    colleague = house.member("eve", "default")
    seen = house.allocations.jobs.explain_job("late", colleague)
    assert (seen.sentence, seen.hints[0]) == (told.sentence, told.hints[1])
    house.allocations.jobs.stop_job("big", house.admin, None)
    house.allocations.placer.run_cycle()
    assert house.job("late").state == "starting"


@pytest.mark.parametrize("model", ["H200", "H100|H200", "h200|a100"])
def test_explain_names_what_holds_cards_of_any_of_the_models(house: House, model: str) -> None:
    running(house, "first", 1000, None, count=2)
    house.submit(1000, None, name="second", model=model)
    explained = house.allocations.jobs.explain_job("second", house.admin)
    assert explained.holders == ["first holds 2.00 GPU (200 % compute) + 286720 MiB"]
