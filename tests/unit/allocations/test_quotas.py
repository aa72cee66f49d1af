"""The quota tree in a pool: who waits for whom, what is remembered of the past, and who sees what."""

import pytest
import sqlalchemy as sa

from gpupool.base.errors import GuaranteedToOthers
from gpupool.metering.past import past_use
from gpupool.metering.tables import intervals, usage_days, usage_hours
from gpupool.scheduling.usage import MICRO
from gpupool.scheduling.wording_help import WAIT
from gpupool.wire.people import LimitIn, QuotaIn
from tests.support.house import House


def test_a_job_waits_for_its_cohort_and_is_told_so(house: House) -> None:
    house.tenancy.cohorts.put("lab", QuotaIn(nominal_milli=1000, borrowing_milli=0))
    house.tenancy.put_quota(house.admin, "default", QuotaIn(cohort="lab", borrowing_milli=None))
    house.submit(1000, 8)
    second = house.submit(500, 8)
    house.allocations.placer.run_once()
    assert house.job(second.id).state == "pending"
    said = house.allocations.placer.planner.why(second.id)
    assert said == "cohort lab holds 1.00 of its maximum 1.00 GPU; this claim needs 0.50 more"


def test_a_limit_of_one_model_holds_back_what_is_beyond_it(house: House) -> None:
    model = house.allocations.mirror.snapshot().cards.models[0]
    limit = LimitIn(resource=f"gpu:{model}", nominal=1000, borrowing=0)
    house.tenancy.put_quota(house.admin, "default", QuotaIn(others=[limit]))
    house.submit(1000, 8)
    second = house.submit(500, 8)
    house.allocations.placer.run_once()
    said = house.allocations.placer.planner.why(second.id)
    assert said == f"tenant default holds 1.00 of its maximum 1.00 {model}; this claim needs 0.50 more"


def test_a_limit_of_one_vendor_holds_back_what_is_beyond_it(house: House) -> None:
    limit = LimitIn(resource="gpu:nvidia", nominal=1000, borrowing=0)
    house.tenancy.put_quota(house.admin, "default", QuotaIn(others=[limit]))
    house.submit(1000, 8)
    second = house.submit(500, 8)
    house.allocations.placer.run_once()
    said = house.allocations.placer.planner.why(second.id)
    assert said == "tenant default holds 1.00 of its maximum 1.00 NVIDIA; this claim needs 0.50 more"


def test_the_tree_says_what_is_held_borrowed_and_lent_and_what_is_due(house: House) -> None:
    house.tenancy.cohorts.put("lab", QuotaIn(nominal_milli=2000))
    house.tenancy.put_quota(house.admin, "default", QuotaIn(nominal_milli=500, borrowing_milli=None, cohort="lab"))
    blue = QuotaIn(nominal_milli=1000, cohort="lab", weight_milli=3000)
    house.tenancy.tenants.create(house.admin, "blue", blue)
    house.submit(1000, 8)
    house.allocations.placer.run_once()
    nodes = {node.name: node for node in house.allocations.quotas(house.admin).nodes}
    assert list(nodes) == ["", "lab", "blue", "default"]
    ours, theirs = nodes["default"].limits[0], nodes["blue"].limits[0]
    assert (ours.held, ours.borrowed, ours.lent) == (1000, 500, 0)
    assert (theirs.held, theirs.borrowed, theirs.lent) == (0, 0, 500)
    assert (nodes["default"].due_percent, nodes["blue"].due_percent) == (25.0, 75.0)
    assert nodes["default"].share_percent == 50.0


def test_who_is_no_admin_sees_its_own_node_alone(house: House) -> None:
    house.tenancy.cohorts.put("lab", QuotaIn(nominal_milli=2000))
    house.tenancy.tenants.create(house.admin, "blue", None)
    worker = house.member("worker", "blue")
    assert [node.name for node in house.allocations.quotas(worker).nodes] == ["blue"]


def test_the_books_remember_what_was_held_and_what_is_held_still(house: House) -> None:
    house.submit(500, 8)
    house.submit(250, 8)
    house.allocations.placer.run_once()
    with house.store.write() as write:
        now_s = write.now_ns // 10**9
        half, quarter = (intervals.c.gpu_milli == milli for milli in (500, 250))
        write.execute(intervals.update().where(half).values(start_s=now_s - 7200, end_s=now_s - 3600))
        write.execute(intervals.update().where(quarter).values(start_s=now_s - 1800))
    with house.store.read() as connection:
        found = past_use(connection, now_s, half_life_s=10**9)
    held = 3600 * 500_000 + 1800 * 250_000
    assert found == pytest.approx({"default": held}, rel=1e-4)
    house.allocations.placer.load()
    assert house.allocations.mirror.snapshot().tenants["default"].past == pytest.approx(held, rel=0.02)


def test_hours_and_days_of_the_books_are_remembered_less(house: House) -> None:
    with house.store.write() as write:
        project = write.execute(sa.text("SELECT id FROM projects")).scalar_one()
        device = write.execute(sa.text("SELECT min(id) FROM devices")).scalar_one()
        who = {"device_id": device, "tenant_id": 1, "project_id": project, "user_id": 1, "under": "pooled"}
        amounts = {"card_milliseconds": 0, "memory_mib_seconds": 0, "dominant_micro_seconds": 3600 * MICRO}
        write.execute(usage_hours.insert().values(hour_s=360_000, job_id=1, **who, **amounts))
        write.execute(usage_days.insert().values(day_s=0, **who, **amounts))
    with house.store.read() as connection:
        found = past_use(connection, 360_000 + 3600 + 864_000, half_life_s=86_400)
    day, hour = 2 ** (-(363_600 + 864_000 - 43_200) / 86_400), 2 ** (-(864_000 + 1800) / 86_400)
    assert found["default"] == pytest.approx((day + hour) * 3600 * MICRO, rel=0.03)


def test_a_claim_that_no_end_of_a_job_would_let_start_is_refused_with_what_helps(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "owner", QuotaIn(nominal_milli=2000))
    with pytest.raises(GuaranteedToOthers) as refused:
        house.submit(1000, 8)
    assert refused.value.message == (
        "cannot start while 2.00 of the pool's 2.00 GPU are guaranteed to others; "
        "this claim, not preemptible, needs 1.00"
    )
    preemptible = "submit it with --preemptible: then it may use what others are guaranteed, until they need it"
    assert (
        refused.value.hint == f"{preemptible}; an admin can guarantee its tenant a part, or others less: gpupool quota"
    )
    assert house.submit(1000, 8, preemptible=True).state == "starting"
    owner = house.member("ann", "owner")
    assert house.submit(1000, 8, principal=owner).state == "starting"
    own = house.allocations.capacity(house.admin).yours
    assert own is not None
    assert (own.firm_milli, own.most_firm_milli, own.preemptible_milli) == (0, 0, None)


def test_a_claim_waits_where_jobs_that_end_would_let_it_start(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "owner", QuotaIn(nominal_milli=1000))
    house.submit(1000, 8)
    second = house.submit(1000, 8)
    assert second.state == "pending"
    assert house.allocations.explain(second.id, house.admin).hints[-1] == WAIT
