"""`hy-smi --json`, with the words of older and newer versions."""

import json

from gpupool.probes.vendors.hygon import parse_json
from tests.support.tool_outputs import HY_SMI


def test_a_card_is_read_from_the_recorded_object() -> None:
    (card,) = parse_json(HY_SMI).cards
    assert (card.number, card.product) == (0, "Hygon DCU xxxx")
    assert card.uuid == "GPU-7100fa8866904061"
    assert (card.memory_bytes, card.used_bytes) == (65520 << 20, 2 << 20)
    assert (card.utilization_percent, card.power_watts, card.temperature_celsius) == (0, 80, 41)
    assert card.processes is None


def test_newer_words_are_understood() -> None:
    entry = json.loads(HY_SMI)["card0"]
    del entry["DCU use (%)"]
    entry["HCU use (%)"] = "27.5"
    entry["PCI Bus"] = "0000:09:00.0"
    text = "WARNING: hygon module\n" + json.dumps({"card10": entry, "card2": entry, "system": {}})
    cards = parse_json(text).cards
    assert [card.number for card in cards] == [2, 10]
    assert (cards[0].utilization_percent, cards[0].address) == (28, "0000:09:00.0")


def test_an_identity_of_zeros_is_none() -> None:
    for unique in ("0x0", "", "N/A"):
        text = HY_SMI.replace("7100fa8866904061", unique)
        assert parse_json(text).cards[0].uuid == ""


def test_other_output_has_no_cards() -> None:
    for text in ("", "no card", "{}", '{"card0": 3}', "{broken"):
        assert parse_json(text).cards == ()
