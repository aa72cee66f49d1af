"""The table of brsmi."""

import pytest

from gpupool.model.device import DeviceHealth
from gpupool.probes.vendors.biren import parse_table
from gpupool.probes.vendors.tool_report import ToolCard
from tests.support.tool_outputs import BRSMI, BRSMI_106B

RULER = "+----------------------------+-----------------------+-------------------------+\n"


def join_hosts(upper: str, lower: str) -> str:
    """Return the table of a host with the card of each text; the lower one becomes card 1."""
    card = lower.split("=+\n", 1)[1].split(RULER, 1)[0].replace("|     0 ", "|     1 ", 1)
    above, below = upper.split("Disabled |\n" + RULER, 1)
    return f"{above}Disabled |\n{RULER}{card}{RULER}{below}"


def read_one(text: str) -> ToolCard:
    (card,) = parse_table(text).cards
    return card


def test_three_lines_are_a_card_with_its_process() -> None:
    report = parse_table(BRSMI)
    (card,) = report.cards
    assert report.driver_version == "1.11.0"
    assert (card.number, card.product, card.address) == (0, "Biren106M", "0000:c1:00.0")
    assert (card.used_bytes, card.memory_bytes) == (3392 << 20, 32512 << 20)
    assert (card.utilization_percent, card.power_watts) == (0, 63)
    assert (card.temperature_celsius, card.health) == (37, DeviceHealth.OK)
    assert card.processes is not None
    assert [(p.pid, p.memory_bytes) for p in card.processes] == [(202569, 3310 << 20)]


def test_an_idle_card_has_no_processes() -> None:
    card = read_one(BRSMI_106B)
    assert (card.product, card.used_bytes, card.processes) == ("Biren106B", 0, ())


def test_two_cards_are_separate_with_their_processes() -> None:
    first, second = parse_table(join_hosts(BRSMI, BRSMI_106B)).cards
    assert (first.number, second.number) == (0, 1)
    assert (second.product, second.address) == ("Biren106B", "0000:90:00.0")
    assert (second.power_watts, second.processes) == (35, ())
    assert first.processes


def test_uncorrected_errors_are_a_warning() -> None:
    text = BRSMI.replace("                       0 |\n", "                      12 |\n", 1)
    card = read_one(text)
    assert card.health is DeviceHealth.WARNING
    assert card.health_reason == "brsmi counts 12 uncorrected memory errors"


def test_a_card_without_a_count_of_errors_has_unknown_health() -> None:
    text = BRSMI.replace("                       0 |\n", "                     N/A |\n", 1)
    assert read_one(text).health is DeviceHealth.UNKNOWN


@pytest.mark.parametrize("word", ["Enabled ", "1/2     "])
def test_a_card_that_is_cut_closes_every_card_of_the_host(word: str) -> None:
    text = join_hosts(BRSMI, BRSMI_106B)
    before, _, after = text.rpartition("Disabled")
    first, second = parse_table(f"{before}{word}{after}").cards
    assert first.health is second.health is DeviceHealth.FAILED
    assert "SVI is on (card 1)" in first.health_reason


def test_other_output_has_no_cards() -> None:
    assert parse_table("brsmi: command not found").cards == ()
