"""Who may set which advice policy, which rule a family has by them, and what a trial says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.allocations.rightsizing.policy_rows import find_rule, read_policies
from gpupool.base.errors import BadOption, NoPermission, UnknownTenant
from gpupool.base.errors.people import (
    AdvicePolicyMissing,
    LooserAdvicePolicy,
    UnknownAdvicePolicy,
)
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.tenant import Principal, UserRole
from gpupool.rightsizing.families import FamilyKey
from gpupool.rightsizing.policy import AdviceMode
from gpupool.wire.rightsizing.policies import AdvicePolicyIn, AdvicePolicyOut
from tests.support.idle_house import IdleHouse
from tests.support.measured_runs import run_family

ANNS = FamilyKey("nlp", "default", "ann", "train")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[IdleHouse, Principal]]:
    """A pool with a measured family, and the admin of tenant nlp."""
    made = IdleHouse(tmp_path_factory.mktemp("policies"))
    boss = made.member("boss", "nlp", UserRole.TENANT_ADMIN)
    run_family(made, "train", [0.1] * 8)
    yield made, boss
    made.close()


@pytest.fixture
def pool(filled: tuple[IdleHouse, Principal]) -> IdleHouse:
    """The pool without policies."""
    found, _ = filled
    policies = found.allocations.rightsizing.policies
    for one in policies.list_all(found.admin):
        policies.delete(found.admin, one.id)
    return found


@pytest.fixture
def boss(filled: tuple[IdleHouse, Principal]) -> Principal:
    """The admin of tenant nlp."""
    return filled[1]


def put(house: IdleHouse, caller: Principal, **body: Any) -> AdvicePolicyOut:
    made = AdvicePolicyIn.model_validate(body)
    return house.allocations.rightsizing.policies.put(caller, made)


def test_the_closest_policy_of_the_pool_holds(pool: IdleHouse, boss: Principal) -> None:
    put(pool, pool.admin, mode="off")
    tenants = put(pool, pool.admin, mode="apply", tenant="nlp")
    named = put(pool, pool.admin, mode="propose", tenant="nlp", families="tr*")

    with pool.store.read() as connection:
        policies = read_policies(connection)
    other = FamilyKey("nlp", "default", "ann", "eval")
    foreign = FamilyKey("default", "default", "ann", "train")
    rules = [find_rule(policies, key) for key in (ANNS, other, foreign)]
    assert [rule and rule.policy for rule in rules][:2] == [named.id, tenants.id]
    assert [str(rule.bounds.mode) for rule in rules if rule] == ["propose", "apply", "off"]
    assert named.scope == "tenant nlp, families tr*"


def test_a_tenant_tightens_and_never_loosens(pool: IdleHouse, boss: Principal) -> None:
    with pytest.raises(AdvicePolicyMissing):
        put(pool, boss, mode="off")
    base = put(pool, pool.admin, mode="propose", target="both", most_cut_percent=40)
    with pytest.raises(LooserAdvicePolicy, match="mode apply beside propose, a cut of 50 %"):
        put(pool, boss, mode="apply", most_cut_percent=50)
    assert [one.id for one in pool.allocations.rightsizing.policies.list_all(boss)] == [base.id]

    mine = put(pool, boss, mode="propose", most_cut_percent=20)

    assert (mine.tenant, mine.by_tenant) == ("nlp", True)
    put(pool, pool.admin, mode="apply", target="both", most_cut_percent=40)
    with pool.store.read() as connection:
        rule = find_rule(read_policies(connection), ANNS)
    assert rule is not None
    # What the pool allows later, the tenant has not.
    assert (rule.bounds.mode, rule.bounds.most_cut_percent) == (AdviceMode.PROPOSE, 20)


def test_a_second_policy_of_the_same_families_replaces_the_first(
    pool: IdleHouse, boss: Principal
) -> None:
    first = put(pool, pool.admin, families="train")
    second = put(pool, pool.admin, families="train", mode="apply")

    assert first.id == second.id
    assert pool.allocations.rightsizing.policies.find(boss, first.id).mode == "apply"


def test_foreign_policies_are_not_found_and_the_pools_are_not_removed(
    pool: IdleHouse, boss: Principal
) -> None:
    base = put(pool, pool.admin)
    other = put(pool, pool.admin, tenant="default")
    policies = pool.allocations.rightsizing.policies

    with pytest.raises(UnknownAdvicePolicy):
        policies.find(boss, other.id)
    with pytest.raises(UnknownAdvicePolicy):
        policies.delete(boss, other.id)
    with pytest.raises(NoPermission):
        policies.delete(boss, base.id)
    with pytest.raises(UnknownTenant):
        put(pool, boss, tenant="default", mode="off")
    with pytest.raises(BadOption):
        put(pool, pool.admin, project="default")


def test_a_trial_counts_what_would_have_changed(pool: IdleHouse, boss: Principal) -> None:
    policies = pool.allocations.rightsizing.policies
    since_ns = pool.store.clock.now_ns() - 86400 * NANOS_PER_SECOND
    body = AdvicePolicyIn(mode="apply", confidence="low", most_cut_percent=90)

    found = policies.try_policy(pool.admin, body, since_ns)

    assert (found.families, found.jobs, found.known_jobs, found.changed_jobs) == (1, 8, 3, 3)
    assert (found.returned_jobs, found.starved_percent) == (0, 0.0)
    # 0.15 of a card in place of 0.5.
    assert found.saved_percent == pytest.approx(70)
    assert policies.list_all(pool.admin) == []
    theirs = policies.try_policy(boss, body, since_ns)
    assert (theirs.scope, theirs.jobs, theirs.starved_percent) == ("tenant nlp", 0, None)
