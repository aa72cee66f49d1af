"""Released pods that no node takes, since another took its processors in between: told, replaced,
and inherited."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.kubernetes.eviction.pod_recreation import NOT_BOUND
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.resources import names
from tests.support.cluster.api import Api, Object
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster_pool import ClusterPool, fresh
from tests.support.kube_builders import asking, gang, pod

WHOLE = {"main": asking(1, 1000, None)}
FULL = "999500m"
SETS = "/apis/apps/v1/namespaces"


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("stuck")) as made:
        made.adopt(cluster.simulate_nodes(2, prefix="stuck"), 1)
        made.start(replaceSeconds=2)
        yield made


@pytest.fixture(autouse=True)
def _nothing_is_left(pool: ClusterPool, pods_path: str) -> Iterator[None]:
    yield
    assert pool.running, pool.log()
    pool.admin.delete(f"{SETS}/{space(pods_path)}/replicasets")
    pool.admin.delete(f"{pods_path}?gracePeriodSeconds=0")
    for name in pool.agents.names:
        pool.admin.merge(f"{ledger.NODES}/{name}/status", {"status": {"others": None}})
    pool.until(lambda: not any(pool.entries().values()), "every ledger empty")


def space(pods_path: str) -> str:
    return pods_path.split("/")[4]


def asks(pods_path: str, name: str, **hints: Any) -> Object:
    """A pod of one card and two processors, as admission leaves it."""
    made = fresh(pod(name, WHOLE, namespace=space(pods_path), **hints))
    made["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2"}
    return made


def fill(admin: Api, pods_path: str, node: str) -> None:
    """Another's pod takes the node's processors, past the scheduler."""
    container = {
        "name": "main",
        "image": "gpupool.test/busybox:1",
        "resources": {"requests": {"cpu": FULL}},
    }
    spec = {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [container]}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"fills-{node}"}, "spec": spec}
    admin.create(pods_path, made)


def create_set(admin: Api, pods_path: str, replicas: int = 1, **hints: Any) -> None:
    template = asks(pods_path, "x", **hints)
    meta = {
        "labels": {**template["metadata"]["labels"], "app": "stuck"},
        "annotations": template["metadata"]["annotations"],
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "stuck"}}}
    made = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "owner"},
        "spec": {**spec, "template": {"metadata": meta, "spec": template["spec"]}},
    }
    admin.create(f"{SETS}/{space(pods_path)}/replicasets", made)


def owned(admin: Api, pods_path: str) -> list[Object]:
    return [p for p in admin.get(pods_path)["items"] if p["metadata"].get("ownerReferences")]


def entry_of(pool: ClusterPool, uid: str) -> tuple[str, dict[str, Any]] | None:
    found = [
        (node, one)
        for node, entries in pool.entries().items()
        for one in entries
        if one["uid"] == uid
    ]
    return found[0] if found else None


def first(pool: ClusterPool, admin: Api, pods_path: str) -> tuple[str, str, str]:
    """(uid, node, card) of the set's first pod, released."""

    def placed() -> tuple[str, str, str] | None:
        for one in owned(admin, pods_path):
            found = entry_of(pool, one["metadata"]["uid"])
            if found and not one["spec"].get("schedulingGates"):
                return one["metadata"]["uid"], found[0], found[1]["cards"][0]["uuid"]
        return None

    got: tuple[str, str, str] = pool.until(placed, "the set's pod has its card")
    return got


def bound(admin: Api, pods_path: str) -> Object | None:
    return next((one for one in owned(admin, pods_path) if is_bound(one)), None)


def test_the_owners_next_pod_inherits_the_card_and_a_bare_pod_is_only_told(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    for node in sorted(pool.agents.names):
        fill(admin, pods_path, node)
    create_set(admin, pods_path)
    uid, node, card = first(pool, admin, pods_path)
    bare = admin.create(pods_path, asks(pods_path, "bare"))["metadata"]["uid"]
    pool.until(lambda: entry_of(pool, bare), "the bare pod has the other card")
    admin.create(pods_path, asks(pods_path, "rival"))
    gone = lambda: all(one["metadata"]["uid"] != uid for one in owned(admin, pods_path))  # noqa: E731
    pool.until(gone, "the pod that no node takes is replaced")
    admin.delete(f"{pods_path}/fills-{node}?gracePeriodSeconds=0")
    heir = pool.until(lambda: bound(admin, pods_path), "the next one is bound")
    found = entry_of(pool, heir["metadata"]["uid"])
    assert found is not None
    assert (found[0], found[1]["cards"][0]["uuid"]) == (node, card)
    assert admin.get(f"{pods_path}/rival")["spec"]["schedulingGates"]
    events = f"/api/v1/namespaces/{space(pods_path)}/events/gpupool-not-bound-"
    told = admin.until(f"{events}{bare}", bool)
    assert told["reason"] == NOT_BOUND
    assert "nobody would make another" in told["message"]
    assert "Insufficient cpu" in told["message"]
    assert "so that its owner makes another" in admin.get(f"{events}{uid}")["message"]
    assert admin.get(f"{pods_path}/bare")["metadata"]["uid"] == bare


def test_members_of_a_gang_that_are_made_anew_sit_where_those_before_them_sat(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    for node in sorted(pool.agents.names):
        fill(admin, pods_path, node)
    create_set(admin, pods_path, 2, gang=gang(2))

    def seats() -> dict[str, list[str]]:
        return {node: one["cards"] for node, held in pool.entries().items() for one in held}

    uids = lambda: {one["uid"] for entries in pool.entries().values() for one in entries}  # noqa: E731
    pool.until(lambda: len(uids()) == 2, "both have a card")
    before, first_uids = seats(), uids()
    admin.create(pods_path, asks(pods_path, "rival"))
    pool.until(
        lambda: len(uids()) == 2 and not uids() & first_uids,
        "both were made anew and have the seats",
    )
    assert seats() == before
    for node in sorted(pool.agents.names):
        admin.delete(f"{pods_path}/fills-{node}?gracePeriodSeconds=0")
    pool.until(lambda: sum(is_bound(one) for one in owned(admin, pods_path)) == 2, "both are bound")
    assert seats() == before
    assert admin.get(f"{pods_path}/rival")["spec"]["schedulingGates"]


def test_where_the_node_is_known_to_be_full_the_next_one_goes_elsewhere(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    for node in sorted(pool.agents.names):
        fill(admin, pods_path, node)
    create_set(admin, pods_path)
    _, node, _ = first(pool, admin, pods_path)
    (other,) = pool.agents.names - {node}
    admin.merge(
        f"{ledger.NODES}/{node}/status", {"status": {"others": {"cpuMilli": 999_500, "pods": 1}}}
    )
    admin.delete(f"{pods_path}/fills-{other}?gracePeriodSeconds=0")
    found = pool.until(lambda: bound(admin, pods_path), "the next one is bound elsewhere")
    assert found["spec"]["nodeName"] == other
    assert found["metadata"]["annotations"][names.PLACED].startswith(other)
