"""Columns of cards and hosts: corrected by updates, of which an older one changes nothing."""

from __future__ import annotations

import pytest

from gpupool.allocations.cache.card_columns import read_card_rows
from gpupool.allocations.cache.live_cards import LiveCards
from gpupool.allocations.ledger.cache_updates import CardUpdate, HostUpdate
from gpupool.base.units import GIB
from gpupool.fleet.tables import devices
from gpupool.model.numa import NumaNode, NumaPart
from tests.support.house import House

CARD = "GPU-node-2-0"
NUMA = (NumaNode(0, (0, 1, 2, 3), 16 * GIB),)


@pytest.fixture
def live(house: House) -> LiveCards:
    """Two cards of a silent node, and one of a node that tells its processors and memory."""
    house.register(1, "node-2", numa=NUMA)
    found = LiveCards()
    with house.store.read() as connection:
        found.load_rows(read_card_rows(connection))
    return found


def test_a_card_update_counts_only_with_a_newer_generation(live: LiveCards) -> None:
    row = live.index[CARD]
    read = int(live.copy_columns().generation[row])
    live.record_cards([CardUpdate(CARD, 300, 8 * GIB, read + 1), CardUpdate("GPU-new", 1, 1, 9)])
    live.record_cards([CardUpdate(CARD, 900, 99 * GIB, read + 1), CardUpdate(CARD, 0, 0, read)])
    now = live.copy_columns()
    assert (now.free_milli[row], now.free_bytes[row] // GIB) == (700, 132)
    assert now.generation[row] == read + 1


def test_a_host_update_counts_only_with_a_newer_generation(live: LiveCards) -> None:
    columns = live.copy_columns()
    assert columns.hosts is not None
    at = columns.nodes.index("node-2")
    read = live._node_generation["node-2"]
    part = (NumaPart(0, 3000, 4 * GIB),)
    live.record_hosts([HostUpdate("node-2", 3000, 4 * GIB, read + 1, part)])
    live.record_hosts([HostUpdate("node-2", 0, 0, read), HostUpdate("node-9", 1, 1, 9)])
    hosts = live.copy_columns().hosts
    assert hosts is not None
    assert hosts.numa is not None
    assert (hosts.free_cpu_milli[at], hosts.free_memory_bytes[at] // GIB) == (1000, 12)
    assert hosts.numa.free_cpu_milli.tolist() == [1000]


def test_a_copy_of_the_columns_is_not_changed_by_later_updates(live: LiveCards) -> None:
    row = live.index[CARD]
    before = live.copy_columns()
    live.record_cards([CardUpdate(CARD, 1000, 140 * GIB, int(before.generation[row]) + 1)])
    live.record_hosts([HostUpdate("node-2", 4000, 16 * GIB, 99, (NumaPart(0, 4000, 16 * GIB),))])
    assert (before.free_milli[row], before.hosts is not None) == (1000, True)
    assert before.hosts is not None
    assert before.hosts.free_cpu_milli[before.nodes.index("node-2")] == 4000
    assert live.copy_columns().free_milli[row] == 0


def test_cards_that_are_not_well_are_found_by_row(house: House) -> None:
    with house.store.write() as write:
        bad = devices.c.uuid == "GPU-node-1-1"
        write.execute(devices.update().where(bad).values(health="failed"))
    live = LiveCards()
    assert live.find_unhealthy() == set(), "nothing is known before the first reading"
    with house.store.read() as connection:
        live.load_rows(read_card_rows(connection))
    assert live.find_unhealthy() == {live.index["GPU-node-1-1"]}


def test_columns_that_were_never_read_cannot_be_copied() -> None:
    with pytest.raises(RuntimeError, match="never loaded"):
        LiveCards().copy_columns()
