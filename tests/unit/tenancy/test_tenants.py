"""Tenants, quotas, projects: what an admin sets, what a deletion needs, what stays in the books."""

import pytest
import sqlalchemy as sa

from gpupool.base.errors import (
    BadName,
    BadOption,
    NameTaken,
    NotAllowed,
    QuotaTreeRefused,
    StaleGeneration,
    StillInUse,
    UnknownCohort,
    UnknownProject,
    UnknownTenant,
    WrongState,
)
from gpupool.model.quota import Amount, Limit
from gpupool.store.tables import pool
from gpupool.tenancy.quotas import read_tree
from gpupool.tenancy.tables import tenants
from gpupool.wire.people import LimitIn, QuotaIn, UserPatch

from .conftest import House

TEN = QuotaIn(nominal_milli=10_000, borrowing_milli=2_000, nominal_memory_bytes=None, borrowing_memory_bytes=0)


def generation(house: House) -> int:
    with house.store.read() as connection:
        return connection.execute(sa.select(pool.c.generation)).scalar_one()


def test_a_new_tenant_has_no_limits_and_a_default_project(house: House) -> None:
    made = house.tenancy.tenants.create(house.owner, "blue", None)
    assert (made.quota.maximum_milli, made.quota.maximum_memory_bytes, made.projects) == (None, None, ["default"])


def test_a_quota_is_set_whole_and_changes_the_ledgers_generation(house: House) -> None:
    house.tenancy.tenants.create(house.owner, "blue", None)
    before = generation(house)
    quota, new = house.tenancy.put_quota(house.owner, "blue", TEN)
    assert (quota.maximum_milli, new) == (12_000, 2)
    assert generation(house) == before + 1
    assert ("quota.changed", "blue") in house.events()


def test_a_quota_that_somebody_changed_meanwhile_is_not_overwritten(house: House) -> None:
    house.tenancy.tenants.create(house.owner, "blue", None)
    _, read = house.tenancy.tenants.get_quota(house.owner, "blue")
    house.tenancy.put_quota(house.owner, "blue", TEN, read)
    with pytest.raises(StaleGeneration, match="generation 2, not 1"):
        house.tenancy.put_quota(house.owner, "blue", QuotaIn(), read)
    assert house.tenancy.tenants.get_quota(house.owner, "blue")[0].nominal_milli == 10_000


def test_only_an_admin_sets_quotas(house: House) -> None:
    boss = house.user("boss", "blue", role="tenant-admin")
    with pytest.raises(NotAllowed):
        house.tenancy.put_quota(boss, "blue", TEN)


def test_another_tenant_is_as_absent_as_a_missing_one(house: House) -> None:
    worker = house.user("worker", "blue")
    house.tenancy.tenants.create(house.owner, "red", None)
    with house.store.read() as connection:
        for name in ("red", "nowhere"):
            with pytest.raises(UnknownTenant, match=f"no tenant '{name}'"):
                house.tenancy.resolve_tenant(connection, worker, name)
            with pytest.raises(UnknownTenant, match=f"no tenant '{name}'"):
                house.tenancy.tenants.get(worker, name)
        assert house.tenancy.resolve_tenant(connection, worker, None).name == "blue"
        assert house.tenancy.resolve_tenant(connection, house.owner, "red").held == Amount(0, 0)
    assert [one.name for one in house.tenancy.tenants.list(worker, None, 100).items] == ["blue"]


def test_a_tenant_with_jobs_or_users_is_not_deleted_and_the_refusal_counts_them(house: House) -> None:
    worker = house.user("worker", "blue")
    house.jobs[("tenant", worker.tenant_id)] = 2
    with pytest.raises(StillInUse, match="tenant blue still has 2 live jobs and 1 user") as refusal:
        house.tenancy.tenants.delete(house.owner, "blue")
    assert refusal.value.details["users"] == 1


def test_a_tenant_that_still_holds_something_is_not_deleted(house: House) -> None:
    house.tenancy.tenants.create(house.owner, "blue", None)
    with house.store.write() as write:
        write.execute(tenants.update().where(tenants.c.name == "blue").values(held_milli=300))
    with pytest.raises(StillInUse):
        house.tenancy.tenants.delete(house.owner, "blue")


def test_the_default_tenant_is_not_deleted(house: House) -> None:
    with pytest.raises(WrongState, match="default tenant"):
        house.tenancy.tenants.delete(house.owner, "default")


def test_a_deleted_tenant_stays_in_the_books_and_comes_back_as_itself(house: House) -> None:
    worker = house.user("worker", "blue")
    house.tenancy.delete_user(house.owner, "worker")
    house.tenancy.tenants.delete(house.owner, "blue")
    with house.store.read() as connection:
        with pytest.raises(UnknownTenant):
            house.tenancy.resolve_tenant(connection, house.owner, "blue")
        kept = connection.execute(sa.select(tenants).where(tenants.c.name == "blue")).one()
    assert kept.retired_ns is not None
    house.tenancy.tenants.create(house.owner, "blue", TEN)
    with house.store.read() as connection:
        assert house.tenancy.resolve_tenant(connection, house.owner, "blue").id == worker.tenant_id


def test_a_living_tenants_name_is_taken(house: House) -> None:
    with pytest.raises(NameTaken):
        house.tenancy.tenants.create(house.owner, "default", None)


def test_naming_a_project_that_was_not_created_is_refused_and_makes_none(house: House) -> None:
    house.tenancy.tenants.create_project(house.owner, "default", "thesis")
    with house.store.read() as connection:
        assert house.tenancy.project_id(connection, house.owner.tenant_id, "thesis")
        with pytest.raises(UnknownProject, match="it has default, thesis") as refused:
            house.tenancy.project_id(connection, house.owner.tenant_id, "tehsis")
    assert refused.value.hint == "did you mean thesis?  a tenant-admin adds one: gpupool project create tehsis"
    assert house.tenancy.tenants.get(house.owner, "default").projects == ["default", "thesis"]


def test_a_project_needs_a_name_that_can_be_typed(house: House) -> None:
    with pytest.raises(BadName):
        house.tenancy.tenants.create_project(house.owner, "default", "a\nb")


def test_a_tenants_admin_adds_projects_to_its_own_tenant_only(house: House) -> None:
    boss = house.user("boss", "blue", role="tenant-admin")
    assert house.tenancy.tenants.create_project(boss, "blue", "llm").projects == ["default", "llm"]
    with pytest.raises(UnknownTenant):
        house.tenancy.tenants.create_project(boss, "default", "llm")
    with pytest.raises(NameTaken):
        house.tenancy.tenants.create_project(boss, "blue", "llm")


def test_a_user_that_moves_sees_its_new_tenant_and_no_longer_the_old(house: House) -> None:
    house.user("worker", "blue")
    house.tenancy.tenants.create(house.owner, "red", None)
    house.tenancy.users.change(house.owner, "worker", UserPatch(tenant="red"))
    moved = house.tenancy.principal_for_token(house.token("worker"))
    assert [one.name for one in house.tenancy.tenants.list(moved, None, 100).items] == ["red"]


def test_a_tenant_is_put_into_a_cohort_with_a_weight_and_limits_of_its_own(house: House) -> None:
    tenancy = house.tenancy
    tenancy.cohorts.put("lab", QuotaIn(nominal_milli=8000, others=[LimitIn(resource="gpu:h200", nominal=4000)]))
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
    assert tree.tenants["blue"].quota.limits["gpu:H200"] == Limit(3000, 1000, None)
    assert (tree.tenants["blue"].parent, tree.tenants["blue"].weight_milli) == ("lab", 2500)
    assert tree.cohorts["lab"].quota.limits["gpu:H200"] == Limit(4000, None, None)


def test_a_tree_that_promises_more_than_it_has_is_refused_with_the_numbers_and_stays_as_it_was(house: House) -> None:
    tenancy = house.tenancy
    tenancy.cohorts.put("lab", QuotaIn(others=[LimitIn(resource="gpu:H200", nominal=12_000)]))
    eight = QuotaIn(cohort="lab", others=[LimitIn(resource="gpu:H200", nominal=8000)])
    tenancy.tenants.create(house.owner, "blue", eight)
    with pytest.raises(QuotaTreeRefused) as refused:
        tenancy.tenants.create(house.owner, "red", eight)
    assert refused.value.message == (
        "cohort lab is guaranteed 12.00 H200, those in it 16.00 H200: tenant blue 8.00 H200, tenant red 8.00 H200"
    )
    with pytest.raises(UnknownTenant):
        tenancy.tenants.get(house.owner, "red")
    with pytest.raises(QuotaTreeRefused, match=r"guaranteed 7\.00 H200"):
        tenancy.cohorts.put("lab", QuotaIn(others=[LimitIn(resource="gpu:H200", nominal=7000)]))


def test_a_cohort_is_not_put_below_itself_nor_below_one_that_nobody_knows(house: House) -> None:
    cohorts = house.tenancy.cohorts
    cohorts.put("lab", QuotaIn())
    cohorts.put("group", QuotaIn(cohort="lab"))
    with pytest.raises(QuotaTreeRefused, match=r"would be below itself: (lab below group below lab|group below lab)"):
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


@pytest.mark.parametrize("resource", ["gpu", "memory", "memory:H200", "rack", ""])
def test_what_is_not_counted_apart_is_refused(house: House, resource: str) -> None:
    with pytest.raises(BadOption, match="nothing that is counted apart"):
        house.tenancy.cohorts.put("lab", QuotaIn(others=[LimitIn(resource=resource, nominal=1)]))
