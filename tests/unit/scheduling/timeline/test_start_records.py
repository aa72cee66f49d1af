"""What was told of starts, and what came of it."""

from __future__ import annotations

from gpupool.base.units import NANOS_PER_SECOND as SECOND
from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.snapshot.claims import ClassKey
from gpupool.scheduling.snapshot.plan import PlannedStart
from gpupool.scheduling.timeline.start_records import (
    ENOUGH,
    ESTIMATE,
    FADES,
    PROMISE,
    ForecastOutcome,
    ForecastTally,
    StartForecast,
    StartForecasts,
    classify_start,
    compute_calibration_error_pct,
)

KEY = ClassKey("nlp", 0, Shape(WHOLE))


def start(claim: str, at: int, *, firm: bool = False) -> PlannedStart:
    return PlannedStart(at * SECOND, reserved=True, claim=claim, firm=firm)


def test_a_promise_is_kept_by_a_start_at_its_instant_and_broken_after_it() -> None:
    told = StartForecasts(leeway_ns=SECOND)
    for claim in ("early", "there", "a bit late", "late", "waits"):
        told.record_plan({KEY: start(claim, 10, firm=True)}, 0)
    for claim, at in (("early", 3), ("there", 10), ("a bit late", 11), ("late", 12)):
        told.record_start(claim, at * SECOND)
    assert told.count_outcomes(PROMISE) == (3, 1)
    assert not told.settle_passed(11 * SECOND, lambda _claim: True)
    assert [one.told.claim for one in told.settle_passed(12 * SECOND, lambda _claim: True)] == [
        "waits"
    ]
    assert told.count_outcomes(PROMISE) == (3, 2)
    assert told.record_start("waits", 13 * SECOND) == []


def test_the_first_word_counts_and_a_claim_that_ended_proves_nothing() -> None:
    told = StartForecasts()
    told.record_plan({KEY: start("a", 10, firm=True)}, 0)
    told.record_plan({KEY: start("a", 5, firm=True)}, 1)
    told.record_start("a", 7 * SECOND)
    told.record_plan({KEY: start("ended", 10, firm=True)}, 0)
    told.settle_passed(11 * SECOND, lambda _claim: False)
    assert told.count_outcomes(PROMISE) == (1, 0)


def test_what_has_passed_leaves_nothing_behind() -> None:
    told = StartForecasts()
    for number in range(100):
        told.record_plan({KEY: start(f"job-{number}", 10 + number, firm=number % 2 == 0)}, 0)
    assert len(told.list_claims()) == len(told.list_open()) == 100
    told.record_start("job-99", 0)
    assert len(told.list_claims()) == 99
    told.settle_passed(50 * SECOND, lambda claim: claim != "job-3")
    assert len(told.list_claims()) == 59
    told.settle_passed(200 * SECOND, lambda _claim: True)
    assert told.list_claims() == []


def test_a_claim_that_waits_again_is_judged_by_what_it_is_told_then() -> None:
    told = StartForecasts()
    told.record_plan({KEY: start("again", 10)}, 0)
    told.record_start("again", 5 * SECOND)
    told.record_plan({KEY: start("again", 50)}, 6 * SECOND)
    assert told.settle_passed(11 * SECOND, lambda _claim: True) == []
    told.record_start("again", 40 * SECOND)
    assert (told.count_outcomes(ESTIMATE), told.list_claims()) == ((2, 0), [])


def test_an_estimate_has_the_chance_that_its_sort_came_true_with_and_else_that_of_all() -> None:
    near, far = start("x", 60), start("x", 100_000)
    told = StartForecasts({classify_start(KEY, near, 0): ForecastTally(15, 4, 15, 4)})
    assert told.get_chance_pct(KEY, near, 0) is None
    told.record_plan({KEY: start("one", 60)}, 0)
    told.record_start("one", 0)
    assert ENOUGH == 20
    assert told.get_chance_pct(KEY, near, 0) == 80
    assert told.get_chance_pct(KEY, far, 0) == 80
    assert told.get_chance_pct(KEY, start("x", 60, firm=True), 0) is None
    assert (told.count_outcomes(ESTIMATE), told.count_outcomes(PROMISE)) == ((16, 4), (0, 0))


def test_what_was_told_long_ago_fades_and_is_counted_still() -> None:
    tally = ForecastTally()
    for number in range(FADES + 1):
        tally.add(kept=number < FADES)
    assert (tally.kept, tally.missed) == (FADES, 1)
    assert (tally.recent_kept, tally.recent_missed) == (FADES // 2, 1)


def test_chances_are_off_by_what_came_true_less_what_was_said_by_tenths() -> None:
    ended = [ForecastOutcome(StartForecast(0, "c", "s", 80), n < 8) for n in range(10)]
    assert compute_calibration_error_pct(ended) == 0
    assert (
        compute_calibration_error_pct(
            [
                *ended,
                *(ForecastOutcome(StartForecast(0, "c", "s", 30), kept=True) for _ in range(10)),
            ]
        )
        == 35
    )
    assert (
        compute_calibration_error_pct(
            [ForecastOutcome(StartForecast(0, "c", "s", None), kept=True)]
        )
        is None
    )
