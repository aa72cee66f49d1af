"""The measuring loop measures what it says, on few pods."""

import asyncio

import pytest

from bench.kubernetes.binds import RESOURCE, measure
from tests.support.cluster.api import Api
from tests.support.cluster.cluster import Cluster

PODS = 20


@pytest.mark.parametrize("preloaded", [True, False])
def test_every_pod_is_bound_and_none_is_left(cluster: Cluster, admin: Api, preloaded: bool) -> None:
    nodes = cluster.simulate_nodes(2, {RESOURCE: str(PODS)}, prefix="bench")
    figures = asyncio.run(measure(cluster, len(nodes), PODS, preloaded=preloaded))
    assert (figures.nodes, figures.pods, figures.preloaded) == (2, PODS, preloaded)
    assert 1 <= figures.nodes_used <= 2
    assert 0 < figures.wait_p50_ms <= figures.wait_p99_ms
    assert figures.bound_per_second > 0
    assert set(figures.cpu_seconds) >= {"etcd", "kube-apiserver", "kube-scheduler"}
    assert admin.get("/api/v1/namespaces/default/pods")["items"] == []
    for node in nodes:
        admin.delete(f"/api/v1/nodes/{node}")
