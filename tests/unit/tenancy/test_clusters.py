"""Holders of cards on a cluster get rows of their own, and cannot log in."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.tenancy.clusters import LONGEST, ClusterOwner, ensure_owner, shorten_name
from gpupool.tenancy.tables import projects, tenants, users

from .conftest import House


def ensure(house: House, tenant: str, namespace: str, account: str = "runner") -> ClusterOwner:
    with house.store.write() as write:
        return ensure_owner(write, tenant, namespace, account)


def test_an_owner_is_made_once_and_found_again(house: House) -> None:
    first = ensure(house, "blue", "training")
    assert ensure(house, "blue", "training") == first
    other = ensure(house, "blue", "serving")
    assert (other.tenant_id, other.project_id == first.project_id) == (first.tenant_id, False)
    assert house.events().count(("tenant.created", "blue")) == 1


def test_the_user_of_a_cluster_is_disabled_and_named_as_no_user_can_be(house: House) -> None:
    owners = [ensure(house, "blue", "training", account) for account in ("runner", "")]
    with house.store.read() as connection:
        rows = {row.id: row for row in connection.execute(sa.select(users))}
    assert [rows[owner.user_id].name for owner in owners] == ["training:runner", "training:"]
    assert all(rows[owner.user_id].disabled_ns is not None for owner in owners)


def test_a_name_that_the_pool_cannot_have_is_always_the_same_other_name(house: House) -> None:
    first = ensure(house, "-team-", "kube.system-")
    assert ensure(house, "-team-", "kube.system-") == first
    with house.store.read() as connection:
        tenant = sa.select(tenants.c.name).where(tenants.c.id == first.tenant_id)
        project = sa.select(projects.c.name).where(projects.c.id == first.project_id)
        names = [connection.execute(query).scalar_one() for query in (tenant, project)]
    assert [name[:8] for name in names] == ["cluster-", "cluster-"]
    assert names[0] != names[1]


def test_a_long_name_is_cut_and_told_from_others_by_a_mark() -> None:
    long = "a" * (LONGEST + 1)
    assert shorten_name("a" * LONGEST) == "a" * LONGEST
    assert len(shorten_name(long)) == LONGEST
    assert shorten_name(long) != shorten_name(long + "b")
