"""What a registration changes: cards that are new, changed, lost, returned, or refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import (
    InvalidBody,
    StillInUse,
    WriteConflict,
)
from tests.unit.fleet.conftest import ADMIN, AGENT, GIB, House, card, node, real


def test_simulated_cards_start_adopted_and_real_ones_observed_whatever_the_agent_asks(
    house: House,
) -> None:
    house.fleet.register_node("sim", node(card(0)), AGENT)
    house.fleet.register_node("iron", node(real(1)), AGENT)
    assert [house.rows()[f"GPU-{i}"].state for i in (0, 1)] == ["adopted", "observed"]
    assert house.spans("GPU-0") == [("pooled", 0, None)]
    assert house.spans("GPU-1") == [("unmanaged", 0, None)]


def test_two_cards_may_swap_their_indexes_and_keep_what_sits_on_them(house: House) -> None:
    house.fleet.register_node("sim", node(card(0), card(1)), AGENT)
    house.sit("GPU-0")
    house.fleet.register_node("sim", node(card(0, index=1), card(1, index=0)), AGENT)
    shown = house.fleet.get_device("sim:1", ADMIN)
    assert (shown.uuid, shown.shares) == ("GPU-0", 1)


def test_a_lost_card_gives_its_index_to_the_card_that_took_its_place(house: House) -> None:
    house.fleet.register_node("sim", node(card(0), card(1)), AGENT)
    house.fleet.register_node("sim", node(card(0), card(7, index=1)), AGENT)
    assert house.fleet.get_device("sim:1", ADMIN).uuid == "GPU-7"
    assert house.fleet.get_device("GPU-1", ADMIN).name == "sim:2"


def test_a_card_whose_memory_changed_under_its_shares_is_refused_and_nothing_changes(
    house: House,
) -> None:
    house.fleet.register_node("sim", node(card(0)), AGENT)
    house.sit("GPU-0")
    before = house.rows()
    with pytest.raises(StillInUse, match=r"49152 MiB.*24576 MiB.*1 shares"):
        house.fleet.register_node("sim", node(card(0, memory_bytes=24 * GIB)), AGENT)
    assert house.rows() == before


def test_an_empty_card_may_change_its_memory_and_its_history_says_when(house: House) -> None:
    house.fleet.register_node("sim", node(card(0)), AGENT)
    house.time.forward(3)
    house.fleet.register_node("sim", node(card(0, memory_bytes=24 * GIB)), AGENT)
    assert house.spans("GPU-0") == [("pooled", 0, 3), ("pooled", 3, None)]


def test_a_card_belongs_to_one_node_until_that_node_no_longer_shows_it(house: House) -> None:
    house.fleet.register_node("one", node(card(0)), AGENT)
    with pytest.raises(WriteConflict, match="GPU-0 belongs to another node"):
        house.fleet.register_node("two", node(card(0)), AGENT)
    house.fleet.register_node("one", node(), AGENT)
    house.fleet.register_node("two", node(card(0)), AGENT)
    assert house.fleet.get_device("GPU-0", ADMIN).name == "two:0"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (node(card(0), card(0, index=1)), "uuid 'GPU-0'"),
        (node(card(0), card(1, index=0)), "index 0"),
        (node(card(0), simulated=False), "simulated"),
        (node(card(0, model="L40S\n")), "cannot be printed"),
    ],
)
def test_a_body_that_no_machine_can_be_is_refused(house: House, body: Any, words: str) -> None:
    with pytest.raises(InvalidBody, match=words):
        house.fleet.register_node("sim", body, AGENT)
    assert not house.rows()
