"""The tenancy package's one door: who starts the pool, and whom a submission is for."""

from __future__ import annotations

import pytest

from gpupool.base.errors import (
    NoPermission,
    UnknownTenant,
)
from gpupool.model.quota import ResourceAmount
from gpupool.model.tenant import UserRole
from gpupool.wire.people import QuotaIn, UserPatch

from .conftest import House, Machine


def test_only_an_admin_sets_quotas(house: House) -> None:
    boss = house.user("boss", "blue", role="tenant-admin")
    with pytest.raises(NoPermission):
        house.tenancy.put_quota(boss, "blue", QuotaIn(nominal_milli=10_000))


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
        assert house.tenancy.resolve_tenant(connection, house.owner, "red").held == ResourceAmount(
            0, 0
        )
    assert [one.name for one in house.tenancy.tenants.list(worker, None, 100).items] == ["blue"]


def test_whoever_starts_the_pool_is_its_admin(house: House, own: House) -> None:
    assert (house.owner.user, house.owner.role, house.owner.tenant) == (
        "root",
        UserRole.ADMIN,
        "default",
    )
    assert (own.owner.user, own.owner.role) == ("alice", UserRole.ADMIN)


def test_starting_again_changes_nothing(house: House) -> None:
    before = house.events()
    assert House(house.store, Machine(), owner_uid=0).owner == house.owner
    assert house.events() == before


def test_an_owner_who_was_demoted_is_admin_again_after_a_start(house: House) -> None:
    house.user("other", role="admin")
    house.tenancy.users.change(house.owner, "root", UserPatch(role="viewer"))
    assert house.peer(0).role is UserRole.VIEWER
    assert House(house.store, Machine(), owner_uid=0).owner.role is UserRole.ADMIN
