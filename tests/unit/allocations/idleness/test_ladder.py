"""Which step is due: never while active, in order, once, and never sooner than the ladder says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpupool.allocations.idleness.ladder import (
    IdleAct,
    IdleLadder,
    IdleProgress,
    IdleStep,
    combine_ladders,
    decide,
    find_due,
)
from gpupool.base.units import NANOS_PER_SECOND as S

USUAL = IdleLadder(
    300,
    (
        IdleStep(IdleAct.WARN, 3000),
        IdleStep(IdleAct.SHRINK, 3600, 50),
        IdleStep(IdleAct.STOP, 7200),
    ),
)


@st.composite
def ladders(draw: st.DrawFn) -> IdleLadder:
    acts = [IdleAct.WARN, *sorted(draw(st.sets(st.sampled_from(list(IdleAct)[1:]))), key=rank)]
    times = sorted(draw(st.sets(st.integers(1, 500), min_size=len(acts), max_size=len(acts))))
    steps = tuple(
        IdleStep(act, after, 50 if act is IdleAct.SHRINK else None)
        for act, after in zip(acts, times, strict=True)
    )
    return IdleLadder(draw(st.integers(1, times[0])), steps)


def rank(act: IdleAct) -> int:
    return act.rank


def test_what_is_unknown_takes_no_step() -> None:
    assert decide(USUAL, None, None, None, 10**6 * S) is None


def test_a_keep_ends_with_the_first_step() -> None:
    keep_until = 9000 * S
    assert decide(USUAL, 0, keep_until, None, keep_until - 1) is None
    assert decide(USUAL, 0, keep_until, None, keep_until) == USUAL.steps[0]
    warned = IdleProgress(0, IdleAct.WARN, keep_until)
    due = find_due(USUAL, 0, keep_until, warned)
    assert due is not None
    assert due.at_ns == keep_until + 600 * S


def test_steps_of_an_earlier_idle_time_do_not_count() -> None:
    stopped_short = IdleProgress(0, IdleAct.SHRINK, 3600 * S)
    assert decide(USUAL, 4000 * S, None, stopped_short, 7000 * S) == USUAL.steps[0]


@given(ladders(), st.lists(st.tuples(st.integers(1, 300), st.booleans()), max_size=60))
def test_steps_come_in_order_once_and_never_while_active(
    ladder: IdleLadder, looks: list[tuple[int, bool]]
) -> None:
    now = 0
    last = 0
    progress: IdleProgress | None = None
    taken: list[tuple[IdleStep, int]] = []
    for seconds, is_active in looks:
        now += seconds
        if is_active:
            last = now * S
        step = decide(ladder, last, None, progress, now * S)
        if progress is not None and progress.has_ended(last):
            taken.clear()
        if step is None:
            continue
        assert now * S - last >= ladder.window_seconds * S
        assert now * S - last >= step.after_seconds * S
        assert [one for one, _ in taken] == list(ladder.steps[: len(taken)])
        assert step == ladder.steps[len(taken)]
        if taken:
            before, at = taken[-1]
            assert now - at >= step.after_seconds - before.after_seconds
        taken.append((step, now))
        progress = IdleProgress(last, step.act, now * S)


@given(st.lists(ladders(), min_size=1, max_size=4))
def test_combined_ladders_are_in_order_and_no_looser_than_any(every: list[IdleLadder]) -> None:
    combined = combine_ladders(every)
    assert combined.steps[0].act is IdleAct.WARN
    pairs = zip(combined.steps, combined.steps[1:], strict=False)
    assert all(
        one.act.rank < other.act.rank and one.after_seconds < other.after_seconds
        for one, other in pairs
    )
    for ladder in every:
        for step in ladder.steps:
            # At that time a job is at least as far as this ladder would have brought it.
            assert any(
                one.act.rank >= step.act.rank and one.after_seconds <= step.after_seconds
                for one in combined.steps
            )
