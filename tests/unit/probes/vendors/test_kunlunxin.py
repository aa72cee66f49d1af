"""`xpu_smi -m`, whose columns have no names."""

from gpupool.probes.vendors.kunlunxin import parse_lines
from tests.support.tool_outputs import XPU_SMI_M


def test_columns_are_read_by_their_places() -> None:
    first, second = parse_lines(XPU_SMI_M).cards
    assert (first.number, second.number) == (0, 1)
    assert (first.product, first.address) == ("Kunlunxin P800 OAM", "0000:03:00.0")
    # Not 2 and 96, which are the cache's and stand before them.
    assert (first.used_bytes, first.memory_bytes) == (90440 << 20, 98304 << 20)
    assert (second.temperature_celsius, second.power_watts) == (39, 86)
    assert second.utilization_percent == 0


def test_other_lines_are_no_cards() -> None:
    assert parse_lines("").cards == ()
    assert parse_lines("XPU-SMI\n\nnot a row\n00000000:03:00.0 0 0\n").cards == ()
