"""Slurm's times, sizes and indices."""

from __future__ import annotations

import pytest

from gpupool.base.errors import ForeignValue
from gpupool.dialects.batch.slurm_values import count_indices, parse_seconds, parse_size
from gpupool.dialects.pod import PlacedWord


def word(value: object) -> PlacedWord:
    return PlacedWord("--x", value, (7,))


@pytest.mark.parametrize(
    ("text", "size"),
    [("64", 64 << 20), ("64K", 64 << 10), ("64mb", 64 << 20), (" 2G ", 2 << 30), ("1T", 1 << 40)],
)
def test_parse_size_counts_mib_and_powers_of_1024(text: str, size: int) -> None:
    assert parse_size(word(text)) == size


@pytest.mark.parametrize("text", ["", "1.5G", "-1", "G", "1P", "1" * 13])
def test_parse_size_of_no_amount_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(ForeignValue) as caught:
        parse_size(word(text))
    assert (caught.value.code, caught.value.details["path"]) == ("GP-1041", (7,))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1", 60),
        ("1:02", 62),
        ("1:02:03", 3723),
        ("1-0", 86400),
        ("1-02:03:04", 93784),
        ("0", None),
        ("0:00", None),
        ("0-0", None),
        ("Infinite", None),
    ],
)
def test_parse_seconds_reads_every_form_of_a_time(text: str, seconds: int | None) -> None:
    assert parse_seconds(word(text)) == seconds


@pytest.mark.parametrize("text", ["", "1:2:3:4", "-1", "1-", "1h"])
def test_parse_seconds_of_no_time_is_refused(text: str) -> None:
    with pytest.raises(ForeignValue, match="this is no time"):
        parse_seconds(word(text))


@pytest.mark.parametrize(
    ("text", "many"), [("3", 1), ("3-3", 1), ("0-9:4", 3), ("1,3-5, 7", 5), ("0-99%1", 100)]
)
def test_count_indices_adds_up_the_parts(text: str, many: int) -> None:
    assert count_indices(word(text)) == many


@pytest.mark.parametrize("text", ["", "5-4", "0-9:0", "a", "1,,2", "0-9:"])
def test_count_indices_of_no_range_is_refused(text: str) -> None:
    with pytest.raises(ForeignValue, match="these are no indices"):
        count_indices(word(text))
