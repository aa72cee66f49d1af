"""Promised starts: which starts are promises, and what may come without breaking one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.units import GIB
from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.model.claim import Shape
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.engine.promises import HORIZON_NS
from gpupool.scheduling.explain.explain import explain_claim
from gpupool.scheduling.snapshot.claims import ClassKey, RunningJob, WaitingClass
from gpupool.scheduling.snapshot.plan import LEEWAY_NS, Plan, PlannedStart
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.scheduling.workspace.planning_state import PlanningState
from tests.support.quota_builders import cohort, member
from tests.support.scheduling_builders import cards, snapshot, tenant, waiting, whole
from tests.support.time_builders import reserved, running, used_by

FULL = cards("1x2xT4", used=used_by("node-1/0", "node-1/1"))
HEAD = replace(waiting("head", want=whole(2), tenant="nlp"), seconds=60)
LATER = replace(waiting("later", want=whole(2), tenant="vision", at=1), seconds=60)
TENANTS = {"nlp": tenant(), "vision": tenant()}


def jobs(ends: int | None = 100, **how: bool) -> tuple[RunningJob, ...]:
    pair = (
        running(name, FULL, f"node-1/{place}", ends=ends) for place, name in enumerate(("a", "b"))
    )
    return tuple(replace(one, **how) for one in pair)


def plan(before: Snapshot, now: int = 0, **more: object) -> Plan:
    return cycle(replace(before, **more), now * SECOND)


def pool(*claims: WaitingClass, **more: object) -> Snapshot:
    return replace(snapshot(FULL, *claims), **({"running": jobs(), "tenants": TENANTS} | more))


def start_of(found: Plan, claim: WaitingClass = HEAD) -> PlannedStart:
    return found.starts[claim.key]


def test_a_start_behind_limits_is_promised_with_what_ends_take_and_told_so() -> None:
    before = pool(HEAD)
    start = start_of(plan(before))
    assert (start.firm, start.claim, start.at_ns) == (True, "head", 100 * SECOND)
    assert start.latest_ns == start.at_ns + LEEWAY_NS
    assert (
        explain_claim(before, HEAD, 0).helps[-1]
        == "wait: it starts at 1970-01-01T00:02:40Z at the latest"
    )


@pytest.mark.parametrize(
    "unsure",
    [
        {"running": jobs(guessed=True)},
        {"running": jobs(HORIZON_NS // SECOND + 1)},
        {"waiting": (replace(HEAD, preemptible=True),)},
        {"reservations": (reserved("lecture", want=whole(), start=9000, end=9600),)},
    ],
    ids=[
        "ends by the past",
        "far off",
        "may be preempted",
        "a reservation chooses among its cards",
    ],
)
def test_a_start_that_something_may_put_off_is_an_estimate(unsure: dict[str, object]) -> None:
    before = replace(pool(HEAD), **unsure)
    start = start_of(plan(before), before.waiting[0])
    assert (start.reserved, start.firm) == (True, False)
    assert explain_claim(before, before.waiting[0], 0).helps[-1].startswith("wait until about ")


def test_a_job_past_its_limit_promises_nothing() -> None:
    assert not start_of(plan(pool(HEAD), now=101)).firm


@pytest.mark.parametrize("priority", [0, 100])
def test_a_later_claim_of_any_tenant_and_priority_does_not_take_what_is_promised(
    priority: int,
) -> None:
    promised = plan(pool(HEAD)).starts
    used = {"nlp": replace(TENANTS["nlp"], past=10**15), "vision": TENANTS["vision"]}
    later = replace(LATER, priority=priority)
    before = pool(later, HEAD, tenants=used, previous_starts=promised)
    again = plan(before, now=50)
    assert start_of(again) == promised[HEAD.key]
    free = replace(before, cards=cards("1x2xT4"), running=(), previous_starts=again.starts)
    assert [one.job for one in plan(free, now=100).placements] == ["head"]


def test_a_later_claim_of_higher_priority_has_the_next_start_and_nobody_of_lower_rank_delays_it() -> (
    None
):
    promised = plan(pool(HEAD)).starts
    found = plan(pool(replace(LATER, priority=100), HEAD, previous_starts=promised), now=50)
    assert start_of(found, replace(LATER, priority=100)).at_ns == 160 * SECOND


def test_a_job_whose_run_time_is_guessed_does_not_pass_a_promise() -> None:
    half = cards("1x2xT4", used=used_by("node-1/0"))
    first = (running("a", half, "node-1/0", ends=100),)
    short = replace(waiting("short", want=whole(), tenant="vision", at=1), seconds=30)
    before = replace(snapshot(half, HEAD, short), running=first, tenants=TENANTS)
    assert [one.job for one in plan(before).placements] == ["short"]
    guessed = replace(short, guessed=True)
    assert not plan(replace(before, waiting=(HEAD, guessed))).placements
    assert not plan(
        replace(before, waiting=(HEAD, guessed), previous_starts=plan(before).starts), now=10
    ).placements


def test_a_promise_stands_for_its_claim_where_another_of_its_class_waits_again() -> None:
    promised = plan(pool(HEAD)).starts
    both = replace(HEAD, job_ids=("evicted", "head"), count=2, submitted_ns=(0, 0))
    again = plan(pool(both, previous_starts=promised), now=50)
    assert start_of(again).claim == "head"
    free = pool(both, cards=cards("1x2xT4"), running=(), previous_starts=again.starts)
    assert [one.job for one in plan(free, now=100).placements] == ["head"]


def test_a_promise_stands_where_its_class_is_called_otherwise_and_cards_have_other_numbers() -> (
    None
):
    promised = plan(pool(HEAD)).starts
    more = cards("1x4xL40S+1x2xT4", used={f"node-2/{n}": (1000, 15 * GIB) for n in range(2)})
    renamed = replace(more, uuids=(*(f"new/{n}" for n in range(4)), *FULL.uuids))
    only_t4 = replace(HEAD, seconds=90, shape=Shape(1000, count=2, model="T4"))
    held = tuple(replace(one, rows=(one.rows[0] + 4,)) for one in jobs())
    before = replace(
        snapshot(renamed, only_t4, LATER), running=held, tenants=TENANTS, previous_starts=promised
    )
    start = start_of(plan(before, now=50), only_t4)
    assert (start.firm, start.rows, start.at_ns) == (True, (4, 5), 100 * SECOND)


def test_a_promise_of_a_card_that_is_gone_is_no_promise() -> None:
    promised = plan(pool(HEAD)).starts
    gone = cards("1x2xT4", used=used_by("node-1/0", "node-1/1"))
    renamed = replace(gone, uuids=("node-1/0", "another"))
    before = replace(
        snapshot(renamed, HEAD), running=jobs(None), tenants=TENANTS, previous_starts=promised
    )
    assert HEAD.key not in plan(before, now=50).starts


def test_what_is_promised_of_a_quota_is_kept_from_claims_of_any_priority() -> None:
    columns = cards("1x4xT4", used=used_by("node-1/0"))
    held = (running("a", columns, "node-1/0", tenant="nlp", ends=100),)
    views = {"nlp": member("lab", holds=1), "vision": member("lab")}
    before = replace(
        snapshot(columns, HEAD), running=held, tenants=views, cohorts={"lab": cohort((2, 0))}
    )
    first = plan(before)
    assert (start_of(first).firm, start_of(first).at_ns) == (True, 100 * SECOND)
    urgent = replace(
        waiting("urgent", want=whole(), tenant="vision", priority=100, at=1), seconds=500
    )
    found = plan(before, now=10, waiting=(urgent, HEAD), previous_starts=first.starts)
    assert not found.placements
    assert start_of(found).at_ns == 100 * SECOND


def test_a_limit_of_placements_forgets_no_promise() -> None:
    before = pool(HEAD)
    promised = plan(before).starts
    found = cycle(replace(before, previous_starts=promised), 10 * SECOND, limit=0)
    assert found.starts == promised


def test_promises_are_the_same_on_a_board_that_lives_on() -> None:
    before = pool(LATER, HEAD)
    board = PlanningState(before)
    promised: dict[ClassKey, PlannedStart] = {}
    for now in (0, 10, 20):
        asked = replace(before, previous_starts=promised)
        living = cycle(asked, now * SECOND, board=board)
        assert living == cycle(asked, now * SECOND)
        promised = dict(living.starts)
