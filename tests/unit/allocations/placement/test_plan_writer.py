"""A plan is written with what follows from it, and cache and planner follow after the commit."""

from __future__ import annotations

import pytest

from gpupool.allocations.ledger.cache_updates import LedgerChange
from gpupool.allocations.placement.plan_writer import PlanWriter, WrittenPlan
from gpupool.allocations.store.tables import jobs
from gpupool.scheduling import Eviction, Plan
from gpupool.scheduling.engine.cycle import cycle
from tests.support.house import House
from tests.support.resizing import running


@pytest.fixture
def writer(house: House) -> PlanWriter:
    parts = house.allocations
    return PlanWriter(house.store, parts.cache, house.metering, parts.placer.planner)


def write_plan(house: House, writer: PlanWriter, plan: Plan) -> WrittenPlan:
    with house.store.write() as write:
        return writer.write_plan(write, plan)


def test_a_job_that_no_longer_waits_leaves_the_queue_with_the_plan(
    house: House, writer: PlanWriter
) -> None:
    house.submit(1000, None, name="holder", count=2)
    gone = house.submit(1000, None, name="gone")
    house.finish("holder")
    plan = cycle(house.allocations.cache.build_snapshot(), 0)
    with house.store.write() as write:
        stopped = jobs.c.public_id == gone.id
        write.execute(jobs.update().where(stopped).values(state="stopped"))
    written = write_plan(house, writer, plan)
    assert (written.granted, written.gone) == (LedgerChange(), (gone.id,))
    assert house.allocations.cache.count_waiting() == 1
    writer.update_cache(written)
    assert house.allocations.cache.count_waiting() == 0


def test_a_victim_leaves_for_the_job_that_an_array_member_becomes(
    house: House, writer: PlanWriter
) -> None:
    victim = running(house, "low", 1000, None, preemptible=True)
    running(house, "firm", 1000, None)
    house.submit(1000, None, name="sweep", array=5)
    array = house.allocations.jobs.get_array("sweep", house.admin).id
    evictions = (
        Eviction(victim.id, f"{array}.1", 0, "why"),
        Eviction(victim.id, f"{array}.9", 0, ""),
    )
    written = write_plan(house, writer, Plan(1, (), {}, evictions=evictions[:1]))
    member = house.job("sweep.1").id
    assert (written.made, written.leaving) == ((f"{array}.1",), {victim.id: member})
    assert [entry.job for entry in written.waiting] == [member]
    waiting = house.allocations.cache.count_waiting()
    writer.update_cache(written)
    assert house.allocations.cache.count_waiting() == waiting, "a member is counted once"
    assert house.allocations.cache.find_class_key(member) is not None
    strange = write_plan(house, writer, Plan(1, (), {}, evictions=evictions[1:]))
    assert strange.leaving == {}, "no member has that index"


def test_evictions_count_against_the_hourly_budget_of_their_tenant(
    house: House, writer: PlanWriter
) -> None:
    victim = running(house, "low", 1000, None, preemptible=True)
    leaving = {victim.id: "j-urgent", "j-unknown": "j-urgent"}
    writer.update_cache(WrittenPlan(LedgerChange(), (), leaving, (), ()))
    assert [tenant for _, tenant in house.allocations.placer.planner._evicted] == ["default"]
    (held,) = house.allocations.cache.build_snapshot().running
    assert held.beneficiary == "j-urgent"
