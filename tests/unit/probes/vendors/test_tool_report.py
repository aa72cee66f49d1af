"""Numbers, addresses and cells as tools of several makers print them."""

import pytest

from gpupool.probes.vendors.tool_report import (
    parse_address,
    parse_mib,
    parse_number,
    parse_whole,
    split_cells,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [("70.5", 70.5), ("-3 C", -3.0), ("0 %", 0.0), ("35 \u2103", 35.0), ("", None), ("N/A", None)],
)
def test_a_number_is_read_with_any_unit_and_never_made_up(text: str, number: float | None) -> None:
    assert parse_number(text) == number
    assert parse_whole(text) == (None if number is None else round(number))


def test_mib_become_bytes() -> None:
    assert parse_mib("32768 MiB") == 32 << 30
    assert parse_mib(None) is None


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0000:C1:00.0", "0000:c1:00.0"),
        ("00000000:A5:00.0 N/A", "0000:a5:00.0"),
        ("00:2d:00.0", "0000:2d:00.0"),
        ("0000:06:00.0 --> SN: TRCW390010030401", "0000:06:00.0"),
        ("10000:01:00.0", "10000:01:00.0"),
        ("On  v4.20.11", None),
    ],
)
def test_addresses_are_written_as_the_kernel_does(text: str, address: str | None) -> None:
    assert parse_address(text) == address


def test_cells_are_those_of_a_line_of_a_table_alone() -> None:
    assert split_cells(" | 0     xxx | OK | 70.5 | ") == ["0     xxx", "OK", "70.5"]
    assert split_cells("+====+") == []
    assert split_cells("|") == []
