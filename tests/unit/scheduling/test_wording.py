"""Plurals, sizes and lists in sentences."""

import pytest

from gpupool.base.units import GIB, MIB
from gpupool.model.claim import Reason
from gpupool.scheduling import wording
from gpupool.scheduling.feasible import ORDER


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (140 * GIB, "140 GiB"),
        (143771 * MIB, "140.4 GiB"),
        (8 * GIB + MIB, "8.0 GiB"),
        (512 * MIB, "0.5 GiB"),
    ],
)
def test_gib_are_whole_or_have_one_decimal_rounded_down(size: int, text: str) -> None:
    assert wording.format_gib(size) == text


@pytest.mark.parametrize(
    ("asked", "given", "texts"),
    [
        (200 * GIB, 140 * GIB, ("200 GiB", "140 GiB")),
        (143772 * MIB, 143771 * MIB, ("143772 MiB", "143771 MiB")),
        (8 * GIB + MIB, 8 * GIB, ("8193 MiB", "8192 MiB")),
        (600 * MIB, 500 * MIB, ("600 MiB", "500 MiB")),
    ],
)
def test_two_sizes_never_read_alike(asked: int, given: int, texts: tuple[str, str]) -> None:
    assert wording.two_sizes(asked, given) == texts


def test_counts_have_the_right_plural() -> None:
    assert (wording.plural(1, "card"), wording.plural(0, "card"), wording.plural(2, "card")) == (
        "1 card",
        "0 cards",
        "2 cards",
    )


def test_lists_read_like_sentences() -> None:
    assert [wording.listed(words) for words in ([], ["A"], ["A", "B"], ["A", "B", "C"])] == [
        "none",
        "A",
        "A and B",
        "A, B and C",
    ]


def test_every_reason_that_a_card_can_have_has_words() -> None:
    for reason in ORDER:
        singular, plural = wording.also_out(reason, 1), wording.also_out(reason, 2)
        assert singular.startswith("1 card ")
        assert plural.startswith("2 cards ")
        assert singular.removeprefix("1 card ") != plural.removeprefix("2 cards ")


def test_one_card_all_cards_and_some_cards_read_differently() -> None:
    most = {Reason.COMPUTE: "0.40", Reason.CARD_TOO_SMALL: "15360 MiB"}
    assert wording.cards_out([(Reason.COMPUTE, 1)], 1, most) == "the only card lacks compute (free: 0.40)"
    assert wording.cards_out([(Reason.COMPUTE, 3)], 3, most) == "all 3 cards lack compute (most free: 0.40)"
    assert wording.cards_out([(Reason.COMPUTE, 2), (Reason.CARD_TOO_SMALL, 1)], 3, most) == (
        "of 3 cards 2 lack compute (most free: 0.40), 1 is too small (largest: 15360 MiB)"
    )


def test_a_name_from_outside_is_quoted_with_its_control_characters_visible() -> None:
    assert wording.no_model("H2\n00", None, ["T4"]) == 'no card of model "H2\\n00" in this pool; it has T4'
