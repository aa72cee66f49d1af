"""The map shows each card and the shares on it."""

from __future__ import annotations

from dataclasses import replace

from gpupool.kubernetes.plugin import map as shown
from gpupool.model.partition import ForeignPiece
from gpupool.terminal.output import format_table
from tests.support.plugin_ledgers import entry, ledger


def test_a_map_shows_both_numbers_of_every_share_and_how_it_stands() -> None:
    node = ledger(entry(), entry("b", 200, state="reserved"))
    assert format_table(shown.rows_of(node), [one for one in shown.COLUMNS if not one.wide]) == (
        "CARD  MODEL  MODE  HEALTH      HELD  MEMORY                  SHARES\n"
        "n0/0  L40S   slot  ok      0.50 GPU  16384 MiB of 49152 MiB  "
        "team/a: 0.30 GPU + 8192 MiB, team/b: 0.20 GPU + 8192 MiB (reserved)\n"
        "n0/1  L40S   slot  ok      0.00 GPU  0 MiB of 49152 MiB      free"
    )


def test_a_wide_map_names_what_other_tools_made() -> None:
    made = ledger(count=1)
    card = replace(made.cards[0], foreign=(ForeignPiece("2 virtual functions"),))
    rows = shown.rows_of(replace(made, cards=(card,)))
    assert rows[0]["foreign"] == ["2 virtual functions"]
    header, line = format_table(rows, list(shown.COLUMNS)).splitlines()
    assert line[header.index("FOREIGN") :].startswith("2 virtual functions")
