"""Quotas of a pool: what a claim beyond one hears, waiting or refused."""

from __future__ import annotations

import pytest

from gpupool.base.errors import GuaranteedToOthers
from gpupool.scheduling.reasons.help_messages import WAIT
from gpupool.wire.people import LimitIn, QuotaIn
from tests.support.house import House


def test_a_job_waits_for_its_cohort_and_is_told_so(house: House) -> None:
    house.tenancy.cohorts.put("lab", QuotaIn(nominal_milli=1000, borrowing_milli=0))
    house.tenancy.put_quota(house.admin, "default", QuotaIn(cohort="lab", borrowing_milli=None))
    house.submit(1000, 8)
    second = house.submit(500, 8)
    house.allocations.placer.run_cycle()
    assert house.job(second.id).state == "pending"
    said = house.allocations.placer.planner.describe_wait(second.id)
    assert said == "cohort lab holds 1.00 of its maximum 1.00 GPU; this claim needs 0.50 more"


def test_a_limit_of_one_model_holds_back_what_is_beyond_it(house: House) -> None:
    model = house.allocations.cache.build_snapshot().cards.models[0]
    limit = LimitIn(resource=f"gpu:{model}", nominal=1000, borrowing=0)
    house.tenancy.put_quota(house.admin, "default", QuotaIn(others=[limit]))
    house.submit(1000, 8)
    second = house.submit(500, 8)
    house.allocations.placer.run_cycle()
    said = house.allocations.placer.planner.describe_wait(second.id)
    assert (
        said == f"tenant default holds 1.00 of its maximum 1.00 {model}; this claim needs 0.50 more"
    )


def test_a_limit_of_one_vendor_holds_back_what_is_beyond_it(house: House) -> None:
    limit = LimitIn(resource="gpu:nvidia", nominal=1000, borrowing=0)
    house.tenancy.put_quota(house.admin, "default", QuotaIn(others=[limit]))
    house.submit(1000, 8)
    second = house.submit(500, 8)
    house.allocations.placer.run_cycle()
    said = house.allocations.placer.planner.describe_wait(second.id)
    assert (
        said == "tenant default holds 1.00 of its maximum 1.00 NVIDIA; this claim needs 0.50 more"
    )


def test_a_claim_that_no_end_of_a_job_would_let_start_is_refused_with_what_helps(
    house: House,
) -> None:
    house.tenancy.tenants.create(house.admin, "owner", QuotaIn(nominal_milli=2000))
    with pytest.raises(GuaranteedToOthers) as refused:
        house.submit(1000, 8)
    assert refused.value.message == (
        "cannot start while 2.00 of the pool's 2.00 GPU are guaranteed to others; "
        "this claim, not preemptible, needs 1.00"
    )
    preemptible = "submit it with --preemptible: then it may use what others are guaranteed, until they need it"
    assert (
        refused.value.hint
        == f"{preemptible}; an admin can guarantee its tenant a part, or others less: gpupool quota"
    )
    assert house.submit(1000, 8, preemptible=True).state == "starting"
    owner = house.member("ann", "owner")
    assert house.submit(1000, 8, principal=owner).state == "starting"
    own = house.allocations.quotas.describe_capacity(house.admin).yours
    assert own is not None
    assert (own.firm_milli, own.most_firm_milli, own.preemptible_milli) == (0, 0, None)


def test_a_claim_waits_where_jobs_that_end_would_let_it_start(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "owner", QuotaIn(nominal_milli=1000))
    house.submit(1000, 8)
    second = house.submit(1000, 8)
    assert second.state == "pending"
    assert house.allocations.jobs.explain_job(second.id, house.admin).hints[-1] == WAIT
