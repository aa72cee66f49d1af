"""The health of a card by its own error counters."""

from pathlib import Path

from tests.unit.probes.fake_driver import ask_probe


def test_the_cards_own_counters_speak_of_its_health(library: Path, sysfs: Path) -> None:
    health = list(ask_probe(library, "ill", sysfs)["health"].values())
    assert health[0] == ["failed", "the driver has lost the card"]
    assert health[1][0] == "warning"
    assert health[1][1].startswith("2 uncorrected memory errors")
    assert "waits to be remapped" in health[1][1]
    assert health[2] == ["failed", "a memory row could not be remapped: the card needs repair"]
    assert health[3] == ["ok", ""]
