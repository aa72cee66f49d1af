"""Uninstalling leaves nobody at the gate and nothing of ours behind, also when it is killed and
begun again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.pool_settings import NAME, SETTINGS
from tests.support.cluster.api import Api, Object
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster.session import session_cluster
from tests.support.cluster_pool import ClusterPool, fresh
from tests.support.kube_builders import asking, pod
from tests.support.kube_people import People, cluster_admin

PODS = "/api/v1/namespaces/default/pods"
POLICY = f"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/gate.{names.GROUP}"
LEDGERS = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gpunodes.{names.GROUP}"
TOO_MUCH = {"main": asking(16, 1000, None)}


@pytest.fixture(scope="module")
def own_cluster() -> Iterator[Cluster]:
    """What is taken away here others need, so this has a control plane of its own."""
    with session_cluster(print) as running:
        running.admin().until("/api/v1/namespaces/default/serviceaccounts/default", bool)
        running.simulate_nodes(2, prefix="cards")
        yield running


@pytest.fixture
def pool(own_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    made = ClusterPool(own_cluster, tmp_path_factory.mktemp("pool"))
    made.admin.until(f"/api/v1/namespaces/{install.NAMESPACE}", _usable) if _there(
        made.admin
    ) else None
    with made:
        made.adopt(
            [node["metadata"]["name"] for node in made.admin.get("/api/v1/nodes")["items"]], 4
        )
        made.start()
        yield made


def _there(admin: Api) -> bool:
    """A namespace that still goes is waited for."""
    found = admin.find(f"/api/v1/namespaces/{install.NAMESPACE}")
    if found is not None and "deletionTimestamp" in found["metadata"]:
        admin.until_gone(f"/api/v1/namespaces/{install.NAMESPACE}")
        return False
    return found is not None


def _usable(found: Object) -> bool:
    return bool(found["status"]["phase"] == "Active")


def waiting(admin: Api, count: int) -> None:
    for n in range(count):
        made = fresh(pod(f"waits-{n}", TOO_MUCH))
        admin.create(PODS, made)


def gated(admin: Api) -> list[str]:
    items = admin.get("/api/v1/pods")["items"]
    return [one["metadata"]["name"] for one in items if one["spec"].get("schedulingGates")]


def nothing_is_left(pool: ClusterPool) -> None:
    admin = pool.admin
    assert gated(admin) == []
    for node in admin.get("/api/v1/nodes")["items"]:
        assert not {*node["status"]["capacity"], *node["status"]["allocatable"]} & set(names.TOTALS)
        assert names.MODE not in node["metadata"]["labels"]
    for made in (*install.objects(), *install.native()):
        admin.until_gone(install.path_of(made))


def clean(admin: Api) -> None:
    admin.delete(f"{PODS}?gracePeriodSeconds=0")
    admin.until(PODS, lambda found: not found["items"])


def test_nobody_stays_at_the_gate_and_nothing_is_left(
    pool: ClusterPool, own_cluster: Cluster
) -> None:
    people = People(cluster_admin(own_cluster))
    waiting(pool.admin, 8)
    pool.install_native()
    assert len(gated(pool.admin)) == 8
    assert "would open the gate of 8 pods" in people.ok("uninstall", "--dry-run")
    assert len(gated(pool.admin)) == 8
    assert people.refused("uninstall").startswith("gpupool: GP-1005: nothing was done")
    people.ok("uninstall", "--yes")
    nothing_is_left(pool)
    people.ok("uninstall", "--yes")
    clean(pool.admin)


def test_it_refuses_while_pods_run_on_cards(pool: ClusterPool, own_cluster: Cluster) -> None:
    people = People(own_cluster.kubeconfig)
    made = fresh(pod("runs", spec={"terminationGracePeriodSeconds": 0}))
    pool.admin.create(PODS, made)
    pool.admin.until(f"{PODS}/runs", is_bound)
    refused = people.refused("uninstall", "--yes")
    assert "default/runs" in refused
    assert '"placing":true' in refused, "and how to go on as before"
    assert pool.admin.find(POLICY) is not None
    assert pool.admin.get(f"{SETTINGS}/{NAME}")["status"]["inUse"]["placing"] is False
    pool.admin.create(PODS, fresh(pod("late")))
    pool.admin.until(f"{PODS}/late", lambda found: "placing: false" in json.dumps(found["status"]))
    assert gated(pool.admin) == ["late"]
    pool.admin.merge(f"{SETTINGS}/{NAME}", {"spec": {"placing": True}})
    pool.admin.until(f"{PODS}/late", is_bound)
    people.ok("uninstall", "--yes", "--leave-running")
    assert is_bound(pool.admin.get(f"{PODS}/runs"))
    nothing_is_left(pool)
    clean(pool.admin)


@pytest.mark.parametrize(
    "half_way",
    [
        pytest.param(lambda admin: admin.find(POLICY) is None, id="the policy is gone"),
        pytest.param(lambda admin: len(gated(admin)) < 20, id="some gates are open"),
        pytest.param(lambda admin: not gated(admin), id="every gate is open"),
        pytest.param(lambda admin: admin.find(LEDGERS) is None, id="the ledgers are gone"),
    ],
)
def test_killed_in_the_middle_it_ends_the_second_time(
    pool: ClusterPool, own_cluster: Cluster, half_way: Callable[[Api], bool]
) -> None:
    people = People(own_cluster.kubeconfig)
    waiting(pool.admin, 20)
    first = people.begin("uninstall", "--yes")
    pool.until(lambda: half_way(pool.admin), "half-way")
    first.kill()
    first.wait()
    waiting_again = fresh(pod("late", TOO_MUCH))
    pool.admin.create(PODS, waiting_again)
    people.ok("uninstall", "--yes")
    nothing_is_left(pool)
    clean(pool.admin)


def test_a_pod_that_its_owner_makes_anew_is_handed_back(
    pool: ClusterPool, own_cluster: Cluster
) -> None:
    people = People(own_cluster.kubeconfig)
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
    owned_by = pool.admin.create("/api/v1/namespaces/default/configmaps", owner)["metadata"]
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owned_by["uid"],
        "controller": True,
    }
    for name, direct in (("owned", False), ("owned-direct", True)):
        made = fresh(pod(name, TOO_MUCH, direct=direct))
        made["metadata"]["ownerReferences"] = [reference]
        pool.admin.create(PODS, made)
    pool.admin.create(PODS, fresh(pod("bare", TOO_MUCH)))
    pool.admin.create(PODS, fresh(pod("bare-direct", TOO_MUCH, direct=True)))
    assert "would leave default/bare-direct, which nobody would bind" in people.ok(
        "uninstall", "--dry-run"
    )
    assert "nobody binds default/bare-direct any more" in people.ok("uninstall", "--yes")
    for name in ("owned", "owned-direct"):
        assert pool.admin.find(f"{PODS}/{name}") is None
    assert pool.admin.get(f"{PODS}/bare")["spec"].get("schedulingGates") is None
    nothing_is_left(pool)
    clean(pool.admin)
