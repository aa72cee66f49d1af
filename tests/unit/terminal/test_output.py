"""Tables, errors and values on the terminal."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from gpupool.base.errors import BadQuantity, RequestRejection
from gpupool.cli.work.queue import COLUMNS as QUEUE
from gpupool.terminal.output import (
    TableColumn,
    clean_text,
    drop_spare_columns,
    format_pairs,
    format_table,
    measure_width,
    print_error,
    print_list,
    shorten_text,
    write_csv,
)

COLUMNS = (
    TableColumn("NAME", lambda row: row["name"]),
    TableColumn(
        "SIZE",
        lambda row: row["size"],
        right=True,
        color=lambda row: "red" if row["size"] else None,
    ),
    TableColumn("NOTE", lambda row: row["note"]),
)


def rows() -> list[dict[str, Any]]:
    return [
        {"name": "a", "size": 10, "note": "first"},
        {"name": "long-name", "size": None, "note": ""},
    ]


def test_columns_are_as_wide_as_they_need_and_unknown_is_two_dashes() -> None:
    assert format_table(rows(), COLUMNS).splitlines() == [
        "NAME       SIZE  NOTE",
        "a            10  first",
        "long-name    --  --",
    ]


def test_the_last_column_is_cut_at_the_terminals_edge() -> None:
    lines = format_table(
        [{"name": "a", "size": 1, "note": "xyz " * 12}], COLUMNS, limit=25
    ).splitlines()
    assert lines[1] == "a        1  xyz xyz xyz …"
    assert measure_width(lines[1]) == 25


def test_an_id_or_a_figure_at_the_terminals_edge_is_whole() -> None:
    address = "fd00::f816:3eff:fe12:3456"
    row = {"name": "a", "size": "1234567.00 EUR", "note": address}
    assert format_table([row], COLUMNS, limit=25).endswith(address)
    assert format_table([row], COLUMNS[:2], limit=8).endswith("1234567.00 EUR")


def test_colours_change_no_alignment() -> None:
    plain = format_table(rows(), COLUMNS).splitlines()
    painted = format_table(rows(), COLUMNS, color=True).splitlines()
    assert painted[1] == plain[1].replace("10", "\x1b[31m10\x1b[0m")
    assert painted[2] == plain[2]


def test_chinese_signs_take_two_columns() -> None:
    found = format_table(
        [{"name": "训练", "size": 1, "note": "n"}, {"name": "abcd", "size": 1, "note": "n"}],
        COLUMNS,
    )
    assert found.splitlines()[1:] == ["训练     1  n", "abcd     1  n"]
    assert shorten_text("训练训练", 5) == "训练…"


def test_what_people_typed_cannot_move_the_cursor() -> None:
    assert clean_text("a\x1b[2Jb\nc") == "a\\x1b[2Jb\\nc"
    assert "\x1b" not in format_table([{"name": "\x1b]0;x\x07", "size": 1, "note": "n"}], COLUMNS)


def test_zero_is_zero_and_none_is_unknown() -> None:
    assert (clean_text(0), clean_text(None), clean_text("")) == ("0", "--", "--")


def test_facts_of_one_thing_stand_in_two_columns() -> None:
    assert format_pairs([("a", 1), ("longer", None)]) == "a       1\nlonger  --"


def test_an_error_is_its_code_what_happened_and_what_to_type(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_error(BadQuantity("8 bytes? did you mean 8GiB?", hint="write 8GiB\nor 8192MiB"))
    assert (
        capsys.readouterr().err
        == "gpupool: GP-1001: 8 bytes? did you mean 8GiB?\n  write 8GiB\n  or 8192MiB\n"
    )


def test_an_errors_text_cannot_forge_another_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_error(RequestRejection("a\ngpupool: GP-0000: forged\x1b[1m"))
    assert capsys.readouterr().err == "gpupool: GP-2000: a\n  gpupool: GP-0000: forged\\x1b[1m\n"


def test_csv_writes_lists_as_json_and_nothing_for_none(capsys: pytest.CaptureFixture[str]) -> None:
    write_csv([{"a": [1, 2], "b": None, "c": True, "d": 'x,"y"'}], ["a", "b", "c", "d"])
    assert capsys.readouterr().out == 'a,b,c,d\n"[1, 2]",,true,"x,""y"""\n'


def test_a_narrow_terminal_costs_columns_that_can_be_spared_and_never_the_reason() -> None:
    columns = (
        TableColumn("NAME", lambda row: row["name"]),
        TableColumn("CARD", lambda row: "node-1:0", spare=1),
        TableColumn("USER", lambda row: "default/ann", spare=2),
        TableColumn("REASON", lambda row: "cannot start while all is guaranteed to others"),
    )
    rows = [{"name": "train"}]
    titles = {
        limit: [one.title for one in drop_spare_columns(rows, columns, limit)]
        for limit in (76, 75, 63, 62, 20)
    }
    assert titles == {
        76: ["NAME", "CARD", "USER", "REASON"],
        75: ["NAME", "CARD", "REASON"],
        63: ["NAME", "CARD", "REASON"],
        62: ["NAME", "REASON"],
        20: ["NAME", "REASON"],
    }


@pytest.mark.parametrize(
    ("width", "left_out"),
    [(100, ""), (60, "TENANT, SHARE, PRIORITY"), (40, "TENANT, SHARE, PRIORITY, WAITED")],
)
def test_a_narrow_terminal_says_which_columns_it_lacks(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    width: int,
    left_out: str,
) -> None:
    row = {"place": 1, "job": "train-with-a-name", "id": "j-0123456789", "tenant": "nlp"}
    row |= {"user": "ann", "share": "0.30 GPU (30 %)", "priority": 0, "waited_seconds": 60}
    row |= {"count": 1, "gang": None, "start": "in 5 min", "reason": "no room"}
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    print_list([row], QUEUE, "table")
    shown = capsys.readouterr()
    told = f"gpupool: columns left out: {left_out}; -o wide shows all\n"
    assert shown.err == (told if left_out else "")
    assert "train-with-a-name" in shown.out
    assert "no room" in shown.out
    print_list([row], QUEUE, "wide")
    shown = capsys.readouterr()
    assert ("nlp" in shown.out, shown.err) == (True, "")
