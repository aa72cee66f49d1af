"""The quota tree as it is kept: written by node, read whole, checked as a whole."""

from __future__ import annotations

import pytest

from gpupool.base.errors import (
    BadOption,
    InvalidQuotaTree,
    UnknownTenant,
)
from gpupool.model.quota import QuotaLimit
from gpupool.tenancy.quotas import read_tree
from gpupool.wire.people import LimitIn, QuotaIn

from .conftest import House


def test_a_tenant_is_put_into_a_cohort_with_a_weight_and_limits_of_its_own(house: House) -> None:
    tenancy = house.tenancy
    tenancy.cohorts.put(
        "lab", QuotaIn(nominal_milli=8000, others=[LimitIn(resource="gpu:h200", nominal=4000)])
    )
    wanted = QuotaIn(
        nominal_milli=4000,
        cohort="lab",
        weight_milli=2500,
        lending_milli=1000,
        others=[
            LimitIn(resource="gpu:h200", nominal=3000, borrowing=1000),
            LimitIn(resource="node", nominal=1, lending=0),
        ],
    )
    made = tenancy.tenants.create(house.owner, "blue", wanted)
    assert made.quota.model_dump(include=set(QuotaIn.model_fields)) == wanted.model_dump() | {
        "others": [
            {"resource": "gpu:H200", "nominal": 3000, "borrowing": 1000, "lending": None},
            {"resource": "node", "nominal": 1, "borrowing": None, "lending": 0},
        ]
    }
    with house.store.read() as connection:
        tree = read_tree(connection)
    assert tree.tenants["blue"].quota.limits["gpu:H200"] == QuotaLimit(3000, 1000, None)
    assert (tree.tenants["blue"].parent, tree.tenants["blue"].weight_milli) == ("lab", 2500)
    assert tree.cohorts["lab"].quota.limits["gpu:H200"] == QuotaLimit(4000, None, None)


def test_a_tree_that_promises_more_than_it_has_is_refused_with_the_numbers_and_stays_as_it_was(
    house: House,
) -> None:
    tenancy = house.tenancy
    tenancy.cohorts.put("lab", QuotaIn(others=[LimitIn(resource="gpu:H200", nominal=12_000)]))
    eight = QuotaIn(cohort="lab", others=[LimitIn(resource="gpu:H200", nominal=8000)])
    tenancy.tenants.create(house.owner, "blue", eight)
    with pytest.raises(InvalidQuotaTree) as refused:
        tenancy.tenants.create(house.owner, "red", eight)
    assert refused.value.message == (
        "cohort lab is guaranteed 12.00 H200, those in it 16.00 H200: tenant blue 8.00 H200, tenant red 8.00 H200"
    )
    with pytest.raises(UnknownTenant):
        tenancy.tenants.get(house.owner, "red")
    with pytest.raises(InvalidQuotaTree, match=r"guaranteed 7\.00 H200"):
        tenancy.cohorts.put("lab", QuotaIn(others=[LimitIn(resource="gpu:H200", nominal=7000)]))


@pytest.mark.parametrize("resource", ["gpu", "memory", "memory:H200", "rack", ""])
def test_what_is_not_counted_apart_is_refused(house: House, resource: str) -> None:
    with pytest.raises(BadOption, match="nothing that is counted apart"):
        house.tenancy.cohorts.put("lab", QuotaIn(others=[LimitIn(resource=resource, nominal=1)]))
