from math import log

import pytest

from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.quota.usage_decay import (
    MICRO_PER_CARD,
    DecayedUsage,
    compute_decay,
    compute_dominant_micro,
    integrate_decay,
)


def test_after_one_half_life_half_is_left() -> None:
    assert (compute_decay(100, 100), compute_decay(200, 100), compute_decay(0, 100)) == (
        0.5,
        0.25,
        1.0,
    )


def test_without_a_half_life_only_what_is_held_now_counts() -> None:
    usage = DecayedUsage(half_life_s=0)
    usage.set_rate("nlp", MICRO_PER_CARD, 0)
    assert usage.get_past_use("nlp", 1000) == 0


def test_an_endless_even_use_counts_as_one_half_life_over_the_logarithm_of_two() -> None:
    assert integrate_decay(100 * 60, 0, 100) == pytest.approx(100 / log(2))


def test_what_was_held_in_pieces_counts_as_what_was_held_at_once() -> None:
    whole, pieces = DecayedUsage(1000), DecayedUsage(1000)
    for usage in (whole, pieces):
        usage.set_rate("nlp", 2 * MICRO_PER_CARD, 0)
    for second in range(100, 900, 100):
        pieces.set_rate("nlp", 2 * MICRO_PER_CARD, second)
    assert pieces.get_past_use("nlp", 900) == pytest.approx(whole.get_past_use("nlp", 900), abs=1)


def test_what_the_books_said_fades_from_the_instant_they_were_read() -> None:
    usage = DecayedUsage(100)
    usage.start({"nlp": 1000.0}, 50)
    assert (
        usage.get_past_use("nlp", 50),
        usage.get_past_use("nlp", 150),
        usage.get_past_use("other", 150),
    ) == (
        1000,
        500,
        0,
    )


def test_a_change_that_comes_late_turns_no_clock_back() -> None:
    usage = DecayedUsage(100)
    usage.set_rate("nlp", MICRO_PER_CARD, 100)
    usage.set_rate("nlp", 0, 40)
    assert usage.get_past_use("nlp", 40) == 0
    assert usage.get_past_use("nlp", 200) == 0


def test_the_larger_part_of_the_pool_counts() -> None:
    assert compute_dominant_micro(ResourceAmount(2000, 0), 8, 800) == 2 * MICRO_PER_CARD
    assert compute_dominant_micro(ResourceAmount(2000, 400), 8, 800) == 4 * MICRO_PER_CARD
    assert compute_dominant_micro(ResourceAmount(0, 5), 0, 0) == 0


def test_the_least_used_tenants_are_dropped_unless_they_hold_cards() -> None:
    usage = DecayedUsage(100)
    usage.start({"little": 10.0, "much": 1000.0}, 0)
    usage.set_rate("holds", MICRO_PER_CARD, 0)
    usage.drop_least(2, 0)
    assert set(usage.list_tenants()) == {"little", "much", "holds"}
    usage.drop_least(1, 0)
    assert set(usage.list_tenants()) == {"much", "holds"}
