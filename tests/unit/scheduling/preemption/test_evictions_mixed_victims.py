"""Who leaves where a quota is full: own work of lower priority, borrowers, or both together."""

from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.preemption.evictions import MOST_IN_VAIN
from gpupool.scheduling.preemption.victims import PreemptionRules
from tests.conformance.quota_cases import NOW_NS, plan, plans_until_quiet, snapshot

COHORT = {"all": {"gpu": [4, 0]}}
RULES = PreemptionRules(protected_s=0, per_hour=None, fair=False)
TENANTS = {"nlp": {"cohort": "all", "gpu": [2]}, "guest": {"cohort": "all", "gpu": [2]}}


def case(*claims, tenants=None, **more):
    return {
        "cards": {"H200": 4},
        "cohorts": COHORT,
        "tenants": tenants or TENANTS,
        "claims": claims,
        "rules": {"fair": False},
        **more,
    }


def held(name, tenant, priority=0, age=60, gpu=1):
    return {"name": name, "tenant": tenant, "priority": priority, "gpu": gpu, "started": -age}


def waiting(gpu, priority=0, tenant="nlp"):
    return {"name": "claim", "tenant": tenant, "priority": priority, "gpu": gpu}


def evicted(found):
    return list(plan(found).evicted)


def test_own_work_leaves_so_that_the_claim_may_take_back_the_rest() -> None:
    borrowers = [held(f"guest-{n}", "guest", age=60 + n) for n in range(3)]
    assert evicted(case(held("mine", "nlp", -1), *borrowers, waiting(2))) == ["guest-0", "mine"]


def test_no_own_work_leaves_where_taking_back_is_enough() -> None:
    borrowers = [held(f"guest-{n}", "guest", age=60 + n) for n in range(3)]
    assert evicted(case(held("mine", "nlp", -1), *borrowers, waiting(1))) == ["guest-0"]


def test_nobody_leaves_where_both_together_are_not_enough() -> None:
    owners = [held(f"guest-{n}", "guest") for n in range(2)]
    assert evicted(case(held("mine", "nlp", -1), *owners, held("firm", "nlp", 5), waiting(3))) == []


def test_at_its_own_maximum_the_lowest_priority_leaves_first() -> None:
    tenants = {"nlp": {"gpu": [2, 0]}}
    found = case(
        held("low", "nlp", -10, age=9000), held("high", "nlp", 1), waiting(1, 5), tenants=tenants
    )
    assert evicted({**found, "cohorts": {}}) == ["low"]


def test_a_tenant_gives_back_its_lowest_priority_however_old_it_is() -> None:
    borrowers = [held("old-low", "guest", 0, age=9000, gpu=2), held("new-high", "guest", 5, gpu=2)]
    assert evicted(case(*borrowers, waiting(2))) == ["old-low"]


def test_of_one_priority_a_tenant_keeps_what_started_first() -> None:
    borrowers = [held("old", "guest", age=9000, gpu=2), held("new", "guest", gpu=2)]
    assert evicted(case(*borrowers, waiting(2))) == ["new"]


def test_mixed_victims_come_to_rest() -> None:
    borrowers = [held(f"guest-{n}", "guest", 100, age=60 + n) for n in range(3)]
    assert plans_until_quiet(case(held("mine", "nlp", -1), *borrowers, waiting(2))) < 5


def test_after_enough_sorts_in_vain_a_tenant_looks_no_further() -> None:
    def looked(sorts: int) -> int:
        tenants = {"nlp": {"cohort": "all", "gpu": [1]}, "guest": {"cohort": "all", "gpu": [3]}}
        running = [held("low", "nlp", -5), *(held(f"guest-{n}", "guest", 50) for n in range(3))]
        claims = [{**waiting(2, number), "name": f"claim-{number}"} for number in range(sorts)]
        return cycle(
            snapshot(case(*running, *claims, tenants=tenants)), NOW_NS, rules=RULES, said=False
        ).effort.rows

    each = looked(MOST_IN_VAIN) / MOST_IN_VAIN
    assert looked(4 * MOST_IN_VAIN) < 2 * MOST_IN_VAIN * each
