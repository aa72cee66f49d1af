"""What `kubectl describe` shows of pods and nodes, and budgets that let nobody go: told, waited
for, gone on from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.resources import names
from tests.support.cluster.api import Api, Object
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster_pool import ClusterPool, fresh
from tests.support.kube_builders import asking, pod

WHOLE = {"main": asking(1, 1000, None)}
NODE = "told-00000"


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("told")) as made:
        made.adopt(cluster.simulate_nodes(1, prefix="told"), 1)
        for name, value in (("gpupool-low", -10), ("gpupool-high", 10)):
            kind = {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
            }
            made.admin.apply(
                f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}", {**kind, "value": value}
            )
        made.start()
        yield made


@pytest.fixture(autouse=True)
def _nothing_is_left(pool: ClusterPool, pods_path: str) -> Iterator[None]:
    yield
    pool.clear(pods_path)


def create(admin: Api, pods_path: str, name: str, priority: str = "", **more: Any) -> Object:
    spec = {"priorityClassName": priority, "terminationGracePeriodSeconds": 0} if priority else {}
    made = fresh(pod(name, WHOLE, namespace=space(pods_path), spec=spec, **more))
    made["metadata"]["labels"]["app"] = name
    return admin.create(pods_path, made)


def space(pods_path: str) -> str:
    return pods_path.split("/")[4]


def events(admin: Api, namespace: str, name: str) -> list[Object]:
    """As `kubectl describe` asks for them."""
    found = admin.get(
        f"/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.name%3D{name}"
    )["items"]
    return [one for one in found if one.get("reportingComponent", "").startswith("gpupool.dev/")]


def told(pool: ClusterPool, namespace: str, name: str, reason: str) -> Object:
    def found() -> Object | None:
        return next(
            (one for one in events(pool.admin, namespace, name) if one["reason"] == reason), None
        )

    event: Object = pool.until(found, f"{reason} is told of {name}")
    return event


def message(found: Object) -> str:
    (one,) = [c for c in found["status"].get("conditions", ()) if c["type"] == "PodScheduled"]
    return str(one.get("message", ""))


def test_a_direct_pod_is_told_its_cards_and_a_gated_one_has_them_in_its_annotation(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    uid = create(admin, pods_path, "direct", direct=True)["metadata"]["uid"]
    placed = told(pool, space(pods_path), "direct", "Placed")
    assert f"{NODE}: main: GPU-{NODE}-0" in placed["message"]
    assert (placed["involvedObject"]["uid"], placed["type"]) == (uid, "Normal")
    pool.clear(pods_path)
    create(admin, pods_path, "gated")
    bound = admin.until(f"{pods_path}/gated", is_bound)
    assert f"{NODE}: main: GPU-{NODE}-0" in bound["metadata"]["annotations"][names.PLACED]
    assert events(admin, space(pods_path), "gated") == []


def test_waiting_is_told_and_no_second_time_by_another_leader(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    create(admin, pods_path, "one")
    admin.until(f"{pods_path}/one", is_bound)
    create(admin, pods_path, "two")
    waiting = told(pool, space(pods_path), "two", "Waiting")
    assert "whole card" in waiting["message"]
    pool.kill()
    pool.start()
    create(admin, pods_path, "three")
    told(pool, space(pods_path), "three", "Waiting")
    assert [one["reason"] for one in events(admin, space(pods_path), "two")] == ["Waiting"]


def test_a_node_that_is_let_go_and_taken_in_and_a_card_that_is_lost_and_back(
    pool: ClusterPool, admin: Api
) -> None:
    path = f"{ledger.NODES}/{NODE}"
    cards = admin.get(path)["status"]["cards"]
    ill = [{**cards[0], "health": "failed", "healthReason": "Xid 79"}]
    for _ in range(2):
        admin.merge(f"{path}/status", {"status": {"cards": ill}})
        lost = told(pool, "default", NODE, "CardLost")
        assert "Xid 79" in lost["message"]
        assert lost["type"] == "Warning"
        admin.merge(f"{path}/status", {"status": {"cards": cards}})
        told(pool, "default", NODE, "CardBack")
    count = lambda: told(pool, "default", NODE, "CardLost").get("series", {}).get("count")  # noqa: E731
    pool.until(lambda: count() == 2, "the second time counts up on the first")
    admin.merge(path, {"spec": {"mode": "observe"}})
    told(pool, "default", NODE, "Released")
    admin.merge(path, {"spec": {"mode": "slot"}})
    assert "1 cards, in mode slot" in told(pool, "default", NODE, "Adopted")["message"]


def test_a_budget_that_lets_nobody_go_is_named_and_the_pod_goes_when_it_allows(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    budgets = f"/apis/policy/v1/namespaces/{space(pods_path)}/poddisruptionbudgets"
    create(admin, pods_path, "low", "gpupool-low", preemptible=True)
    admin.until(f"{pods_path}/low", is_bound)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "low"}}}
    admin.create(
        budgets,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "keep"},
            "spec": spec,
        },
    )
    admin.until(f"{budgets}/keep", lambda one: one.get("status", {}).get("expectedPods") == 1)
    running = [{"type": "Ready", "status": "True"}]
    admin.merge(f"{pods_path}/low/status", {"status": {"phase": "Running", "conditions": running}})
    admin.until(f"{budgets}/keep", lambda one: one["status"].get("currentHealthy") == 1)
    create(admin, pods_path, "high", "gpupool-high")
    found = admin.until(f"{pods_path}/high", lambda one: "disruption budget" in message(one), 150)
    assert f"{space(pods_path)}/low is to leave for it" in message(found)
    assert "The disruption budget keep needs 1 healthy pods" in message(found)
    refused = told(pool, space(pods_path), "low", "EvictionRefused")
    assert f"leave for {space(pods_path)}/high" in refused["message"]
    admin.merge(f"{budgets}/keep", {"spec": {"minAvailable": 0}})
    admin.until(f"{pods_path}/high", is_bound)
    assert "precedence" in told(pool, space(pods_path), "low", "Preempted")["message"]
