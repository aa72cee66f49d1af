"""Quantities: what is understood, what is refused with the right words, what is printed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.base.errors import BadBandwidth, BadDuration, BadFraction, BadQuantity
from gpupool.base.units import (
    GIB,
    MIB,
    format_bandwidth,
    format_duration,
    format_gpu,
    format_share,
    parse_bandwidth,
    parse_duration,
    parse_gpu,
    parse_memory,
    parse_since,
    parse_when,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8GiB", 8 * GIB),
        ("8Gi", 8 * GIB),
        ("8192MiB", 8 * GIB),
        (" 1.5 GiB ", 1536 * MIB),
        ("1TiB", 1024 * GIB),
    ],
)
def test_binary_units_are_exact(text: str, size: int) -> None:
    assert parse_memory(text) == size


def test_gigabytes_are_smaller_than_gibibytes_and_round_up_to_whole_mebibytes() -> None:
    assert parse_memory("16GB") == 15259 * MIB
    assert parse_memory("16GB") < parse_memory("16GiB")


def test_a_number_without_unit_asks_back() -> None:
    with pytest.raises(BadQuantity, match=r"8 bytes\? did you mean 8GiB\?"):
        parse_memory("8")


@pytest.mark.parametrize("text", ["8G", "512M"])
def test_a_unit_that_can_mean_two_sizes_is_refused(text: str) -> None:
    with pytest.raises(BadQuantity, match="which differ"):
        parse_memory(text)


@pytest.mark.parametrize(
    "text", ["", "GiB", "-1GiB", "0MiB", "1e400GiB", "NaNGiB", "8XiB", "99999999TiB", "8 Gi B"]
)
def test_what_is_no_amount_of_memory_is_refused(text: str) -> None:
    with pytest.raises(BadQuantity):
        parse_memory(text)


@pytest.mark.parametrize(
    ("text", "answer"), [("0.3", (300, None)), ("1", (1000, None)), ("4", (1000, 4))]
)
def test_shares_up_to_one_card_and_whole_cards_above(
    text: str, answer: tuple[int, int | None]
) -> None:
    assert parse_gpu(text) == answer


@pytest.mark.parametrize("text", ["0", "-0.5", "1.5", "0.0001", "x", "nan", "inf", "", "1e9"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(BadFraction):
        parse_gpu(text)


@given(st.integers(1, 1000))
def test_every_milli_is_printed_so_that_it_is_read_back(milli: int) -> None:
    assert parse_gpu(format_gpu(milli))[0] == milli


def test_a_share_always_shows_both_numbers() -> None:
    assert format_share(300, 8 * GIB) == "0.30 GPU (30 % compute) + 8192 MiB"
    assert format_share(333, GIB) == "0.333 GPU (33.3 % compute) + 1024 MiB"
    assert format_share(1000, GIB, 2) == "2 × [1.00 GPU (100 % compute) + 1024 MiB]"
    assert "(best effort)" in format_share(0, GIB, unpromised="best effort")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1h30m", 5400), ("2d", 172800), ("1w", 604800)]
)
def test_durations_are_whole_seconds(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "1.5h", "h", "0s", "-1h", "99999w", "1h x"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(BadDuration):
        parse_duration(text)


def test_what_is_neither_a_time_nor_a_duration_is_refused_with_both() -> None:
    with pytest.raises(BadDuration, match="'tomorrow' is neither a time nor a duration") as refused:
        parse_when("tomorrow", datetime(2026, 11, 22, tzinfo=UTC))
    assert refused.value.hint == "write it like 2026-12-01T08:00, or 2h for two hours from now"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2026-02-30", "'2026-02-30' is no time"),
        ("yesterday", "'yesterday' is neither a time nor a duration"),
    ],
)
def test_since_refuses_a_wrong_day_with_the_ways_to_write_one(text: str, message: str) -> None:
    with pytest.raises(BadDuration, match=message) as refused:
        parse_since(text, datetime(2026, 11, 22, tzinfo=UTC))
    assert "2026-11-20" in refused.value.hint
    assert "2h" in refused.value.hint


def test_since_says_that_a_number_lacks_its_unit() -> None:
    with pytest.raises(BadDuration) as refused:
        parse_since("30", datetime(2026, 11, 22, tzinfo=UTC))
    assert refused.value.hint == "write 30s, 30m or 30h"


def test_since_understands_ages_months_and_iso_times() -> None:
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert parse_since("2h", now) == datetime(2026, 11, 21, 10, tzinfo=UTC)
    assert parse_since("2026-10", now) == datetime(2026, 10, 1, tzinfo=UTC)
    assert parse_since("2026-11-20T10:00:00+02:00", now) == datetime(2026, 11, 20, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"), [(4, "0:04"), (751, "12:31"), (11100, "3:05:00"), (183900, "2d 3:05:00")]
)
def test_durations_read_like_a_clock(seconds: int, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "kbit"),
    [("20M", 20_000), ("1.5G", 1_500_000), (" 300Mbit/s ", 300_000), ("100G", 100_000_000)],
)
def test_bandwidth_is_bits_per_second(text: str, kbit: int) -> None:
    assert parse_bandwidth(text) == kbit


@pytest.mark.parametrize("text", ["20", "20k", "20MB", "0.5M", "101G", "-1M", "", "1e3M", "nanM"])
def test_what_is_no_bandwidth_is_refused(text: str) -> None:
    with pytest.raises(BadBandwidth):
        parse_bandwidth(text)


def test_bandwidth_is_shown_in_mbit() -> None:
    shown = [format_bandwidth(kbit) for kbit in (20_000, 1500, 100_000_000)]
    assert shown == ["20 Mbit/s", "1.5 Mbit/s", "100000 Mbit/s"]
