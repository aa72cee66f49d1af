"""Nodes of a cluster: told by one meter, counted with what is held, and never placed on."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.errors import InvalidBody, WriteConflict
from gpupool.base.units import MIB
from gpupool.fleet.clusters import (
    UNKNOWN_MODEL,
    cluster_nodes,
    end_cluster_node,
    ensure_cards,
    extend_spans,
    find_gaps,
    known_node,
    write_cluster_node,
    write_held,
)
from gpupool.wire.cluster import ClusterCard, ClusterNodeIn
from tests.unit.fleet.conftest import AGENT, GIB, House, card, node


def cluster_card(number: int, **changes: Any) -> ClusterCard:
    facts = {
        "uuid": f"GPU-{number}",
        "index": number,
        "model": "L40S",
        "memory_bytes": 48 * GIB,
        "health": "ok",
    }
    return ClusterCard(**{**facts, **changes})


def tell(house: House, *cards: ClusterCard, teller: str = "meter", **changes: Any) -> Any:
    body = ClusterNodeIn(**{"born_ns": 1, "generation": 5, "cards": list(cards), **changes})
    with house.store.write() as write:
        known = known_node(write, "worker", teller)
        return write_cluster_node(write, "worker", body, teller, known)


def test_a_node_of_a_cluster_is_adopted_while_the_cluster_manages_it(house: House) -> None:
    tell(house, cluster_card(0), cluster_card(1))
    assert {row.state for row in house.rows().values()} == {"adopted"}
    house.time.forward(10)
    tell(house, cluster_card(0), cluster_card(1), managed=False)
    assert {row.state for row in house.rows().values()} == {"observed"}
    assert house.spans("GPU-0") == [("pooled", 0, 10), ("unmanaged", 10, None)]


def test_a_node_is_told_by_one_meter_and_never_by_a_cluster_and_an_agent(house: House) -> None:
    house.fleet.register_node("own", node(card(7)), AGENT)
    tell(house, cluster_card(0))
    with house.store.write() as write:
        with pytest.raises(WriteConflict, match="node own is this pool's own"):
            known_node(write, "own", "meter")
        with pytest.raises(WriteConflict, match="node worker is told by meter"):
            known_node(write, "worker", "other")
        assert known_node(write, "new", "meter") is None


def test_a_node_that_ended_holds_nothing_and_may_be_told_by_another(house: House) -> None:
    row = tell(house, cluster_card(0))
    keys = {name: found.id for name, found in house.rows().items()}
    with house.store.write() as write:
        write_held(write, row.id, [(keys["GPU-0"], 500, GIB)])
        end_cluster_node(write, row)
        assert cluster_nodes(write.connection, "meter") == []
    lost = house.rows()["GPU-0"]
    assert (lost.state, lost.used_milli, lost.shares) == ("lost", 0, 0)
    assert tell(house, cluster_card(0), teller="other").agent == "other"


def test_cards_of_both_kinds_on_one_node_are_refused(house: House) -> None:
    with pytest.raises(InvalidBody, match="one of its cards says otherwise"):
        tell(house, cluster_card(0), cluster_card(1, simulated=True))


def test_what_a_cluster_overcommits_counts_up_to_the_whole_card(house: House) -> None:
    row = tell(house, cluster_card(0))
    key = house.rows()["GPU-0"].id
    with house.store.write() as write:
        write_held(write, row.id, [(key, 700, 40 * GIB), (key, 700, 40 * GIB)])
    held = house.rows()["GPU-0"]
    assert (held.used_milli, held.used_bytes, held.shares) == (1000, 48 * GIB, 2)


def test_a_card_that_was_never_shown_is_noted_as_lost_behind_the_others(house: House) -> None:
    row = tell(house, cluster_card(0), cluster_card(3))
    with house.store.write() as write:
        keys = ensure_cards(write, row.id, {"GPU-0": GIB, "GPU-x": 2 * GIB, "GPU-y": 0})
        assert ensure_cards(write, row.id, {"GPU-x": GIB}) == keys
    rows = house.rows()
    assert [rows[name].idx for name in ("GPU-0", "GPU-3", "GPU-x", "GPU-y")] == [0, 3, 4, 5]
    assert (rows["GPU-x"].state, rows["GPU-x"].model) == ("lost", UNKNOWN_MODEL)
    assert [rows[name].memory_bytes for name in ("GPU-x", "GPU-y")] == [2 * GIB, MIB]


def test_a_cards_history_covers_the_time_in_which_it_was_held(house: House) -> None:
    house.time.forward(100)
    row = tell(house, cluster_card(0))
    began = row.last_seen_ns // 10**9
    with house.store.write() as write:
        key = house.rows_in(write, "GPU-0")
        extend_spans(write, key, 1024, began - 20, began + 5)
        (never,) = [ensure_cards(write, row.id, {"GPU-x": GIB})["GPU-x"]]
        extend_spans(write, never, 4096, began - 20, began - 10)
    assert house.spans("GPU-0") == [("pooled", 80, None)]
    assert house.spans("GPU-x") == [("overhead", 80, 90)]
    assert house.rows()["GPU-x"].memory_bytes == 4 * GIB, "it is as large as what was held of it"


def test_find_gaps_gives_what_no_span_covers() -> None:
    assert list(find_gaps([], 5, 9)) == [(5, 9)]
    assert list(find_gaps([(0, 10), (20, 30)], 5, 50)) == [(10, 20), (30, 50)]
    assert list(find_gaps([(0, None)], 5, 50)) == []
    assert list(find_gaps([(60, 70)], 5, 50)) == [(5, 50)]
