"""The history of what each card was to the pool."""

from __future__ import annotations

from tests.unit.fleet.conftest import ADMIN, AGENT, House, card, node


def test_a_card_that_vanished_under_its_jobs_counts_as_overhead_until_the_last_has_left(
    house: House,
) -> None:
    house.fleet.register_node("sim", node(card(0)), AGENT)
    house.sit("GPU-0")
    house.time.forward(10)
    house.fleet.register_node("sim", node(), AGENT)
    house.time.forward(5)
    house.leave("GPU-0")
    assert house.spans("GPU-0") == [("pooled", 0, 10), ("overhead", 10, 15)]


def test_a_draining_card_is_released_when_its_last_share_is_given_back(house: House) -> None:
    house.fleet.register_node("sim", node(card(0), card(1)), AGENT)
    house.sit("GPU-0")
    house.time.forward(10)
    assert [d.state for d in house.fleet.release_devices(["0", "1"], True, ADMIN)] == [
        "draining",
        "observed",
    ]
    assert house.fleet.get_device("0", ADMIN).largest_milli == 0
    house.time.forward(10)
    house.leave("GPU-0")
    assert house.rows()["GPU-0"].state == "observed"
    assert house.spans("GPU-0") == [
        ("pooled", 0, 10),
        ("overhead", 10, 20),
        ("unmanaged", 20, None),
    ]
    kinds = [
        e.kind for e in house.events() if e.kind.startswith("device.") and e.subject == "sim:0"
    ]
    assert kinds == ["device.added", "device.draining", "device.released"]


def test_a_change_that_takes_no_whole_second_leaves_no_span(house: House) -> None:
    house.fleet.register_node("sim", node(card(0)), AGENT)
    house.fleet.release_devices(["0"], False, ADMIN)
    house.fleet.adopt_devices(["0"], ADMIN)
    assert house.spans("GPU-0") == [("pooled", 0, None)]
