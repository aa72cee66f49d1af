"""Jobs for their users: whose jobs a caller finds, explains and may stop."""

from __future__ import annotations

import pytest

from gpupool.allocations.views.job_pages import JobFilter
from gpupool.base.errors import (
    NoPermission,
    NotFound,
)
from gpupool.model.tenant import UserRole
from tests.support.house import House


def test_explain_names_who_holds_the_cards(house: House) -> None:
    for n in range(2):
        house.submit(1000, None, name=f"whole-{n}")
    house.submit(500, 8, name="later")
    answer = house.allocations.jobs.explain_job("last", house.admin)
    assert answer.state == "pending"
    assert answer.cards
    assert [holder.split()[0] for holder in answer.holders] == ["whole-0", "whole-1"]


def test_another_tenants_job_is_not_found(house: House) -> None:
    for name in ("nlp", "vision"):
        house.tenancy.tenants.create(house.admin, name, None)
    ann, bob = house.member("ann", "nlp"), house.member("bob", "vision")
    house.submit(name="secret", principal=ann)
    for action in (
        lambda: house.allocations.jobs.get_job("secret", bob),
        lambda: house.allocations.jobs.stop_job("secret", bob, None),
        lambda: house.allocations.jobs.explain_job("secret", bob),
        lambda: house.submit(tenant="nlp", principal=bob),
    ):
        with pytest.raises(NotFound):
            action()
    assert house.allocations.jobs.list_jobs(bob, JobFilter(), None, 10).items == []
    assert [
        event.kind
        for event in house.allocations.events.read_events(bob, 0, 1000)
        if event.tenant == "nlp"
    ] == []


def test_a_colleagues_job_is_seen_but_only_a_tenant_admin_may_stop_it(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "nlp", None)
    ann, bob = house.member("ann", "nlp"), house.member("bob", "nlp")
    chief = house.member("chief", "nlp", UserRole.TENANT_ADMIN)
    house.submit(name="work", principal=ann)
    with pytest.raises(NoPermission):
        house.allocations.jobs.stop_job("work", bob, None)
    assert house.allocations.jobs.stop_job("work", chief, None)
