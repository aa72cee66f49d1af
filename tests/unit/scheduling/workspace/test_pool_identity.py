"""Which changes of a pool the planning state can follow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.units import GIB
from gpupool.scheduling.snapshot.cards import CardStatus, CardTable, PartitionLayout
from gpupool.scheduling.workspace.pool_identity import is_same_pool
from tests.support.gang_builders import racked
from tests.support.partition_builders import pool as cut_pool
from tests.support.scheduling_builders import cards

HOSTS = 8000, 64 * GIB
POOL = cards("2x2xT4", hosts=HOSTS, numa=2)


def test_a_pool_whose_free_amounts_changed_is_the_same() -> None:
    busy = cards("2x2xT4", hosts=HOSTS, numa=2, used={"node-1/0": (500, GIB)})
    assert is_same_pool(POOL, busy)
    assert is_same_pool(POOL, replace(POOL, generation=POOL.generation + 1))


@pytest.mark.parametrize(
    "other",
    [
        cards("2x2xL40S", hosts=HOSTS, numa=2),
        cards("2x2xT4", hosts=HOSTS, numa=2, status={"node-1/0": CardStatus.DRAINING}),
        cards("2x2xT4", hosts=HOSTS, numa=2, labels={"node-1": {"zone": "a"}}),
        cards("2x2xT4", hosts=(9000, 64 * GIB), numa=2),
        cards("2x2xT4", hosts=HOSTS, numa=1),
        cards("2x2xT4", hosts=HOSTS),
        cards("2x2xT4"),
    ],
    ids=["model", "status", "labels", "processors", "numa", "unknown numa", "unknown hosts"],
)
def test_a_pool_with_other_cards_or_hosts_is_another(other: CardTable) -> None:
    assert not is_same_pool(POOL, other)


def test_a_node_in_another_rack_makes_another_pool() -> None:
    pool = racked("2x1xT4", rack=(0, 1))
    assert is_same_pool(pool, racked("2x1xT4", rack=(0, 1)))
    assert not is_same_pool(pool, racked("2x1xT4", rack=(0, 0)))


def test_slots_in_use_may_differ_and_profiles_may_not() -> None:
    empty = cut_pool("1xH200:mig")
    taken = cut_pool("1xH200:mig", {"sim-0:0": [(0, "1g.18gb")]})
    assert is_same_pool(empty, taken)
    assert not is_same_pool(empty, replace(empty, layouts={0: PartitionLayout(())}))
