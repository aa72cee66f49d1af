from math import log

import pytest

from gpupool.model.quota import Amount
from gpupool.scheduling.usage import MICRO, Usage, dominant_micro, faded, left_of_stretch


def test_after_one_half_life_half_is_left() -> None:
    assert (faded(100, 100), faded(200, 100), faded(0, 100)) == (0.5, 0.25, 1.0)


def test_without_a_half_life_only_what_is_held_now_counts() -> None:
    usage = Usage(half_life_s=0)
    usage.hold("nlp", MICRO, 0)
    assert usage.past("nlp", 1000) == 0


def test_an_endless_even_use_counts_as_one_half_life_over_the_logarithm_of_two() -> None:
    assert left_of_stretch(100 * 60, 0, 100) == pytest.approx(100 / log(2))


def test_what_was_held_in_pieces_counts_as_what_was_held_at_once() -> None:
    whole, pieces = Usage(1000), Usage(1000)
    for usage in (whole, pieces):
        usage.hold("nlp", 2 * MICRO, 0)
    for second in range(100, 900, 100):
        pieces.hold("nlp", 2 * MICRO, second)
    assert pieces.past("nlp", 900) == pytest.approx(whole.past("nlp", 900), abs=1)


def test_what_the_books_said_fades_from_the_instant_they_were_read() -> None:
    usage = Usage(100)
    usage.start({"nlp": 1000.0}, 50)
    assert (usage.past("nlp", 50), usage.past("nlp", 150), usage.past("other", 150)) == (1000, 500, 0)


def test_a_change_that_comes_late_turns_no_clock_back() -> None:
    usage = Usage(100)
    usage.hold("nlp", MICRO, 100)
    usage.hold("nlp", 0, 40)
    assert usage.past("nlp", 40) == 0
    assert usage.past("nlp", 200) == 0


def test_the_larger_part_of_the_pool_counts() -> None:
    assert dominant_micro(Amount(2000, 0), 8, 800) == 2 * MICRO
    assert dominant_micro(Amount(2000, 400), 8, 800) == 4 * MICRO
    assert dominant_micro(Amount(0, 5), 0, 0) == 0
