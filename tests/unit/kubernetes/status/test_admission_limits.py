"""What the API server may judge by itself is never more than admission would take."""

from __future__ import annotations

from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.manifests.crds import pool_settings
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.tenant import TenantSpec, TenantTree, build_tree
from gpupool.kubernetes.status.admission_limits import compute_limits
from tests.support.cluster_caches import note_mig_node
from tests.support.kube_builders import L40S_BYTES, cards, gpu_node
from tests.unit.kubernetes.resources.test_gpu_node import check


def node(name: str, count: int, mode: str = "slot") -> GpuNode:
    found = gpu_node(name, count)
    return GpuNode.from_json({**found, "spec": {**found["spec"], "mode": mode}})


def mixed() -> GpuNode:
    """Two cards of 48 GiB and one of 80."""
    found = gpu_node("mixed", 2)
    other = {**cards("mixed", 1, "A100", 80 * GIB)[0], "uuid": "GPU-other"}
    found["status"]["cards"].append(other)
    return GpuNode.from_json(found)


def test_so_many_cards_of_one_model_on_one_node() -> None:
    found = compute_limits([node("a", 4), node("b", 2), mixed()], TenantTree())["cards"]
    sizes = {1: 80 * GIB, 2: L40S_BYTES, 3: L40S_BYTES, 4: L40S_BYTES}
    assert {one["count"]: one["memoryBytes"] for one in found} == sizes


def test_nodes_that_give_no_shares_say_nothing() -> None:
    nodes = [node("a", 8, "observe"), node("b", 8, "whole")]
    assert compute_limits(nodes, TenantTree())["cards"] == []


def test_cards_in_partition_mode_take_no_plain_pods() -> None:
    pool = ClusterCache()
    note_mig_node(pool, "n0", 2)
    assert compute_limits(pool.ledgers.values(), TenantTree())["cards"] == []


def test_a_namespace_has_the_maximum_of_its_tenant() -> None:
    limits = {"gpu": {"nominal": "2", "borrowing": "1"}, "memory": {"nominal": "8Gi"}}
    wishes = {
        "nlp": TenantSpec.from_json({"namespaces": ["nlp-a", "free"], "limits": limits}),
        "free": TenantSpec.from_json({"limits": {"gpu": {"nominal": "1", "borrowing": "0"}}}),
        "cells": TenantSpec.from_json({"limits": {"node": {"nominal": "1"}}}),
        "all": TenantSpec.from_json({}),
    }
    found = compute_limits([], build_tree(wishes))
    assert found["limits"] == {
        "cells": {"others": True},
        "free": {"gpuMilli": 3000},
        "nlp": {"gpuMilli": 3000},
        "nlp-a": {"gpuMilli": 3000},
    }
    schema = pool_settings()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][
        "status"
    ]
    check(found, schema["properties"]["admits"])


def test_a_namespace_has_the_least_maximum_of_all_tenants_above_it() -> None:
    wishes = {
        "top": TenantSpec.from_json({"limits": _gpu("4")}),
        "nlp": TenantSpec.from_json({"parent": "top", "limits": _gpu("2")}),
        "a": TenantSpec.from_json({"parent": "nlp", "namespaces": ["a1"]}),
        "b": TenantSpec.from_json({"parent": "nlp", "limits": _gpu("1")}),
        "cells": TenantSpec.from_json({"limits": {"node": {"nominal": "1"}}}),
        "c": TenantSpec.from_json({"parent": "cells"}),
    }
    found = compute_limits([], build_tree(wishes))["limits"]
    assert {space: found[space] for space in ("a1", "b", "nlp", "top", "c")} == {
        "a1": {"gpuMilli": 2000},
        "b": {"gpuMilli": 1000},
        "nlp": {"gpuMilli": 2000},
        "top": {"gpuMilli": 4000},
        "c": {"others": True},
    }


def test_a_limit_beyond_64_bits_limits_nothing() -> None:
    wishes = {"a": TenantSpec.from_json({"limits": _gpu("1e90")})}
    assert compute_limits([], build_tree(wishes))["limits"] == {}


def _gpu(nominal: str) -> dict[str, dict[str, str]]:
    return {"gpu": {"nominal": nominal, "borrowing": "0"}}


def test_limits_too_many_for_the_object_leave_every_pod_to_the_webhook() -> None:
    wish = TenantSpec.from_json({"limits": {"gpu": {"nominal": "2", "borrowing": "0"}}})
    few = build_tree({f"team-{number:05}": wish for number in range(1000)})
    assert len(compute_limits([node("a", 4)], few)["limits"]) == 1000
    many = build_tree({f"team-{number:05}": wish for number in range(20_000)})
    assert compute_limits([node("a", 4)], many) == {"cards": [], "limits": {}}
