"""What lets a claim start that only capacity held for others keeps waiting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.units import GIB
from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.explain.explain import Explanation, explain_claim
from gpupool.scheduling.explain.held_capacity import MARGIN_SECONDS, round_limit
from gpupool.scheduling.reasons.help_messages import WAIT
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob, WaitingClass
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.gang_builders import gang, occupied, role
from tests.support.promise_builders import HEAD, pool, small
from tests.support.scheduling_builders import cards, shape, snapshot, waiting, whole
from tests.support.time_builders import reserved, running

HOUR = 3600
UNKNOWN = "1 job on those cards has no --max-time, so that start is not known"


def ask(
    columns: CardTable, jobs: list[RunningJob], *queue: WaitingClass, **more: object
) -> tuple[Snapshot, Explanation]:
    """The last claim of the queue asks."""
    before = replace(snapshot(columns, *queue), running=tuple(jobs), **more)
    return before, explain_claim(before, queue[-1], 0)


@pytest.mark.parametrize(
    ("left", "limit"),
    [(HOUR, "59m"), (2 * HOUR - 1, "1h45m"), (4 * HOUR + MARGIN_SECONDS, "4h"), (95, "1m")],
)
def test_a_claim_that_meets_a_promised_start_gets_the_longest_limit(left: int, limit: str) -> None:
    columns, jobs = pool(left)
    before, answer = ask(columns, jobs, HEAD, small("late", None))
    assert answer.sentence.endswith(" on, and this claim has no known end")
    assert answer.helps[0] == f"with --max-time {limit} it starts now"
    # The limit is no guess: the scheduler places such a claim, and none that meets the start.
    for seconds, starts in ((round_limit(left), True), (left + 1, False)):
        queue = (HEAD, small("late", seconds))
        assert bool(cycle(replace(before, waiting=queue), 0).placements) is starts


def test_less_than_a_minute_gives_no_limit() -> None:
    columns, jobs = pool(60 + MARGIN_SECONDS - 1)
    _, answer = ask(columns, jobs, HEAD, small("late", None))
    assert answer.helps[0] == "a --max-time that ends before then lets it start now"


def test_the_limit_goes_past_a_hold_that_leaves_room() -> None:
    first = reserved("first", HOUR, 20 * HOUR, want=whole(1), tenant="vision")
    second = reserved("second", 3 * HOUR, 20 * HOUR, want=whole(1), tenant="vision")
    _, answer = ask(cards("1x2xT4"), [], small("late", None), reservations=(first, second))
    assert answer.helps[0] == "with --max-time 2h45m it starts now"


def test_a_share_behind_a_gang_of_unknown_start_is_told_why_and_of_what_it_may_stop() -> None:
    columns = cards("2x8xH200")
    mine = running("hello", columns, "node-1/0", milli=300, size=8 * GIB)
    head = gang("g", role("member", whole(8), 2))
    late = waiting("late", want=shape(300, 8 * GIB), at=5)
    before, answer = ask(occupied(columns, mine), [mine], head, late)
    assert answer.sentence == (
        "what is free is kept for a claim of higher rank, whose start is not known"
    )
    # Not that the own job could stop: the gang would take its card.
    assert answer.helps == (UNKNOWN, WAIT)
    assert answer.kept_for == head.job_ids
    without = cycle(replace(before, waiting=(late,)), 0)
    assert [one.job for one in without.placements] == ["late"]
    assert cycle(replace(before, waiting=(head, replace(late, seconds=60))), 0).placements == ()


def test_a_claim_of_another_tenant_that_cards_are_kept_for_is_not_named() -> None:
    columns = cards("2x8xH200")
    theirs = running("hello", columns, "node-1/0", milli=300, size=8 * GIB, tenant="vision")
    head = replace(gang("g", role("member", whole(8), 2)), tenant="vision")
    late = waiting("late", want=shape(300, 8 * GIB), at=5)
    _, answer = ask(occupied(columns, theirs), [theirs], head, late)
    assert answer.kept_for == ()
    assert answer.helps == (UNKNOWN, WAIT)


def test_the_answer_leaves_the_estimate_as_it_was() -> None:
    columns, jobs = pool(7200)
    head = replace(HEAD, seconds=600)
    _, answer = ask(columns, jobs, head, small("late", 7201))
    assert answer.start is not None
    assert answer.start.at_ns == 7800 * SECOND
