"""Cohorts: made by a put, checked as a tree, deleted when they are empty."""

from __future__ import annotations

import pytest

from gpupool.base.errors import (
    InvalidQuotaTree,
    StaleGeneration,
    StillInUse,
    UnknownCohort,
)
from gpupool.wire.people import LimitIn, QuotaIn

from .conftest import House


def test_a_cohort_is_not_put_below_itself_nor_below_one_that_nobody_knows(house: House) -> None:
    cohorts = house.tenancy.cohorts
    cohorts.put("lab", QuotaIn())
    cohorts.put("group", QuotaIn(cohort="lab"))
    with pytest.raises(
        InvalidQuotaTree,
        match=r"would be below itself: (lab below group below lab|group below lab)",
    ):
        cohorts.put("lab", QuotaIn(cohort="group"))
    with pytest.raises(UnknownCohort, match="no cohort 'shop'"):
        cohorts.put("group", QuotaIn(cohort="shop"))
    assert cohorts.get("lab")[0].cohort is None


def test_a_cohort_is_deleted_when_it_is_empty(house: House) -> None:
    cohorts = house.tenancy.cohorts
    cohorts.put("lab", QuotaIn(others=[LimitIn(resource="node", nominal=1)]))
    house.tenancy.tenants.create(house.owner, "blue", QuotaIn(cohort="lab"))
    with pytest.raises(StillInUse, match="1 tenants and 0 cohorts"):
        cohorts.delete("lab")
    house.tenancy.put_quota(house.owner, "blue", QuotaIn())
    cohorts.delete("lab")
    with pytest.raises(UnknownCohort):
        cohorts.get("lab")


def test_a_cohort_that_somebody_changed_meanwhile_is_not_overwritten(house: House) -> None:
    cohorts = house.tenancy.cohorts
    assert cohorts.put("lab", QuotaIn())[1] == 1
    assert cohorts.put("lab", QuotaIn(weight_milli=2000), 1)[1] == 2
    with pytest.raises(StaleGeneration, match="generation 2, not 1"):
        cohorts.put("lab", QuotaIn(), 1)
