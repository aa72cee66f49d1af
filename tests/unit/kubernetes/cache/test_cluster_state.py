"""What pods use of a node is counted, whether bound or only in its ledger."""

from __future__ import annotations

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from tests.support.cluster_caches import hold, note, note_node, plan, two_node_pool
from tests.support.kube_builders import pod


@pytest.fixture
def pool() -> ClusterCache:
    return two_node_pool()


def test_a_pod_with_an_entry_waits_no_more_and_counts_on_its_node(pool: ClusterCache) -> None:
    asks = pod(spec={"nodeSelector": {}})
    asks["spec"]["containers"][0]["resources"]["limits"]["cpu"] = "4"
    note(pool, asks)
    assert len(pool.queue) == 1
    hold(pool, "n0", "uid-a", 300, 8 * GIB)
    assert len(pool.queue) == 0
    hosts = pool.take_snapshot().cards.hosts
    assert hosts is not None
    assert hosts.free_cpu_milli.tolist() == [60_000, 64_000]
    pool.note_pod("uid-a", None)
    hosts = pool.take_snapshot().cards.hosts
    assert hosts is not None
    assert hosts.free_cpu_milli.tolist() == [64_000, 64_000]


def test_processors_are_placed_together_with_cards(pool: ClusterCache) -> None:
    asks = [pod(name, spec={}) for name in "abc"]
    for each in asks:
        each["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "60"}
    note(pool, *asks)
    found = plan(pool)
    assert len(found.placements) == 2
    assert {one.node for one in found.placements} == {"n0", "n1"}


def test_a_node_without_room_for_another_pod_takes_none() -> None:
    pool = ClusterCache()
    note_node(pool, "n0", pods="0")
    note(pool, pod())
    assert not plan(pool).placements
