"""Closed intervals are kept in pages while the meter is away."""

from __future__ import annotations

from dataclasses import replace

from gpupool.kubernetes.ledger.billing_intervals import close_interval
from gpupool.kubernetes.ledger.journal import build_page, read_page
from tests.support.ledger_entries import entry


def test_a_page_of_the_journal_is_read_back_and_is_named_the_same_twice() -> None:
    ended = [
        close_interval(replace(entry("a"), held_ns=1), 2),
        close_interval(replace(entry("b"), held_ns=1), 9),
    ]
    made = build_page("n0", "gpupool", ended)
    assert read_page(made) == ("n0", ended)
    assert (
        made["metadata"]["name"]
        == build_page("n0", "gpupool", ended)["metadata"]["name"]
        != build_page("n1", "gpupool", ended)
    )
