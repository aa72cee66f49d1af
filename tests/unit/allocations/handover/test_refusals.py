"""What keeps a unit with its owner."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.allocations.handover.refusals import HeirFacts, find_refusal
from gpupool.allocations.handover.units import JobAccount, OwnedUnit

UNIT = OwnedUnit("job", 1, "j-1", "train", 2, "nlp", "pending", jobs=1, waiting=1)
HEIR = HeirFacts(
    7, "bob", 2, frozenset({1002}), takes_accounts=False, is_pool_admin=False, spent=(), room=10
)


def test_a_job_of_the_same_tenant_without_an_account_goes_over() -> None:
    assert find_refusal(UNIT, HEIR, 9) is None


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (replace(UNIT, tenant_id=3, tenant="vision"), "tenant vision"),
        (replace(UNIT, is_attached=True), "attached to a terminal"),
        (replace(UNIT, is_incomplete=True), "still being written"),
        (replace(UNIT, account=JobAccount(1001, "ann")), "only an admin of the pool"),
        (replace(UNIT, waiting=2), "adds 2 entries to the queue, and bob may have 10 more"),
    ],
)
def test_a_unit_that_stays_says_why(unit: OwnedUnit, words: str) -> None:
    found = find_refusal(unit, HEIR, 9)
    assert found is not None
    assert words in found


def test_an_account_is_no_obstacle_for_itself_or_for_an_admin_of_the_pool() -> None:
    unit = replace(UNIT, account=JobAccount(1001, "ann"))
    assert find_refusal(unit, replace(HEIR, takes_accounts=True), 0) is None
    assert find_refusal(unit, replace(HEIR, uids=frozenset({1001})), 0) is None


def test_a_root_shell_is_for_admins_of_the_pool() -> None:
    unit = replace(UNIT, account=JobAccount(0, "root"))
    told = replace(HEIR, takes_accounts=True)
    found = find_refusal(unit, told, 0)
    assert found is not None
    assert "runs as root" in found
    assert find_refusal(unit, replace(told, is_pool_admin=True), 0) is None
