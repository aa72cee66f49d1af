"""The known word that was probably meant."""

from __future__ import annotations

import pytest

from gpupool.terminal.nearest import find_nearest

KNOWN = ("restart", "reservation", "resize", "status", "run")


@pytest.mark.parametrize(
    ("typed", "nearest"),
    [
        ("reser", "reservation"),
        ("stauts", "status"),
        ("st", "status"),
        ("res", "resize"),
        ("xyzzy", None),
        ("u", None),
    ],
)
def test_the_nearest_word_is_a_beginning_else_the_likest(typed: str, nearest: str | None) -> None:
    assert find_nearest(typed, KNOWN) == nearest


def test_one_letter_is_no_beginning() -> None:
    assert find_nearest("s", KNOWN) is None
    assert find_nearest("ru", KNOWN) == "run"


def test_the_order_of_the_known_words_changes_nothing() -> None:
    assert find_nearest("res", reversed(KNOWN)) == find_nearest("res", KNOWN)
