"""Tenants, quotas, projects: what an admin sets, what a deletion needs, what stays in the books."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from gpupool.base.errors import (
    BadName,
    NameTaken,
    StaleGeneration,
    StillInUse,
    UnknownProject,
    UnknownTenant,
    WrongState,
)
from gpupool.store.tables import pool
from gpupool.tenancy.tables import tenants
from gpupool.wire.people import QuotaIn, UserPatch

from .conftest import House

TEN = QuotaIn(
    nominal_milli=10_000, borrowing_milli=2_000, nominal_memory_bytes=None, borrowing_memory_bytes=0
)


def generation(house: House) -> int:
    with house.store.read() as connection:
        return connection.execute(sa.select(pool.c.generation)).scalar_one()


def test_a_new_tenant_has_no_limits_and_a_default_project(house: House) -> None:
    made = house.tenancy.tenants.create(house.owner, "blue", None)
    assert (made.quota.maximum_milli, made.quota.maximum_memory_bytes, made.projects) == (
        None,
        None,
        ["default"],
    )


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


def test_a_tenant_with_jobs_or_users_is_not_deleted_and_the_refusal_counts_them(
    house: House,
) -> None:
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
    assert (
        refused.value.hint
        == "did you mean thesis?  a tenant-admin adds one: gpupool project create tehsis"
    )
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
