"""Writes of cards' states and health: each with its event, all of them or none."""

from __future__ import annotations

import pytest

from gpupool.base.errors import (
    NotFound,
    StillInUse,
    WrongState,
)
from gpupool.wire.samples import DeviceSample, UsageOut
from tests.unit.fleet.conftest import ADMIN, AGENT, House, card, node, real


def test_adopting_is_all_or_nothing_and_twice_is_once(house: House) -> None:
    house.fleet.register_node("iron", node(real(0), real(1)), AGENT)
    with pytest.raises(NotFound, match="iron:9"):
        house.fleet.adopt_devices(["iron:0", "iron:9"], ADMIN)
    assert house.rows()["GPU-0"].state == "observed"
    house.time.forward(4)
    assert [one.state for one in house.fleet.adopt_devices(["0", "GPU-1", "iron:0"], ADMIN)] == [
        "adopted",
        "adopted",
    ]
    before = (house.rows(), house.events())
    house.fleet.adopt_devices(["0", "1"], ADMIN)
    assert (house.rows(), house.events()) == before
    assert house.spans("GPU-0") == [("unmanaged", 0, 4), ("pooled", 4, None)]


def test_a_lost_card_cannot_be_adopted(house: House) -> None:
    house.fleet.register_node("iron", node(real(0)), AGENT)
    house.fleet.register_node("iron", node(), AGENT)
    with pytest.raises(WrongState, match="iron:0"):
        house.fleet.adopt_devices(["iron:0"], ADMIN)


def test_releasing_a_card_with_shares_is_refused_with_the_numbers(house: House) -> None:
    house.fleet.register_node("sim", node(card(0), card(1)), AGENT)
    house.sit("GPU-1")
    with pytest.raises(StillInUse, match=r"1 share is on sim:1 \(1\); nothing was released"):
        house.fleet.release_devices(["sim:0", "sim:1"], False, ADMIN)
    assert house.rows()["GPU-0"].state == "adopted"


def test_a_card_that_fails_becomes_overhead_and_is_told_once(house: House) -> None:
    house.fleet.register_node("sim", node(card(0)), AGENT)
    house.time.forward(10)
    sample = DeviceSample(uuid="GPU-0", usage=UsageOut(), health="failed", health_reason="XID 79")
    house.fleet.record_observations("sim", [sample])
    house.fleet.record_observations("sim", [sample])
    assert [e.data["health"] for e in house.events("device.health")] == ["failed"]
    assert house.spans("GPU-0") == [("pooled", 0, 10), ("overhead", 10, None)]
    assert house.fleet.get_device("0", ADMIN).largest_bytes == 0
