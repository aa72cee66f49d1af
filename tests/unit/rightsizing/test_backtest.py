"""Every run is judged by the runs before it alone."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.base.units import GIB
from gpupool.rightsizing.backtest import ADVISED, AS_REQUESTED, HIGHEST, run_backtest
from gpupool.rightsizing.runs import MeasuredRun, RequestedShare
from tests.unit.rightsizing.test_advice import HOUR_S, build_run

SHARE = RequestedShare(1000, 16 * GIB, cards=2)


def build_runs(uses: list[int]) -> list[MeasuredRun]:
    return [build_run(number, milli, share=SHARE) for number, milli in enumerate(uses)]


def test_a_steady_family_saves_what_it_never_used() -> None:
    found = run_backtest([build_runs([300] * 9)])

    advised = found.methods[ADVISED]
    assert (found.families, found.unjudged, advised.runs) == (1, 5, 4)
    assert advised.starved_seconds == 0
    assert advised.requested_hours == 8.0
    assert abs(advised.given_hours - 0.35 * 8) < 1e-9
    assert found.methods[AS_REQUESTED].saved_part == 0
    assert abs((found.methods[HIGHEST].saved_part or 0) - 0.7) < 1e-9


def test_a_run_that_grew_is_starved_under_what_was_known_before_it() -> None:
    found = run_backtest([build_runs([300] * 5 + [900])])

    advised = found.methods[ADVISED]
    assert advised.starved_seconds == HOUR_S
    assert advised.starved_part == 1.0
    assert advised.starved_runs == 1
    assert found.methods[AS_REQUESTED].starved_seconds == 0


def test_runs_at_the_same_time_do_not_advise_each_other() -> None:
    together = [build_run(0, 300, share=SHARE, end_s=HOUR_S + number) for number in range(9)]

    found = run_backtest([together])

    assert (found.unjudged, found.methods[ADVISED].runs) == (9, 0)


def test_memory_beyond_the_advice_is_counted_by_run() -> None:
    runs = build_runs([300] * 5)
    runs.append(build_run(5, 300, share=SHARE, peak=8 * GIB))
    runs.append(build_run(6, 300, share=SHARE, peak=None))

    advised = run_backtest([runs]).methods[ADVISED]

    assert (advised.short_of_memory, advised.memory_runs, advised.runs) == (1, 1, 2)


def test_nothing_judged_is_unknown_and_not_zero() -> None:
    found = run_backtest([build_runs([300] * 3)])

    assert found.unjudged == 3
    assert found.methods[ADVISED].starved_part is None
    assert found.methods[ADVISED].saved_part is None


@settings(max_examples=40)
@given(st.lists(st.integers(0, 1000), min_size=1, max_size=25))
def test_a_whole_card_starves_nobody_and_later_runs_change_no_earlier_result(
    uses: list[int],
) -> None:
    short = run_backtest([build_runs(uses)]).methods
    longer = run_backtest([build_runs([*uses, 1000, 0])]).methods

    assert short[AS_REQUESTED].starved_seconds == 0
    assert longer[ADVISED].starved_seconds >= short[ADVISED].starved_seconds
    assert longer[ADVISED].given_hours >= short[ADVISED].given_hours
