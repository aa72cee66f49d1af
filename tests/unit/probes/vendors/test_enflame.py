"""`efsmi -q` of newer and older drivers."""

from gpupool.model.device import DeviceHealth
from gpupool.probes.vendors.enflame import parse_blocks
from tests.support.tool_outputs import EFSMI, EFSMI_OLD


def test_a_block_is_a_card() -> None:
    report = parse_blocks(EFSMI)
    (card,) = report.cards
    assert report.driver_version == "1.4.3.4"
    assert (card.product, card.uuid, card.address) == (
        "Enflame S60",
        "TR6Y46010302",
        "0000:17:00.0",
    )
    assert (card.memory_bytes, card.used_bytes) == (42976 << 20, 0)
    assert (card.utilization_percent, card.power_watts, card.temperature_celsius) == (0, 96, 35)
    assert (card.health, card.processes) == (DeviceHealth.OK, None)


def test_a_card_that_is_not_well_has_failed() -> None:
    text = EFSMI.replace("Health                  : True", "Health                  : False")
    (card,) = parse_blocks(text).cards
    assert (card.health, card.health_reason) == (DeviceHealth.FAILED, "efsmi says Health: False")


def test_older_drivers_have_other_names_and_less() -> None:
    (card,) = parse_blocks(EFSMI_OLD).cards
    assert (card.memory_bytes, card.used_bytes) == (42976 << 20, 1129 << 20)
    assert (card.product, card.uuid, card.address) == ("Enflame", "", None)
    assert card.health is DeviceHealth.UNKNOWN


def test_several_blocks_are_several_cards() -> None:
    text = EFSMI + EFSMI.replace("DEV ID 0", "DEV ID 1").replace("TR6Y46010302", "TR6Y46010303")
    assert [card.uuid for card in parse_blocks(text).cards] == ["TR6Y46010302", "TR6Y46010303"]
    assert parse_blocks("efsmi: cannot open /dev/gcuctl").cards == ()
