"""The rule of a pod says which nodes admit it."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.kubernetes.cache import plan_conflicts
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.kubernetes.resources.pod_constraints import (
    HOSTNAME,
)
from tests.support.kube_builders import gpu_node, pod
from tests.support.zoned_pool import (
    WHOLE,
    ZONE,
    affinity,
    labelled,
    note,
    other,
    placed,
    zoned_pool,
)


@pytest.fixture
def pool() -> ClusterCache:
    return zoned_pool()


def test_a_pod_that_asks_for_those_around_it_waits_until_they_are_known(pool: ClusterCache) -> None:
    pool.predicates.around.forget_pods()
    note(pool, labelled(pod("a", WHOLE, spec=affinity("podAffinity", ZONE, "a")), "a"))
    assert pool.unplaceable == {"uid-a": "the pods around it are being looked up"}
    pool.predicates.around.mark_listed()
    assert len(placed(pool)) == 1
    assert pool.unplaceable == {}


@pytest.mark.parametrize(
    ("counts", "more", "nodes"),
    [
        ({"n0": 1}, {}, {"n2", "n3"}),
        ({"n0": 1, "n2": 1}, {}, {"n0", "n1", "n2", "n3"}),
        ({"n0": 1}, {"maxSkew": 2}, {"n0", "n1", "n2", "n3"}),
        ({"n0": 1, "n2": 1}, {"minDomains": 3}, set()),
    ],
)
def test_spread(
    pool: ClusterCache, counts: dict[str, int], more: dict[str, Any], nodes: set[str]
) -> None:
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **more}
    rule["labelSelector"] = {"matchLabels": {"app": "web"}}
    for name, count in counts.items():
        for n in range(count):
            pool.predicates.around.note_pod(other(f"{name}-{n}", at=name, app="web"), False)
    made = read_pod(labelled(pod("a", WHOLE, spec={"topologySpreadConstraints": [rule]}), "web"))
    assert (
        set(plan_conflicts.admitting_nodes(pool.predicates.rule_of(made), pool)) == set()
    )  # nothing was looked at yet
    pool.refresh_columns()
    assert set(plan_conflicts.admitting_nodes(pool.predicates.rule_of(made), pool)) == nodes


def test_who_was_let_go_counts_before_it_is_bound(pool: ClusterCache) -> None:
    apart = affinity("podAntiAffinity", HOSTNAME, "web")
    note(pool, labelled(pod("a", WHOLE, spec=apart), "web"))
    (where,) = placed(pool)
    entries = [
        {
            "uid": "uid-a",
            "namespace": "default",
            "pod": "a",
            "container": "main",
            "cards": [{"uuid": f"GPU-{where}-0", "gpuMilli": 1000, "memoryBytes": 1}],
            "tenant": "default",
            "state": "reserved",
            "generation": 2,
        }
    ]
    pool.note_ledger(where, GpuNode.from_json(gpu_node(where, version=2, allocations=entries)))
    note(pool, labelled(pod("b", WHOLE, spec=apart), "web"))
    (second,) = placed(pool)
    assert second != where
