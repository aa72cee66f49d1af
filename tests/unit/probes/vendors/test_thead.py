"""ppu-smi: which fields are asked for, and how an answer is read."""

from gpupool.probes.vendors.thead import FORMAT
from tests.support.tool_outputs import PPU_SMI, PPU_SMI_FIELDS


def test_use_is_asked_for_first_and_the_cards_alone_last() -> None:
    first, last = (query.arguments[0] for query in FORMAT.queries)
    assert last == f"--query-ppu={','.join(PPU_SMI_FIELDS)}"
    assert first.startswith(f"{last},memory.used")


def test_cards_are_read_from_the_recorded_rows() -> None:
    first, second = FORMAT.queries[-1].parse(PPU_SMI).cards
    assert (first.number, first.product) == (0, "PPU-ZW810E")
    assert first.uuid == "GPU-019e2226-4211-0208-0000-000000ab261d"
    assert (first.address, second.address) == ("0000:a8:00.0", "0000:a7:00.0")
    assert first.memory_bytes == second.memory_bytes == 98304 << 20
    assert first.used_bytes is None
