"""Rows of named fields, and rows that are none."""

from gpupool.probes.vendors.query_csv import parse_query

FIELDS = ("index", "name", "memory.total", "memory.used", "utilization.ppu", "power.draw")


def test_values_are_found_by_their_names() -> None:
    (card,) = parse_query("3, PPU, 98304, 91349, 7, 93.4\n", FIELDS).cards
    assert (card.number, card.product, card.memory_bytes) == (3, "PPU", 98304 << 20)
    assert (card.used_bytes, card.utilization_percent, card.power_watts) == (91349 << 20, 7, 93)
    assert (card.uuid, card.address, card.temperature_celsius) == ("", None, None)


def test_what_a_card_does_not_support_is_unknown() -> None:
    (card,) = parse_query("0, PPU, [N/A], [Not Supported], N/A, -\n", FIELDS).cards
    assert (card.memory_bytes, card.used_bytes) == (None, None)
    assert (card.utilization_percent, card.power_watts) == (None, None)


def test_headers_and_complaints_are_no_cards() -> None:
    text = "index, name, memory.total, memory.used, utilization.ppu, power.draw\nError: x\n\n"
    assert parse_query(text, FIELDS).cards == ()
