"""GPU time of ended processes by NVML's accounting mode."""

from typing import Any

from gpupool.probes.accounting import ACCOUNTING_IS_OFF
from tests.unit.probes.fake_driver import STARTED_NS


def test_ended_processes_are_told_with_a_percent_less_than_the_driver_rounds_to(
    pair: dict[str, Any],
) -> None:
    """Not the one that runs, nor one whose use was not measured, nor one that is not in the ring
    any more."""
    (ended,) = pair["ended"]["GPU-00000001-aaaa"]["processes"]
    assert (ended["pid"], ended["gpu_ns"]) == (4001, 1_000_000_000)
    assert abs(ended["start_ns"] - STARTED_NS) < 10**9


def test_a_card_without_accounting_says_why_it_tells_of_no_ended_process(
    pair: dict[str, Any],
) -> None:
    off, t4 = (pair["ended"][uuid] for uuid in ("GPU-00000000-aaaa", "GPU-00000002-aaaa"))
    assert off == {"processes": [], "reason": ACCOUNTING_IS_OFF}
    assert t4["processes"] == []
    assert "no accounting mode" in t4["reason"]


def test_an_operator_is_told_where_accounting_is_off_and_what_turns_it_on(
    pair: dict[str, Any],
) -> None:
    assert pair["accounting"].startswith("off on 1 of 3 cards: ")
    assert "`nvidia-smi -am 1`" in pair["accounting"]
