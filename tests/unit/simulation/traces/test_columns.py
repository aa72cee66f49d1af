"""Cells and lines of a table: what is a number, what a default, and what is refused where."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadTrace
from gpupool.simulation.traces.columns import TableRow, read_header, read_rows


def row(**cells: str) -> TableRow:
    return TableRow("jobs.csv", 7, cells)


def test_read_scaled_keeps_every_nanosecond_of_a_decimal() -> None:
    assert row(at="0.1").read_scaled("at", 10**9, 0, 10) == 100_000_000
    assert row(at="9007199.254740993").read_scaled("at", 10**9, 0, 10**8) == 9007199254740993


@pytest.mark.parametrize("text", ["5", "5.0", "5e0"])
def test_read_integer_takes_a_whole_number_however_written(text: str) -> None:
    assert row(n=text).read_integer("n", 5, 5) == 5


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("4", "4 is not from 5 to 9"),
        ("10", "10 is not from 5 to 9"),
        ("5.5", "5.5 is not a whole number"),
        ("inf", "inf is not a whole number"),
        ("x" * 41, repr("x" * 40) + " is not a number"),
        ("", "is empty"),
    ],
)
def test_read_integer_outside_its_bounds_names_line_and_column(text: str, says: str) -> None:
    with pytest.raises(BadTrace) as caught:
        row(n=text).read_integer("n", 5, 9)
    assert caught.value.message == f"jobs.csv, line 7, column n: {says}"
    assert caught.value.details == {"line": 7, "column": "n"}


def test_read_integer_of_an_empty_or_absent_cell_is_the_default() -> None:
    assert row(n="").read_integer("n", 5, 9, 0) == 0
    assert row().read_integer("n", 5, 9, 0) == 0


def test_read_rows_strips_cells_and_skips_empty_lines() -> None:
    rows = list(read_rows("t", " a ,b\n 1 , 2\n\n3,4\n", ["a"], ["b"]))
    assert [(one.line, one.cells) for one in rows] == [
        (2, {"a": "1", "b": "2"}),
        (4, {"a": "3", "b": "4"}),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("b\n1\n", "t lacks the column a"),
        ("a,c\n1,2\n", "t has an unknown column 'c'"),
        ("a,b,b\n1,2,3\n", "t has the column b twice"),
        ("a,b\n1\n", "t, line 2: 1 cells, the header has 2"),
        ("a,b\n\n", "t is empty: it has a header and no lines"),
        ("a\n" + "x" * 200_000, "t, line 2: field larger than field limit (131072)"),
    ],
)
def test_read_rows_of_a_bad_table_is_refused(text: str, says: str) -> None:
    with pytest.raises(BadTrace) as caught:
        list(read_rows("t", text, ["a"], ["b"]))
    assert caught.value.message == says


def test_read_header_reads_the_first_line_alone() -> None:
    assert read_header("a, b \n1\n") == ["a", "b"]
    assert read_header("") == []
