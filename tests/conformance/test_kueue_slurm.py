"""What Kueue's tables and Slurm's documents say of quotas, shares and victims, on gpupool's plan.

A case ends as it says, or as `argued.json` says that it ends here; a difference that is no more
fails too.
"""

from __future__ import annotations

import pytest

from tests.conformance.filed import SUITES, Filed, filed, table
from tests.conformance.quota_cases import MOST_PLANS, plans_until_quiet

EVERY = [one for suite in SUITES for one in filed(suite)]
STATED = [one for one in EVERY if not one.outside]
PLANNED = [one for one in STATED if "room" not in one.case["expected"]]


@pytest.mark.parametrize("one", STATED, ids=lambda one: one.id)
def test_the_case_ends_as_it_says_or_as_is_argued(one: Filed) -> None:
    found = one.ended()
    argued = one.argued
    if argued is None:
        assert found == one.case["expected"]
        return
    assert found != one.case["expected"], "it is equal now: take it from argued.json"
    assert found == {word: argued[word] for word in found}


@pytest.mark.parametrize("one", PLANNED, ids=lambda one: one.id)
def test_the_case_comes_to_rest(one: Filed) -> None:
    assert plans_until_quiet(one.case) < MOST_PLANS


@pytest.mark.parametrize("suite", SUITES)
def test_every_difference_has_a_case_and_a_reason(suite: str) -> None:
    known = {(one.file, one.case["name"]) for one in STATED if one.suite == suite}
    argued = table(suite)
    listed = {(file, name) for file, each in argued["differences"].items() for name in each}
    assert listed <= known
    used = {one["reason"] for each in argued["differences"].values() for one in each.values()}
    assert used == set(argued["reasons"])


def test_no_case_stands_twice() -> None:
    ids = [one.id for one in EVERY]
    assert len(ids) == len(set(ids))
