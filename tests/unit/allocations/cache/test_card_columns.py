"""Rows of nodes and cards become the scheduler's columns: hosts, levels, links."""

from __future__ import annotations

import sqlalchemy as sa

from gpupool.base.units import GIB
from gpupool.fleet.tables import nodes
from gpupool.scheduling.snapshot.cards import CardTable
from tests.support.house import House

FACTS = {"cpu_count": 8, "memory_bytes": 64 * GIB}


def cards(house: House) -> CardTable:
    house.allocations.placer.load()
    return house.allocations.cache.build_snapshot().cards


def test_without_a_node_that_says_what_it_has_hosts_are_unknown(house: House) -> None:
    assert cards(house).hosts is None


def test_processors_and_memory_come_from_the_nodes_facts_and_a_silent_node_has_none(
    house: House,
) -> None:
    house.register(1, "node-2", facts=FACTS)
    hosts = cards(house).hosts
    assert hosts is not None
    assert (hosts.cpu_milli.tolist(), hosts.free_memory_bytes.tolist()) == (
        [0, 8000],
        [0, 64 * GIB],
    )


def test_what_is_held_of_a_node_is_written_with_the_seats_and_given_back_with_them(
    house: House,
) -> None:
    house.register(2, facts=FACTS)
    house.submit(name="a", cpu_milli=3000, host_bytes=16 * GIB, wait=False)
    used = sa.select(nodes.c.used_cpu_milli, nodes.c.used_host_bytes)
    with house.store.read() as connection:
        assert connection.execute(used).one() == (3000, 16 * GIB)
    hosts = house.allocations.cache.build_snapshot().cards.hosts
    assert hosts is not None
    assert hosts.free_cpu_milli.tolist() == [5000]
    assert (house.work()[0].cpu_milli, house.work()[0].host_bytes) == (3000, 16 * GIB)
    house.finish("a")
    with house.store.read() as connection:
        assert connection.execute(used).one() == (0, 0)
    assert house.allocations.cache.build_snapshot().cards.hosts.free_cpu_milli.tolist() == [8000]  # type: ignore[union-attr]


def test_labels_are_levels_widest_first(house: House) -> None:
    for n in range(4):
        labels = {
            "rack": f"r{n}",
            "block": f"b{n // 2}",
            "gpupool.io/level-room": "one",
            "colour": "blue",
        }
        house.register(1, f"rack-{n}", labels=labels)
    levels = cards(house).levels
    assert [level.name for level in levels] == ["room", "block", "rack"]
    assert levels[1].of_node.tolist() == [-1, 0, 0, 1, 1]
    assert levels[1].domains == ("b0", "b1")
