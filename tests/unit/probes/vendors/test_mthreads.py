"""The table of mthreads-gmi."""

from gpupool.probes.vendors.mthreads import parse_table
from tests.support.tool_outputs import MTHREADS_GMI


def test_three_lines_are_a_card() -> None:
    report = parse_table(MTHREADS_GMI)
    (card,) = report.cards
    assert report.driver_version == "2.7.0"
    assert (card.number, card.product) == (0, "Moore Threads MTT S80")
    assert card.address == "0000:01:00.0"
    assert (card.used_bytes, card.memory_bytes) == (1339 << 20, 16384 << 20)
    assert (card.utilization_percent, card.temperature_celsius) == (98, 56)
    assert card.power_watts is None


def test_processes_are_listed_with_their_memory() -> None:
    (card,) = parse_table(MTHREADS_GMI).cards
    assert card.processes is not None
    assert [(p.pid, p.memory_bytes) for p in card.processes] == [
        (120, 2 << 20),
        (2022, 1333 << 20),
    ]
    idle = MTHREADS_GMI.partition("0    120")[0] + "   No running processes found\n"
    assert parse_table(idle).cards[0].processes == ()


def test_other_output_has_no_cards() -> None:
    assert parse_table("Error: failed to initialize mtml").cards == ()
