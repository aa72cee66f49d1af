"""Identifiers that cannot be names, and names that can be typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.base.errors import BadName
from gpupool.base.ids import check_name, is_id, new_id


def test_ids_have_one_shape_and_cannot_be_names() -> None:
    made = new_id("j", lambda size: b"\xff" * size)
    assert made == "j-zzzzzzzzzz"
    assert is_id(made)
    assert not is_id("train-1")
    with pytest.raises(BadName):
        check_name(made)


@pytest.mark.parametrize(
    "name", ["", "a\nb", "-x", "x-", "a b", "x" * 64, "naïve", "a/b", "\udcff"]
)
def test_names_that_cannot_be_typed_or_shown_are_refused(name: str) -> None:
    with pytest.raises(BadName):
        check_name(name)


@given(st.text(max_size=80))
def test_a_name_that_passes_is_one_line_of_plain_characters(name: str) -> None:
    try:
        assert check_name(name).isascii()
    except BadName as error:
        assert error.hint


def test_new_id_uses_fifty_of_the_random_bits() -> None:
    assert new_id("c", lambda size: bytes(size)) == "c-0000000000"
    # The last 6 of 56 bits are not used: ten letters take 5 bits each.
    assert new_id("c", lambda size: b"\0" * (size - 1) + b"\x3f") == "c-0000000000"
    assert new_id("c", lambda size: b"\0" * (size - 1) + b"\x40") == "c-0000000001"


@pytest.mark.parametrize(
    "text", ["j-0123456789", "J-0123456789", "j-012345678", "j_0123456789", "j-012345678i"]
)
def test_is_id_takes_one_letter_a_dash_and_ten_letters(text: str) -> None:
    assert is_id(text) is (text == "j-0123456789")


def test_check_name_of_a_long_text_quotes_its_beginning() -> None:
    with pytest.raises(BadName) as caught:
        check_name("x" * 5000, "tenant")
    assert caught.value.message == f"tenant '{'x' * 77}...' cannot be used"
    assert check_name("x" * 63) == "x" * 63
