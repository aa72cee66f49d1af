"""Grants: the placements of a plan are written all or none, and a gang whole or not at all."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.allocations.ledger.cache_updates import LedgerChange
from gpupool.allocations.ledger.grants import write_grants
from gpupool.allocations.store.tables import allocations, jobs
from gpupool.base.errors import StaleGeneration
from gpupool.fleet.tables import devices
from gpupool.model.sharing_default import SHARING_LABEL
from gpupool.scheduling import JobPlacement
from gpupool.scheduling.engine.cycle import cycle
from gpupool.wire.submissions import GroupIn, RoleIn
from tests.support.house import House
from tests.support.ledger_sums import held, used


def plan_for_freed_cards(house: House) -> tuple[JobPlacement, ...]:
    """A plan that places a gang of two and a job, on the cards that a holder has left."""
    house.submit(1000, None, name="holder", count=2)
    parts = [RoleIn(name="worker", count=2)]
    house.submit(500, 8, name="gang", gang=GroupIn(name="all", parts=parts))
    house.submit(300, 8, name="single")
    house.finish("holder")
    plan = cycle(house.allocations.cache.build_snapshot(), 0)
    assert len(plan.placements) == 3
    return plan.placements


def write(house: House, plan: tuple[JobPlacement, ...]) -> tuple[LedgerChange, tuple[str, ...]]:
    with house.store.write() as transaction:
        return write_grants(transaction, house.metering, plan)


def test_a_gang_with_a_member_that_is_gone_is_left_out_whole(house: House) -> None:
    plan = plan_for_freed_cards(house)
    gone = house.job("gang.1").id
    with house.store.write() as transaction:
        stopped = jobs.c.public_id == gone
        transaction.execute(jobs.update().where(stopped).values(state="stopped"))
    change, missing = write(house, plan)
    assert (change.jobs, missing) == ((house.job("single").id,), (gone,))
    assert house.job("gang.0").state == "pending"
    assert held(house) == (300, 8 << 30)


def test_a_plan_of_jobs_that_no_longer_wait_writes_nothing(house: House) -> None:
    plan = plan_for_freed_cards(house)
    with house.store.write() as transaction:
        transaction.execute(jobs.update().values(state="stopped"))
    change, missing = write(house, plan)
    assert change == LedgerChange()
    assert set(missing) == {placement.job for placement in plan}
    assert used(house) == [(0, 0, 0)] * 2


def test_a_card_that_changed_since_the_plan_refuses_all_of_it(house: House) -> None:
    plan = plan_for_freed_cards(house)
    changed = devices.c.uuid == plan[-1].seats[0].device
    with house.store.write() as transaction:
        newer = devices.c.generation + 1
        transaction.execute(devices.update().where(changed).values(generation=newer))
    with pytest.raises(StaleGeneration, match="changed while the plan was made"):
        write(house, plan)
    assert used(house) == [(0, 0, 0)] * 2


def test_every_part_of_a_grant_names_what_it_took(house: House) -> None:
    change, missing = write(house, plan_for_freed_cards(house))
    assert (len(change.jobs), missing) == (3, ())
    assert sum(card.used_milli for card in change.cards) == 1300
    assert [row.held_milli for row in change.tenants] == [1300]
    assert {holder.job for holder in change.held} == set(change.jobs)
    with house.store.read() as connection:
        granted = sa.select(sa.func.count()).where(allocations.c.state == "granted")
        assert connection.execute(granted).scalar_one() == 3


def test_a_job_that_names_no_sharing_takes_its_nodes_default_for_good(house: House) -> None:
    house.register(2, labels={SHARING_LABEL: "burst"})
    house.submit(300, 8, name="unnamed")
    house.submit(300, 8, name="named", sharing="fixed")
    house.submit(1000, None, name="whole")
    house.register(2, labels={})
    house.submit(300, 8, name="later")
    names = ("unnamed", "named", "whole", "later")
    kinds = ["burst", "fixed", "fixed", "fixed"]
    assert [house.job(name).sharing for name in names] == kinds
    told = {item.job_name: item.sharing for item in house.work()}
    assert [told[name] for name in names] == kinds
    house.restart()
    assert house.job("unnamed").sharing == "burst"


def test_jobs_take_the_defaults_of_the_nodes_that_they_are_placed_on(house: House) -> None:
    house.register(1, "node-2", labels={SHARING_LABEL: "burst"})
    house.submit(1000, None, name="holder", count=2)
    parts = [RoleIn(name="worker", count=2)]
    house.submit(400, 8, name="gang", gang=GroupIn(name="all", parts=parts))
    house.finish("holder")
    house.submit(900, 8, name="large")
    members = [house.job(f"gang.{rank}") for rank in range(2)]
    assert {(one.node, one.sharing) for one in members} == {("node-2", "burst")}
    assert house.job("large").node == "node-1"
    assert house.job("large").sharing == "fixed"
