"""The table of mx-smi."""

from gpupool.model.device import DeviceHealth
from gpupool.probes.vendors.metax import parse_table
from tests.support.tool_outputs import MX_SMI


def test_two_lines_are_a_card() -> None:
    report = parse_table(MX_SMI)
    first, second = report.cards
    assert report.driver_version == "3.0.11"
    assert (first.number, second.number) == (0, 1)
    assert (second.product, second.address) == ("MetaX N260", "0000:21:00.0")
    assert (second.used_bytes, second.memory_bytes) == (666 << 20, 65536 << 20)
    assert (second.utilization_percent, second.power_watts) == (0, 33)
    assert second.temperature_celsius == 37
    assert (second.health, second.processes) == (DeviceHealth.OK, ())


def test_a_state_that_is_not_available_is_a_warning() -> None:
    card = parse_table(MX_SMI.replace("Available  ", "Unavailable")).cards[0]
    assert (card.health, card.health_reason) == (DeviceHealth.WARNING, "mx-smi says Unavailable")


def test_a_process_is_read_by_the_columns_of_the_heading() -> None:
    row = "|  1                    4711        python3                     1024           |"
    nothing = next(line for line in MX_SMI.splitlines() if "no process found" in line)
    first, second = parse_table(MX_SMI.replace(nothing, row)).cards
    assert first.processes == ()
    assert second.processes is not None
    assert [(p.pid, p.memory_bytes) for p in second.processes] == [(4711, 1024 << 20)]


def test_other_output_has_no_cards() -> None:
    assert parse_table("mx-smi: command not found").cards == ()
