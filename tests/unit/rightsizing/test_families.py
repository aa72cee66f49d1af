"""Which names are one family."""

from __future__ import annotations

import pytest

from gpupool.rightsizing.families import NUMBERED, FamilyKey, find_pattern


@pytest.mark.parametrize(
    ("names", "pattern"),
    [
        (("train-1", "train-20", "train_3", "Train"), "train"),
        (("sweep-lr0.1-s3", "sweep-lr0.001-s17"), "sweep-lr-s"),
        (("resnet50[0]", "resnet50[1999]", "resnet101"), "resnet"),
        (("eval-3fa9c1e7", "eval-0123456", "eval-deadbee0"), "eval"),
        (("2026-11-29", "17", "[3]"), NUMBERED),
    ],
)
def test_names_that_differ_in_numbers_and_hashes_are_one_family(
    names: tuple[str, ...], pattern: str
) -> None:
    assert {find_pattern(name) for name in names} == {pattern}


def test_words_of_hexadecimal_letters_alone_stay() -> None:
    assert find_pattern("facade-1") == "facade"
    assert find_pattern("bad-cafe") == "bad-cafe"


def test_a_family_is_named_whole_or_by_its_pattern() -> None:
    key = FamilyKey("lab", "default", "ada", "train")

    assert key.matches("train")
    assert key.matches(key.name)
    assert not key.matches("default/ada/train")
