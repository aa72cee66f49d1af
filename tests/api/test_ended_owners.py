"""No rule or limit of a deleted tenant or user holds for the next one of its name; the books stay."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.allocations.rightsizing.policy_rows import pause_family
from gpupool.allocations.store.advice_tables import advice_pauses
from gpupool.billing.budgets.tables import budgets
from gpupool.store.tables import metadata
from gpupool.tenancy.tables import projects, tenants, users
from gpupool.wire.billing.budgets import BudgetIn
from gpupool.wire.idleness.policies import IdlePolicyIn, IdleStepIn
from gpupool.wire.leavers.policies import LeaverPolicyIn
from gpupool.wire.network.planes import PlaneDemandIn, PlaneNodesIn
from gpupool.wire.network.promises import BandwidthIn
from gpupool.wire.network.quotas import NetworkQuotaIn
from gpupool.wire.people import LimitIn, QuotaIn, UserIn
from gpupool.wire.rightsizing.policies import AdvicePolicyIn
from gpupool.wire.signon import RuleIn, RulesIn
from gpupool.wire.templates.documents import TemplateIn
from gpupool.wire.templates.uses import TemplateAdd
from tests.api.test_fleet import node_body
from tests.support.api import RunningApp, running_app
from tests.support.planes import make_content
from tests.unit.templates.test_service import MINE

#: What holds for a tenant: it ends with the tenant.
RULES = frozenset(
    {
        "advice_pauses",
        "advice_policies",
        "bandwidth_caps",
        "budgets",
        "idle_policies",
        "leaver_policies",
        "network_quotas",
        "plane_demands",
        "plane_nodes",
        "quota_limits",
        "signon_rules",
        "templates",
    }
)
#: What was: the books, the history of jobs, the log of events and acts.
BOOKS = frozenset(
    {
        "adjustments",
        "arrays",
        "audit_records",
        "charges",
        "claims",
        "delivered",
        "energy_slots",
        "events",
        "gangs",
        "idle_spans",
        "intervals",
        "jobs",
        "leavers",
        "network_verifications",
        "reservations",
        "reserved_hours",
        "usage_days",
        "usage_hours",
    }
)
#: What the users of a tenant own, or what keeps it from being deleted.
OWNED = frozenset({"networks", "projects", "schedules", "services", "subscriptions", "users"})


@pytest.fixture
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApp]:
    with running_app(tmp_path_factory.mktemp("pool")) as running:
        running.client().put("nodes/node-1", node_body(2))
        yield running


def test_each_table_that_names_a_tenant_says_what_becomes_of_its_rows() -> None:
    named = {table.name for table in metadata.sorted_tables if "tenant_id" in table.c}
    assert named == RULES | BOOKS | OWNED


def test_no_rule_of_a_deleted_tenant_holds_for_the_next_one(pool: RunningApp) -> None:
    tenancy = pool.services.tenancy
    admin = tenancy.bootstrap()
    tenancy.tenants.create(admin, "acme", None)
    tenancy.users.create(admin, UserIn(name="ann", tenant="acme"))
    set_rules(pool, "acme", "ann")
    assert count_rules(pool, "acme") == dict.fromkeys(RULES, 1)
    generation = pool.services.signon.rules.get_rules()[1]

    tenancy.users.delete(admin, "ann")
    tenancy.tenants.delete(admin, "acme")
    # The other limits of the quota are replaced when the tenant comes back.
    assert set(drop_zeros(count_rules(pool, "acme"))) <= {"quota_limits"}
    assert pool.services.signon.rules.get_rules()[1] == generation + 1

    tenancy.tenants.create(admin, "acme", None)
    assert drop_zeros(count_rules(pool, "acme")) == {}


def test_rules_that_an_earlier_version_left_do_not_come_back(pool: RunningApp) -> None:
    tenancy = pool.services.tenancy
    admin = tenancy.bootstrap()
    tenancy.tenants.create(admin, "acme", None)
    tenancy.users.create(admin, UserIn(name="ann", tenant="acme"))
    set_rules(pool, "acme", "ann")
    with pool.services.store.write() as write:
        for table in (users, tenants):
            mine = table.c.name.in_(["acme", "ann"])
            write.execute(table.update().where(mine).values(retired_ns=write.now_ns))
    tenancy.tenants.create(admin, "acme", None)
    assert drop_zeros(count_rules(pool, "acme")) == {}


def test_rules_of_other_tenants_stay(pool: RunningApp) -> None:
    tenancy = pool.services.tenancy
    admin = tenancy.bootstrap()
    for name in ("acme", "blue"):
        tenancy.tenants.create(admin, name, None)
    tenancy.users.create(admin, UserIn(name="ann", tenant="acme"))
    set_rules(pool, "acme", "ann")
    tenancy.tenants.delete(admin, "blue")
    tenancy.tenants.create(admin, "blue", None)
    assert count_rules(pool, "acme") == dict.fromkeys(RULES, 1)


def test_no_limit_of_a_deleted_user_holds_for_the_next_one(pool: RunningApp) -> None:
    tenancy = pool.services.tenancy
    admin = tenancy.bootstrap()
    for name in ("ann", "bob"):
        tenancy.users.create(admin, UserIn(name=name))
        add_budget(pool, tenant="default", user=name)
        pause(pool, "default", name)
    tenancy.users.delete(admin, "ann")
    tenancy.users.create(admin, UserIn(name="ann"))
    with pool.services.store.read() as connection:
        for table in (budgets, advice_pauses):
            query = sa.select(users.c.name).join_from(users, table, table.c.user_id == users.c.id)
            assert connection.execute(query).scalars().all() == ["bob"], table.name


def set_rules(pool: RunningApp, tenant: str, user: str) -> None:
    """Set one rule of each kind for a tenant."""
    services = pool.services
    allocations = services.allocations
    admin = services.tenancy.bootstrap()
    limits = [LimitIn(resource="gpu:H200", nominal=1000)]
    services.tenancy.put_quota(admin, tenant, QuotaIn(others=limits))
    add_budget(pool, tenant=tenant)
    step = IdleStepIn(act="warn", after_seconds=600)
    idle = IdlePolicyIn(tenant=tenant, project="default", steps=[step])
    allocations.idleness.policies.put(admin, idle)
    advice = AdvicePolicyIn.model_validate({"tenant": tenant, "mode": "propose"})
    allocations.rightsizing.policies.put(admin, advice)
    pause(pool, tenant, user)
    leaving = LeaverPolicyIn(tenant=tenant, act="stop")
    allocations.leaver_policies.put_policy(admin, leaving)
    services.network_quotas.set_quotas(admin, tenant, NetworkQuotaIn(networks=1))
    services.bandwidth_limits.set_cap(
        admin, tenant, "port", BandwidthIn(in_kbit=1000, out_kbit=1000)
    )
    services.planes.put_inventory(make_content())
    services.planes.demand_plane(admin, "roce", PlaneDemandIn(), tenant)
    services.planes.put_nodes(admin, PlaneNodesIn(nodes=["node-1"]), tenant)
    rule = RuleIn(group="people", role="user", tenant=tenant)
    services.signon.rules.put_rules(admin, RulesIn(rules=[rule]), None)
    template = TemplateIn.model_validate(MINE)
    services.templates.add(admin, TemplateAdd(template=template, tenant=tenant))


def add_budget(pool: RunningApp, **owner: Any) -> None:
    body = BudgetIn.model_validate({"unit": "gpu-hours", "amount": 3_600_000, **owner})
    pool.services.billing.budgets.put(pool.services.tenancy.bootstrap(), body)


def pause(pool: RunningApp, tenant: str, user: str) -> None:
    """Let advice policies leave a family of a user alone."""
    with pool.services.store.write() as write:
        query = (
            sa.select(tenants.c.id, projects.c.id, users.c.id)
            .join_from(tenants, projects, projects.c.tenant_id == tenants.c.id)
            .join(users, users.c.tenant_id == tenants.c.id)
            .where(tenants.c.name == tenant, users.c.name == user, projects.c.name == "default")
        )
        tenant_id, project_id, user_id = write.execute(query).one()
        pause_family(write, (tenant_id, project_id, user_id), "train-*", "j-1", 2**62)


def count_rules(pool: RunningApp, tenant: str) -> dict[str, int]:
    """Count the rows of a tenant in each table of rules."""
    owner = sa.select(tenants.c.id).where(tenants.c.name == tenant).scalar_subquery()
    found = dict[str, int]()
    with pool.services.store.read() as connection:
        for name in RULES:
            table = metadata.tables[name]
            query = sa.select(sa.func.count()).where(table.c.tenant_id == owner)
            found[name] = connection.execute(query).scalar_one()
    return found


def drop_zeros(counts: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count}
