"""What was told of starts, and what came of it."""

from __future__ import annotations

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.scheduling.ends import SECOND
from gpupool.scheduling.foretold import ENOUGH, ESTIMATE, FADES, PROMISE, Ended, Foretold, Tally, Told, off_pct, sort_of
from gpupool.scheduling.snapshot import ClassKey, Start

KEY = ClassKey("nlp", 0, Shape(WHOLE))


def start(claim: str, at: int, *, firm: bool = False) -> Start:
    return Start(at * SECOND, reserved=True, claim=claim, firm=firm)


def test_a_promise_is_kept_by_a_start_at_its_instant_and_broken_after_it() -> None:
    told = Foretold(leeway_ns=SECOND)
    for claim in ("early", "there", "a bit late", "late", "waits"):
        told.plan({KEY: start(claim, 10, firm=True)}, 0)
    for claim, at in (("early", 3), ("there", 10), ("a bit late", 11), ("late", 12)):
        told.started(claim, at * SECOND)
    assert told.total(PROMISE) == (3, 1)
    assert not told.passed(11 * SECOND, lambda _claim: True)
    assert [one.told.claim for one in told.passed(12 * SECOND, lambda _claim: True)] == ["waits"]
    assert told.total(PROMISE) == (3, 2)
    assert told.started("waits", 13 * SECOND) == []


def test_the_first_word_counts_and_a_claim_that_ended_proves_nothing() -> None:
    told = Foretold()
    told.plan({KEY: start("a", 10, firm=True)}, 0)
    told.plan({KEY: start("a", 5, firm=True)}, 1)
    told.started("a", 7 * SECOND)
    told.plan({KEY: start("ended", 10, firm=True)}, 0)
    told.passed(11 * SECOND, lambda _claim: False)
    assert told.total(PROMISE) == (1, 0)


def test_what_has_passed_leaves_nothing_behind() -> None:
    told = Foretold()
    for number in range(100):
        told.plan({KEY: start(f"job-{number}", 10 + number, firm=number % 2 == 0)}, 0)
    assert len(told.claims()) == len(told.open_words()) == 100
    told.started("job-99", 0)
    assert len(told.claims()) == 99
    told.passed(50 * SECOND, lambda claim: claim != "job-3")
    assert len(told.claims()) == 59
    told.passed(200 * SECOND, lambda _claim: True)
    assert told.claims() == []


def test_a_claim_that_waits_again_is_judged_by_what_it_is_told_then() -> None:
    told = Foretold()
    told.plan({KEY: start("again", 10)}, 0)
    told.started("again", 5 * SECOND)
    told.plan({KEY: start("again", 50)}, 6 * SECOND)
    assert told.passed(11 * SECOND, lambda _claim: True) == []
    told.started("again", 40 * SECOND)
    assert (told.total(ESTIMATE), told.claims()) == ((2, 0), [])


def test_an_estimate_has_the_chance_that_its_sort_came_true_with_and_else_that_of_all() -> None:
    near, far = start("x", 60), start("x", 100_000)
    told = Foretold({sort_of(KEY, near, 0): Tally(15, 4, 15, 4)})
    assert told.chance_pct(KEY, near, 0) is None
    told.plan({KEY: start("one", 60)}, 0)
    told.started("one", 0)
    assert ENOUGH == 20
    assert told.chance_pct(KEY, near, 0) == 80
    assert told.chance_pct(KEY, far, 0) == 80
    assert told.chance_pct(KEY, start("x", 60, firm=True), 0) is None
    assert (told.total(ESTIMATE), told.total(PROMISE)) == ((16, 4), (0, 0))


def test_what_was_told_long_ago_fades_and_is_counted_still() -> None:
    tally = Tally()
    for number in range(FADES + 1):
        tally.add(kept=number < FADES)
    assert (tally.kept, tally.missed) == (FADES, 1)
    assert (tally.recent_kept, tally.recent_missed) == (FADES // 2, 1)


def test_chances_are_off_by_what_came_true_less_what_was_said_by_tenths() -> None:
    ended = [Ended(Told(0, "c", "s", 80), n < 8) for n in range(10)]
    assert off_pct(ended) == 0
    assert off_pct([*ended, *(Ended(Told(0, "c", "s", 30), kept=True) for _ in range(10))]) == 35
    assert off_pct([Ended(Told(0, "c", "s", None), kept=True)]) is None
