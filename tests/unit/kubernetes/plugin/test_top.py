"""Pods that hold cards are listed by how much they hold."""

from __future__ import annotations

from gpupool.kubernetes.plugin import top
from tests.support.plugin_ledgers import entry, ledger


def test_who_holds_most_comes_first() -> None:
    rows = top.rows_of([ledger(entry(), entry("b", 1000, 1))])
    assert [(row["pod"], row["gpu_milli"], row["cards"]) for row in rows] == [
        ("team/b", 1000, [1]),
        ("team/a", 300, [0]),
    ]
    assert top.title([ledger(entry())]) == "0.30 of 2.00 GPU held on 1 adopted node"
