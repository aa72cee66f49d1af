"""A case ends on the simulator's replay as on plans that are applied one by one."""

import pytest

from tests.conformance import quota_cases
from tests.conformance.case import SUITES, cases
from tests.conformance.filed import SUITES as QUOTA_SUITES
from tests.conformance.filed import Filed, filed
from tests.conformance.on_replay import first_plan, replayed
from tests.conformance.play import play

PLANNED = [
    one
    for suite in QUOTA_SUITES
    for one in filed(suite)
    if not one.outside and "room" not in one.case["expected"]
]


@pytest.mark.parametrize("suite", SUITES)
def test_every_case_of_a_pool_ends_alike(suite: str) -> None:
    different = list[str]()
    for case in cases(suite):
        if case.outside:
            continue
        ending, other = play(case), replayed(case)
        if (ending.settled, ending.nodes, set(ending.evicted)) != (
            other.settled,
            other.nodes,
            set(other.evicted),
        ):
            different.append(f"{case.id}: {ending}, on the replay {other}")
    assert different == []


@pytest.mark.parametrize("one", PLANNED, ids=lambda one: one.id)
def test_every_case_of_quotas_is_planned_alike(one: Filed) -> None:
    found, rests = first_plan(one.case)
    assert rests
    assert found == quota_cases.plan(one.case)
