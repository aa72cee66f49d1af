"""The table of cnmon, versions 4 and 5."""

from gpupool.model.device import DeviceHealth
from gpupool.probes.vendors.cambricon import parse_table
from tests.support.tool_outputs import CNMON, CNMON_4


def test_version_5_shows_addresses() -> None:
    report = parse_table(CNMON)
    first, second = report.cards
    assert report.driver_version == "5.10.10"
    assert (first.number, second.number) == (0, 1)
    assert (first.product, first.address) == ("Cambricon MLU370-X4", "0000:1b:00.0")
    assert (first.memory_bytes, first.used_bytes) == (23308 << 20, 0)
    assert (first.utilization_percent, first.power_watts, first.temperature_celsius) == (0, 27, 41)
    assert first.processes == ()
    assert first.health is DeviceHealth.UNKNOWN


def test_version_4_shows_no_address() -> None:
    (card,) = parse_table(CNMON_4).cards
    assert (card.product, card.address) == ("Cambricon MLU370-X4", None)
    assert (card.memory_bytes, card.power_watts, card.temperature_celsius) == (23308 << 20, 30, 32)


def test_a_process_is_read_by_the_columns_of_the_heading() -> None:
    row = "|  1     /   12345  python train.py 8                            1024 MiB          |"
    text = CNMON.replace(
        "|  No running processes found                                                  |", row
    )
    first, second = parse_table(text).cards
    assert first.processes == ()
    assert second.processes is not None
    assert [(p.pid, p.memory_bytes) for p in second.processes] == [(12345, 1024 << 20)]


def test_other_output_has_no_cards() -> None:
    assert parse_table("cnmon: no device").cards == ()
