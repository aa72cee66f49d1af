"""A snapshot is a frozen copy of the cluster for one cycle."""

from __future__ import annotations

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from tests.support.cluster_caches import hold, note, two_node_pool
from tests.support.kube_builders import pod


@pytest.fixture
def pool() -> ClusterCache:
    return two_node_pool()


def test_what_a_ledger_holds_is_not_free(pool: ClusterCache) -> None:
    hold(pool, "n0", "x", 800, 40 * GIB)
    cards = pool.take_snapshot().cards
    row = cards.uuids.index("GPU-n0-0")
    assert (cards.free_milli[row], cards.free_bytes[row], cards.generation[row]) == (
        200,
        8 * GIB,
        2,
    )


def test_the_oldest_of_a_class_come_first(pool: ClusterCache) -> None:
    later, sooner = pod("a"), pod("b")
    later["metadata"]["creationTimestamp"] = "2026-11-22T00:00:09Z"
    note(pool, later, sooner)
    (waiting,) = pool.take_snapshot().waiting
    assert waiting.job_ids == ("uid-b/main", "uid-a/main")
