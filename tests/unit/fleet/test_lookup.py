"""Cards and nodes by the names that people and agents use."""

from __future__ import annotations

import pytest

from gpupool.base.errors import (
    BadOption,
    NotFound,
)
from tests.unit.fleet.conftest import ADMIN, AGENT, House, card, node


def test_pages_hold_every_card_once_in_order_of_node_and_index(house: House) -> None:
    for n in range(3):
        cards = [card(n * 10 + i, index=i) for i in range(4)]
        house.fleet.register_node(f"n{n}", node(*cards), AGENT)
    seen: list[str] = []
    after = None
    while True:
        page = house.fleet.list_devices(ADMIN, after=after, limit=5)
        seen += [one.name for one in page.items]
        after = page.next
        if after is None:
            break
    assert seen == [f"n{n}:{i}" for n in range(3) for i in range(4)]
    assert [one.name for one in house.fleet.list_devices(ADMIN, node="n1", limit=2).items] == [
        "n1:0",
        "n1:1",
    ]
    house.fleet.release_devices(["n2:3"], False, ADMIN)
    assert [one.name for one in house.fleet.list_devices(ADMIN, state="observed").items] == ["n2:3"]
    assert house.fleet.list_nodes(limit=2).next == "n1"
    assert [one.name for one in house.fleet.list_nodes(after="n1").items] == ["n2"]
    with pytest.raises(BadOption, match="1000"):
        house.fleet.list_devices(ADMIN, limit=1001)


@pytest.mark.parametrize(
    "text", ["", "x", "sim:", "sim:-1", "sim:99999999999999", "none:0", "sim:0\n", "²", "7"]
)
def test_a_name_that_fits_no_card_is_not_found(house: House, text: str) -> None:
    house.fleet.register_node("sim", node(card(0)), AGENT)
    with pytest.raises(NotFound):
        house.fleet.get_device(text, ADMIN)


def test_a_bare_index_is_ambiguous_in_a_pool_of_several_nodes(house: House) -> None:
    for n in range(2):
        house.fleet.register_node(f"n{n}", node(card(n)), AGENT)
    with pytest.raises(NotFound, match="several nodes"):
        house.fleet.get_device("0", ADMIN)
