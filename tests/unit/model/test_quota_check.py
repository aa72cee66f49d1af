from gpupool.model.quota import Quota, QuotaBranch, QuotaLimit
from gpupool.model.quota_check import (
    CohortCycle,
    OverpromisedCohort,
    UnknownParent,
    find_tree_fault,
)


def branch(parent: str | None = None, gpu: int | None = None) -> QuotaBranch:
    return QuotaBranch(parent, Quota.from_limits({} if gpu is None else {"gpu": QuotaLimit(gpu)}))


def test_a_tree_that_adds_up_has_no_fault() -> None:
    cohorts = {"lab": branch(gpu=8), "group": branch("lab")}
    assert (
        find_tree_fault(
            cohorts, {"a": branch("lab", 5), "b": branch("group", 3), "c": branch(gpu=99)}
        )
        is None
    )


def test_nominal_parts_are_added_up_through_cohorts_that_have_none() -> None:
    cohorts = {"lab": branch(gpu=8), "group": branch("lab"), "team": branch("lab", 2)}
    views = {"a": branch("group", 5), "b": branch("group", 2), "c": branch("team", 2)}
    assert find_tree_fault(cohorts, views) == OverpromisedCohort(
        "lab", "gpu", 8, {"tenant a": 5, "tenant b": 2, "cohort team": 2}
    )


def test_a_cycle_is_named() -> None:
    assert find_tree_fault({"a": branch("b"), "b": branch("a")}, {}) == CohortCycle(("a", "b"))
    assert find_tree_fault({"c": branch("a"), "a": branch("a")}, {}) == CohortCycle(("a",))


def test_an_unknown_parent_is_named() -> None:
    assert find_tree_fault({}, {"nlp": branch("lab")}) == UnknownParent("nlp", "lab")
