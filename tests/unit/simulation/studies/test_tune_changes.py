"""Changes that are tried on a history: other policies, and other quotas of tenants that waited."""

from __future__ import annotations

from collections.abc import Mapping

from gpupool.model.quota import Quota
from gpupool.simulation.studies.tune_changes import (
    ReplaySummary,
    list_policy_changes,
    list_quota_changes,
)
from gpupool.simulation.traces.trace import WorkloadTrace
from tests.support.simulation_builders import job


def trace(**quotas: Quota) -> WorkloadTrace:
    return WorkloadTrace("made", (job("a", 0, 1),), quotas=quotas)


def summary(waits: Mapping[str, int], held: Mapping[str, int] | None = None) -> ReplaySummary:
    """One job of each tenant has waited so long."""
    owners = {name: name for name in waits}
    return ReplaySummary(waits, dict.fromkeys(waits, 0), owners, held or {}, 0, 0)


def words(given: WorkloadTrace, before: ReplaySummary, **wanted: int) -> list[str]:
    return [one.words for one in list_quota_changes(given, "fgd", before, wanted)]


def test_policy_changes_leave_out_the_policy_of_the_pool_and_doubles() -> None:
    given = trace(nlp=Quota(1000, 0))
    found = list(list_policy_changes("fgd", ["fgd", "spread", "spread"], given))
    assert [(one.policy, one.quotas) for one in found] == [("spread", given.quotas)]


def test_quota_changes_of_a_tenant_that_borrows_freely_only_raise_it() -> None:
    assert words(trace(nlp=Quota(1000, None)), summary({"nlp": 5})) == [
        "nlp: 1.00 -> 2.00 GPU guaranteed"
    ]


def test_quota_changes_raise_by_a_quarter_and_at_least_by_a_card() -> None:
    before = summary({"large": 9, "small": 5}, {"large": 8000, "small": 2000})
    found = words(trace(large=Quota(8000, None), small=Quota(2000, None)), before)
    assert found == ["large: 8.00 -> 10.00 GPU guaranteed", "small: 2.00 -> 3.00 GPU guaranteed"]


def test_quota_changes_take_only_from_a_tenant_that_left_more_unused() -> None:
    given = trace(nlp=Quota(1000, None), cv=Quota(3000, None))
    taken = "nlp: 1.00 -> 2.00 GPU guaranteed, taken from cv"
    assert taken not in words(given, summary({"nlp": 5}, {"cv": 2000}))
    before = summary({"nlp": 5}, {"cv": 1999})
    assert taken in words(given, before)
    change = list(list_quota_changes(given, "fgd", before, {}))[-1]
    assert {name: one.nominal_milli for name, one in change.quotas.items()} == {
        "nlp": 2000,
        "cv": 2000,
    }


def test_quota_changes_are_of_the_three_tenants_that_waited_most() -> None:
    waits = {"a": 1, "b": 4, "c": 3, "d": 2, "free": 9}
    quotas = {name: Quota(1000, None) for name in "abcd"}
    found = words(trace(**quotas, free=Quota(None, None), calm=Quota(1000, 0)), summary(waits))
    assert [text.split(":")[0] for text in found] == ["b", "c", "d"]


def test_quota_changes_begin_with_what_the_user_names() -> None:
    given = trace(nlp=Quota(None, None))
    (found,) = list_quota_changes(given, "fgd", summary({}), {"nlp": 3000})
    assert found.words == "nlp: 3.00 GPU guaranteed"
    # A tenant without a limit has a guarantee now, and borrows nothing beyond it.
    assert (found.quotas["nlp"].nominal_milli, found.quotas["nlp"].borrowing_milli) == (3000, 0)
