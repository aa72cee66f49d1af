import pytest

from gpupool.base.units import GIB, MIB
from gpupool.scheduling.reasons import phrases


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
    assert phrases.format_gib(size) == text


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
    assert phrases.format_two_sizes(asked, given) == texts


def test_counts_have_the_right_plural() -> None:
    assert (
        phrases.format_count(1, "card"),
        phrases.format_count(0, "card"),
        phrases.format_count(2, "card"),
    ) == (
        "1 card",
        "0 cards",
        "2 cards",
    )


def test_lists_read_like_sentences() -> None:
    assert [phrases.format_list(words) for words in ([], ["A"], ["A", "B"], ["A", "B", "C"])] == [
        "none",
        "A",
        "A and B",
        "A, B and C",
    ]
