"""What is left for a claim becomes its own, and no other takes it back: else two jobs evict each
other for ever."""

import pytest

from tests.conformance.quota_cases import MOST_PLANS, plan, plans_until_quiet


def case(cards, tenants, *claims, **rules):
    return {
        "cards": {"H200": cards},
        "tenants": tenants,
        "claims": claims,
        "rules": {"fair": False, **rules},
    }


def runs(name, tenant, gpu=1, priority=0, age=60, **more):
    return {
        "name": name,
        "tenant": tenant,
        "priority": priority,
        "gpu": gpu,
        "started": -age,
        **more,
    }


def waits(name, tenant, gpu=1, priority=0, **more):
    return {"name": name, "tenant": tenant, "priority": priority, "gpu": gpu, **more}


def evicted(found):
    return list(plan(found).evicted)


def test_an_owner_takes_back_from_a_borrower_of_higher_priority_and_evicts_no_other_owner() -> None:
    tenants = {"nlp": {"gpu": [1]}, "owner": {"gpu": [1]}, "guest": {"gpu": [0]}}
    running = runs("low", "owner", priority=-10), runs("high", "guest", priority=10)
    assert evicted(case(2, tenants, *running, waits("claim", "nlp"))) == ["high"]


URGENT = {"guest": {"gpu": [1]}, "urgent": {"gpu": [0]}}
SMALL = waits("small", "guest")


@pytest.mark.parametrize(("beside", "leave"), [((), ["big"]), ((SMALL,), [])])
def test_a_borrower_evicts_no_job_in_whose_place_an_owner_would_take_back_at_once(
    beside, leave
) -> None:
    claims = runs("big", "guest", 2, 10), waits("claim", "urgent", 2, 100), *beside
    found = case(2, URGENT, *claims)
    assert evicted(found) == leave
    assert plans_until_quiet(found) < MOST_PLANS


@pytest.mark.parametrize(("beside", "leave"), [((), ["big"]), ((SMALL,), [])])
def test_a_claim_within_its_fair_share_evicts_no_such_job_either(beside, leave) -> None:
    claims = runs("big", "guest", 3), waits("claim", "urgent"), *beside
    assert evicted(case(3, URGENT, *claims, fair=True)) == leave


def test_nobody_is_evicted_for_a_claim_behind_one_that_collects_the_same_quota() -> None:
    """Once `low` had left, the gang could start sooner, and collected the quota that the claim
    needs."""
    firm = [
        runs(f"firm-{n}", "nlp", age=age, preemptible=False) for n, age in enumerate((9000, 60, 60))
    ]
    gang = waits("gang", "nlp", priority=100, members=3, minimum=2, preemptible=False)
    claim = waits("claim", "nlp", priority=10, preemptible=False)
    running = *firm, runs("own", "owner", priority=100), runs("low", "nlp", age=30)
    tenants = {"nlp": {"gpu": [1]}, "owner": {"gpu": [1, 0]}}
    assert evicted(case(5, tenants, *running, gang, claim)) == []
    assert evicted(case(5, tenants, *running, claim)) == ["low"]


def test_a_gang_that_waits_for_its_own_guarantee_keeps_no_cards_from_an_owner() -> None:
    tenants = {"owner": {"gpu": [2]}, "guest": {"gpu": [0]}, "lab": {}, "shop": {}}
    borrowers = runs("old", "guest", age=9000), runs("new", "guest")
    running = *borrowers, runs("mine", "owner"), runs("lab-job", "lab", 2)
    gang = waits("gang", "shop", members=2)
    assert evicted(case(5, tenants, *running, gang, waits("claim", "owner"))) == ["new"]


def test_a_tenant_of_weight_0_borrows_after_its_siblings_and_gives_back_before_them() -> None:
    tenants = {"idle": {"weight": 0}, "busy": {"past": 10**12}, "owner": {"gpu": [1]}}
    queue = waits("first", "idle", submitted=-60), waits("second", "busy")
    assert list(plan(case(1, {**tenants, "owner": {}}, *queue)).placed) == ["second"]
    borrowers = runs("idle-job", "idle", age=9000), runs("busy-job", "busy")
    assert evicted(
        case(
            2,
            {name: {"gpu": [0], **one} for name, one in tenants.items()},
            *borrowers,
            waits("claim", "owner"),
        )
    ) == ["idle-job"]
