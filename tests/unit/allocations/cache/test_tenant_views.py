"""The tenants as the scheduler sees them: quota, holdings and their place in the quota tree."""

from __future__ import annotations

from types import SimpleNamespace

from gpupool.allocations.cache.tenant_views import TenantViews
from gpupool.model.quota import ResourceAmount
from gpupool.wire.people import QuotaIn
from tests.support.house import House


def tenant_row(generation: int, held_milli: int) -> SimpleNamespace:
    return SimpleNamespace(
        name="nlp",
        generation=generation,
        nominal_milli=4000,
        borrowing_milli=0,
        nominal_memory_bytes=None,
        borrowing_memory_bytes=None,
        held_milli=held_milli,
        held_memory_bytes=7,
    )


def test_a_row_of_an_older_generation_changes_no_view() -> None:
    views = TenantViews(lambda: 0)
    views.record_row(tenant_row(2, 600), None)
    views.record_row(tenant_row(1, 300), None)
    assert views.build_views()["nlp"].held == ResourceAmount(600, 7)
    views.record_row(tenant_row(2, 900), None)
    assert views.build_views()["nlp"].held.gpu_milli == 900


def test_a_tenant_younger_than_the_tree_stands_below_its_root() -> None:
    views = TenantViews(lambda: 0)
    views.record_row(tenant_row(1, 0), None)
    view = views.build_views()["nlp"]
    assert (view.cohort, view.quota.nominal_milli, view.quota.borrowing_milli) == (None, 4000, 0)


def test_load_reads_the_tree_and_forgets_tenants_that_are_gone(house: House) -> None:
    house.tenancy.cohorts.put("lab", QuotaIn(nominal_milli=2000))
    blue = QuotaIn(nominal_milli=500, cohort="lab", weight_milli=3000)
    house.tenancy.tenants.create(house.admin, "blue", blue)
    views = TenantViews(lambda: 0)
    views.record_row(tenant_row(9, 600), None)
    with house.store.read() as connection:
        views.load(connection, None)
    found = views.build_views()
    assert set(found) == {"default", "blue"}
    assert (found["blue"].cohort, found["blue"].weight_milli) == ("lab", 3000)
    assert set(views.cohorts) == {"lab"}
