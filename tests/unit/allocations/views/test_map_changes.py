"""What a console is sent that has an earlier map, and how few bytes that is."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from gpupool.allocations.views.map_changes import MapHistory
from gpupool.wire.views.pool_map import MapCards, MapNodes, MapOut

#: Of a large pool, eight a node, with two shares each.
CARDS = 10_000
#: A map of such a pool takes a hundred times as many.
MOST_BYTES = 1000


def make_map(size: int = 6, seq: int = 7, **columns: Any) -> MapOut:
    """Two shares on each card, of tenants a and b."""
    shares = list[int]()
    for card in range(size):
        shares += [card, 0, 100 + card * 37 % 400, card, 1, 200]
    nodes = [f"node-{number}" for number in range(-(-size // 8))]
    usual: dict[str, Any] = {
        "id": [card + 1 for card in range(size)],
        "node": [card // 8 for card in range(size)],
        "index": [card % 8 for card in range(size)],
        "model": [0] * size,
        "state": ["adopted"] * size,
        "health": ["ok"] * size,
        "mechanism": ["timeslice"] * size,
        "held_milli": [300 + card * 37 % 400 for card in range(size)],
        "used_milli": [card * 31 % 900 for card in range(size)],
        "memory_bytes": [80 << 30] * size,
        "held_bytes": [(1 + card * 13 % 60) << 30 for card in range(size)],
        "largest_milli": [200] * size,
    }
    empty = [None] * len(nodes)
    return MapOut(
        seq=seq,
        simulated=True,
        nodes=MapNodes(name=nodes, rack=list(empty), domain=list(empty)),
        cards=MapCards(**{**usual, **columns}),
        models=["H200"],
        tenants=["a", "b"],
        shares=shares,
        share_mib=[1024, 2048] * size,
    )


def change(found: MapOut, card: int, **values: Any) -> MapOut:
    """The map with other values of a card."""
    columns = found.cards.model_dump()
    for name, value in values.items():
        columns[name][card] = value
    return found.model_copy(update={"cards": MapCards(**columns), "seq": found.seq + 1})


@pytest.fixture
def history() -> MapHistory:
    return MapHistory("m-1")


def test_only_the_cards_that_differ_are_sent_with_all_of_their_shares(history: MapHistory) -> None:
    first = history.note(make_map())
    second = history.note(change(first, 4, used_milli=None, health="warning"))
    found = history.list_changes(first.cursor)
    assert found is not None
    assert (found.seq, found.cursor, found.changed) == (8, second.cursor, [4])
    assert (found.rows.used_milli, found.rows.health) == ([None], ["warning"])
    assert found.rows.held_milli == [first.cards.held_milli[4]]
    assert found.shares == [4, 0, 248, 4, 1, 200]
    assert found.share_mib == [1024, 2048]


def test_an_answer_of_any_age_is_continued_to_the_same_map(history: MapHistory) -> None:
    maps = [history.note(make_map())]
    for card, used in ((1, 5), (3, 6), (1, 7)):
        maps.append(history.note(change(maps[-1], card, used_milli=used)))
    changed = []
    for one in maps:
        found = history.list_changes(one.cursor)
        assert found is not None
        changed.append(found.changed)
        columns = list(one.cards.used_milli)
        for card, used in zip(found.changed, found.rows.used_milli, strict=True):
            columns[card] = used
        assert columns == maps[-1].cards.used_milli
    assert changed == [[1, 3], [1, 3], [1], []]


def test_the_same_map_keeps_its_cursor(history: MapHistory) -> None:
    first = history.note(make_map())
    again = history.note(make_map(seq=9))
    assert (again.cursor, again.seq) == (first.cursor, 9)
    found = history.list_changes(first.cursor)
    assert found is not None
    assert found.changed == []


def test_a_share_of_another_tenant_is_a_change_and_a_moved_position_is_none(
    history: MapHistory,
) -> None:
    first = history.note(make_map())
    shares = list(first.shares)
    for number in range(0, len(shares), 3):
        shares[number + 1] += 1
    # Tenant 0 has its first share, on card 2, in the place of one of tenant a.
    shares[13] = 0
    shares[12] = 2
    moved = first.model_copy(update={"tenants": ["0", "a", "b"], "shares": shares})
    second = history.note(moved)
    found = history.list_changes(first.cursor)
    assert found is not None
    assert found.changed == [2]
    assert found.tenants == ["0", "a", "b"]
    assert second.cursor != first.cursor


@pytest.mark.parametrize("size", [5, 7])
def test_another_number_of_cards_is_sent_whole(history: MapHistory, size: int) -> None:
    first = history.note(make_map())
    second = history.note(make_map(size))
    assert history.list_changes(first.cursor) is None
    assert history.list_changes(second.cursor) is not None


def test_a_card_in_the_place_of_another_is_sent_whole(history: MapHistory) -> None:
    first = history.note(make_map())
    history.note(change(first, 0, id=99))
    assert history.list_changes(first.cursor) is None


@pytest.mark.parametrize(
    "cursor", ["", "m-1", "m-1.", "m-1.0", "m-1.2", "m-1.-1", "m-1.x", "m-1.\u0661", "m-2.1"]
)
def test_a_cursor_of_no_answer_of_this_history_is_not_continued(
    history: MapHistory, cursor: str
) -> None:
    assert history.list_changes(cursor) is None
    assert history.note(make_map()).cursor == "m-1.1"
    assert history.list_changes(cursor) is None


def test_a_change_of_a_large_pool_takes_few_bytes(history: MapHistory) -> None:
    first = history.note(make_map(CARDS))
    # What a second of a busy pool changes.
    used = list(first.cards.used_milli)
    used[0:5000:1000] = [999] * 5
    cards = first.cards.model_copy(update={"used_milli": used})
    history.note(first.model_copy(update={"cards": cards}))
    found = history.list_changes(first.cursor)
    assert found is not None
    whole = gzip.compress(first.model_dump_json().encode(), 4, mtime=0)
    sent = found.model_dump_json().encode()
    assert len(found.changed) == 5
    assert len(sent) <= MOST_BYTES
    assert len(whole) > 100 * MOST_BYTES, "the map itself is small: this test shows nothing"
    assert json.loads(sent)["changed"] == [0, 1000, 2000, 3000, 4000]
