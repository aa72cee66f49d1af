"""How the doctor judges what a share's ledger says of a load."""

from __future__ import annotations

import pytest

from gpupool.base.errors import NoRoomNow, ServiceUnavailable
from gpupool.verification.self_check import (
    LedgerReading,
    _judge_process,
    _judge_time,
    build_failure,
)

MIB = 1 << 20


@pytest.mark.parametrize(
    ("counted", "kept"),
    [(0.0, False), (40.0, False), (400.0, True), (500.0, True), (1200.0, False)],
)
def test_time_is_counted_when_the_ledger_has_about_what_the_load_had(
    counted: float, kept: bool
) -> None:
    found = _judge_time(LedgerReading(7, gpu_ms=counted, used_bytes=1, least_ms=390, most_ms=450))
    assert found.kept is kept
    assert f"counted {counted:.0f} ms" in found.measured


def test_a_ledger_that_has_nothing_is_no_time_counted_even_of_a_load_that_had_nothing() -> None:
    assert _judge_time(LedgerReading(7)).kept is False


def test_a_process_is_registered_with_its_memory_or_the_answer_says_who_is_there_instead() -> None:
    assert _judge_process(LedgerReading(7, used_bytes=400 * MIB)).kept is True
    assert _judge_process(LedgerReading(7, used_bytes=MIB)).kept is False
    other = _judge_process(LedgerReading(7, others=(8,)))
    assert (other.kept, "[8]" in other.measured) == (False, True)


def test_no_room_is_no_fault_of_the_fence_and_silence_is() -> None:
    assert build_failure("fence tried", NoRoomNow("no card has room", hint="later")).kept is None
    assert build_failure("fence tried", ServiceUnavailable("never came to its load")).kept is False
