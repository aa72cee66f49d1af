"""Whose command, output and processes a caller sees."""

from __future__ import annotations

import pytest

from gpupool.base.errors import NotFound, OutputIsPrivate
from gpupool.model.tenant import UserRole
from tests.support.house import House


@pytest.mark.parametrize("role", [UserRole.USER, UserRole.VIEWER])
def test_a_colleague_is_shown_the_share_and_not_what_it_does(house: House, role: UserRole) -> None:
    house.tenancy.tenants.create(house.admin, "lab", None)
    owner, colleague = house.member("owner", "lab"), house.member("colleague", "lab", role)
    job = house.submit(name="train", principal=owner)
    seen = house.allocations.jobs.get_job("train", colleague)
    assert (seen.name, seen.user, seen.share, seen.state) == (
        "train",
        "owner",
        job.share,
        job.state,
    )
    assert (seen.command, seen.attach_socket, seen.private) == ([], None, True)
    with pytest.raises(OutputIsPrivate, match="the output of train belongs to owner"):
        house.allocations.jobs.get_job_with_output("train", colleague)


def test_its_user_the_tenant_admin_and_the_pool_admin_see_everything(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "lab", None)
    owner, boss = house.member("owner", "lab"), house.member("boss", "lab", UserRole.TENANT_ADMIN)
    house.submit(name="train", principal=owner)
    for caller in (owner, boss, house.admin):
        seen = house.allocations.jobs.get_job_with_output("train", caller)
        assert (seen.command, seen.private) == (["true"], False)


def test_to_another_tenant_the_job_does_not_exist(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "lab", None)
    house.tenancy.tenants.create(house.admin, "other", None)
    house.submit(name="train", principal=house.member("owner", "lab"))
    with pytest.raises(NotFound):
        house.allocations.jobs.get_job_with_output(
            "train", house.member("boss", "other", UserRole.TENANT_ADMIN)
        )
