"""Who is asked to leave, and who was told to and need not: by what stands in the ledger, and as the
pod is now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.eviction import eviction_api
from gpupool.kubernetes.resources.gpu_node import Entry, GpuNode
from gpupool.kubernetes.resources.node import NodeFacts
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.model.allocation import Seat
from tests.support.kube_builders import gpu_node, node, pod

HELD = Entry("uid-old", "default", "old", "main", (Seat("GPU-n0-0", 300, 8 * GIB),), "default")
OLD = read_pod(pod("old", spec={"schedulingGates": [], "nodeName": "n0"}))
FOR_NEW = replace(HELD, leaving_for="uid-new/main", leaving_at=OLD.version)
WANTED = {"uid-old/main": "uid-new/main"}


@pytest.fixture
def pool() -> ClusterCache:
    made = ClusterCache()
    made.note_host("n0", NodeFacts.from_json(node("n0")))
    made.note_pod("uid-old", OLD)
    made.note_pod("uid-new", read_pod(pod("new")))
    return made


def holds(pool: ClusterCache, *entries: Entry) -> None:
    pool.note_ledger("n0", replace(GpuNode.from_json(gpu_node("n0")), entries=entries))


def asked(pool: ClusterCache) -> list[str]:
    return [one.name for one in eviction_api.pods_to_evict(pool, WANTED)]


def test_nobody_is_asked_before_a_ledger_says_so(pool: ClusterCache) -> None:
    holds(pool, HELD)
    assert asked(pool) == []
    holds(pool, FOR_NEW)
    assert asked(pool) == ["old"]


def test_who_is_not_as_it_was_when_it_was_told_is_told_anew_first(pool: ClusterCache) -> None:
    holds(pool, FOR_NEW)
    pool.note_pod("uid-old", replace(OLD, version="2"))
    assert asked(pool) == []
    holds(pool, replace(FOR_NEW, leaving_at="2"))
    assert asked(pool) == ["old"]


def test_who_was_asked_and_goes_is_left_alone(pool: ClusterCache) -> None:
    holds(pool, FOR_NEW)
    for more in ({"deleting": True}, {"ended": True}):
        pool.note_pod("uid-old", replace(OLD, **more))
        assert asked(pool) == eviction_api.pods_to_spare(pool, ()) == []


def test_an_order_for_whom_nobody_waits_is_taken_back(pool: ClusterCache) -> None:
    holds(pool, FOR_NEW)
    assert eviction_api.pods_to_spare(pool, pool.pending_evictions()) == []
    pool.note_pod("uid-new", None)
    assert asked(pool) == []
    assert [one.name for one in eviction_api.pods_to_spare(pool, pool.pending_evictions())] == [
        "old"
    ]


def test_a_pod_whose_card_failed_leaves_for_nobody(pool: ClusterCache) -> None:
    holds(pool, replace(HELD, leaving_at=OLD.version))
    assert [one.name for one in eviction_api.pods_to_evict(pool, {"uid-old/main": ""})] == ["old"]
    assert [one.name for one in eviction_api.pods_to_spare(pool, {})] == ["old"]
