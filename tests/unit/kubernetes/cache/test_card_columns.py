"""Columns of nodes and cards follow every change."""

from __future__ import annotations

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from tests.support.cluster_caches import hold, note, note_node, two_node_pool
from tests.support.kube_builders import pod


@pytest.fixture
def pool() -> ClusterCache:
    return two_node_pool()


def test_nodes_and_pods_that_vanish_are_forgotten(pool: ClusterCache) -> None:
    note(pool, pod())
    pool.note_pod("uid-a", None)
    pool.note_host("n0", None)
    assert pool.take_snapshot().cards.nodes == ("n1",)
    assert pool.take_snapshot().waiting == ()


def test_what_stands_in_a_ledger_runs_and_says_what_it_holds(pool: ClusterCache) -> None:
    running = pod(spec={"nodeName": "n1", "schedulingGates": [], "activeDeadlineSeconds": 60})
    running["status"] = {"startTime": "2026-11-22T00:00:10Z"}
    note(pool, running)
    hold(pool, "n1", "uid-a", 300, 8 * GIB)
    (job,) = pool.take_snapshot().running
    assert (job.job, job.rows, job.milli, job.sizes) == ("uid-a/main", (4,), (300,), (8 * GIB,))
    assert job.ends_ns is not None
    assert job.ends_ns - job.started_ns == 60 * 10**9
    note_node(pool, "m0")
    (job,) = pool.take_snapshot().running
    assert pool.take_snapshot().cards.uuids[job.rows[0]] == "GPU-n1-0"
