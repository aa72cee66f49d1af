"""Lines of a log of gpupool burn, piece by piece."""

from __future__ import annotations

from gpupool.verification.records import BurnRecord
from gpupool.verification.statistics import RateStretch


def test_lines_of_a_log_come_in_pieces_and_between_others() -> None:
    record = BurnRecord()
    record.feed_output(b'{"kind": "card", "uuid": "a"}\nwarning: no\n{"kind": "str')
    record.feed_output(b'etch", "begin_ns": 0, "end_ns": 9, "rate": 0.5}\n{"kind": 7}\n{broken\n')
    assert record.find_first("card") == {"kind": "card", "uuid": "a"}
    assert record.list_stretches() == [RateStretch(0, 9, 0.5)]
    assert record.other == ["warning: no", '{"kind": 7}', "{broken"]


def test_stretches_without_a_rate_are_left_out() -> None:
    record = BurnRecord()
    record.feed_output(b'{"kind": "stretch", "begin_ns": 0, "end_ns": 9, "rate": null}\n')
    assert record.list_stretches() == []
    assert len(record.list_lines("stretch")) == 1


def test_bytes_that_are_no_text_are_kept_as_another_line() -> None:
    record = BurnRecord()
    record.feed_output(b"\xff broken\n\n")
    assert record.other == ["\ufffd broken"]
    assert record.find_first("card") is None
