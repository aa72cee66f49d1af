"""ixsmi: which fields are asked for, and how an answer is read."""

from gpupool.probes.vendors.iluvatar import FORMAT
from tests.support.tool_outputs import IXSMI, IXSMI_FIELDS


def test_the_name_of_the_power_is_tried_by_version_and_left_out_last() -> None:
    asked = [query.arguments[0] for query in FORMAT.queries]
    assert [text.rpartition(",")[2] for text in asked] == [
        *("gpu.power.draw", "power.draw", "temperature.gpu"),
    ]
    assert asked[-1] == f"--query-gpu={','.join(IXSMI_FIELDS)}"


def test_cards_are_read_from_the_recorded_rows() -> None:
    first, second = FORMAT.queries[-1].parse(IXSMI).cards
    assert (first.number, first.product) == (0, "Iluvatar MR-V50")
    assert first.uuid == "GPU-1ac807aa-cbcd-5579-8591-d59d436d6eca"
    assert first.address == "0000:26:00.0"
    assert (second.memory_bytes, second.used_bytes) == (32768 << 20, 27996 << 20)
    assert (second.utilization_percent, second.temperature_celsius) == (0, 36)
    assert (second.uuid, second.power_watts) == ("", None)


def test_power_is_read_where_the_version_knows_it() -> None:
    text = "\n".join(f"{line}, 53 W" for line in IXSMI.splitlines())
    assert [card.power_watts for card in FORMAT.queries[0].parse(text).cards] == [53, 53]
