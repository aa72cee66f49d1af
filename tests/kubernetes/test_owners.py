"""Pods as controllers make them: those of Kubernetes itself, and others in the order in which they
make their pods.

LeaderWorkerSet, MPIJob and RayJob are objects of definitions with their names; their pods are made
here, with the labels and in the order that their controllers document. The manifests are those of
the page about gangs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.kubernetes.resources import names
from tests.support import pages
from tests.support.cluster.api import Api, Object
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster_pool import ClusterPool

CARDS = 3
PAGE = "kubernetes-gangs.md"
LWS = "leaderworkerset.sigs.k8s.io"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SHARE = {"gpupool.dev/gpu-milli": "300", "gpupool.dev/memory": "8Gi"}
READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("owners")) as made:
        made.adopt(cluster.simulate_nodes(2, prefix="owners"), CARDS)
        made.start()
        made.start_webhook("native")
        yield made


@pytest.fixture(autouse=True)
def _nothing_is_left(pool: ClusterPool, pods_path: str) -> Iterator[None]:
    yield
    assert pool.running, pool.log()
    space = pods_path.split("/")[4]
    for path in (
        "apps/v1/{}/statefulsets",
        "apps/v1/{}/deployments",
        "apps/v1/{}/daemonsets",
        "batch/v1/{}/jobs",
    ):
        pool.admin.delete(
            f"/apis/{path.format(f'namespaces/{space}')}?propagationPolicy=Background"
        )

    def gone() -> bool:
        pool.admin.delete(f"{pods_path}?gracePeriodSeconds=0")
        return not pool.admin.get(pods_path)["items"] and not any(pool.entries().values())

    pool.until(gone, "no pod and no entry")


def bound(admin: Api, pods_path: str, prefix: str = "") -> list[Object]:
    found = [one for one in admin.get(pods_path)["items"] if is_bound(one)]
    return [one for one in found if one["metadata"]["name"].startswith(prefix)]


def seats(pool: ClusterPool, gang: str = "") -> int:
    """Cards that ledgers hold, those of members that do not exist included."""
    found = [entry for entries in pool.entries().values() for entry in entries]
    return sum(len(entry["cards"]) for entry in found if gang in entry.get("gang", ""))


# --- controllers of Kubernetes itself ---------------------------------------------------------

TEMPLATE: Object = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "main", "image": "x:1", "resources": {"limits": SHARE}}],
    },
}
SELECTOR = {"matchLabels": {"app": "x"}}
ONCE = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
OWNERS: dict[str, tuple[str, Object]] = {
    "Deployment": ("apps/v1", {"replicas": 2, "selector": SELECTOR, "template": TEMPLATE}),
    "DaemonSet": ("apps/v1", {"selector": SELECTOR, "template": TEMPLATE}),
    "StatefulSet": (
        "apps/v1",
        {"replicas": 2, "serviceName": "x", "selector": SELECTOR, "template": TEMPLATE},
    ),
    "Job": ("batch/v1", {"parallelism": 2, "completions": 2, "template": ONCE}),
}


def path_of(kind: str, version: str, pods_path: str) -> str:
    return f"/apis/{version}/namespaces/{pods_path.split('/')[4]}/{kind.lower()}s"


@pytest.mark.parametrize("kind", OWNERS)
def test_every_pod_of_an_owner_has_its_share_and_so_has_the_one_made_in_its_place(
    pool: ClusterPool, admin: Api, pods_path: str, kind: str
) -> None:
    version, spec = OWNERS[kind]
    spec = _on_these_nodes(spec, pool) if kind == "DaemonSet" else spec
    made = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    admin.create(path_of(kind, version, pods_path), made)
    if kind == "StatefulSet":
        admin.until(f"{pods_path}/x-0", is_bound)
        assert len(admin.get(pods_path)["items"]) == 1
        admin.merge(f"{pods_path}/x-0/status", {"status": READY})
    pool.until(
        lambda: len(bound(admin, pods_path)) == 2 and seats(pool) == 2, f"both pods of the {kind}"
    )
    if kind == "DaemonSet":
        assert {one["spec"]["nodeName"] for one in bound(admin, pods_path)} == pool.agents.names
    first = bound(admin, pods_path)[0]["metadata"]
    admin.delete(f"{pods_path}/{first['name']}?gracePeriodSeconds=0")

    def replaced() -> bool:
        now = {one["metadata"]["uid"] for one in bound(admin, pods_path)}
        return len(now) == 2 and first["uid"] not in now

    pool.until(replaced, "another in its place")
    for one in bound(admin, pods_path):
        assert one["metadata"]["annotations"][names.PLACED].startswith(one["spec"]["nodeName"])


def _on_these_nodes(spec: Object, pool: ClusterPool) -> Object:
    """Other tests' nodes have no cards, so a pod for each of them would wait for ever."""
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": sorted(pool.agents.names)}
    required = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [term]}]
        }
    }
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "affinity": {"nodeAffinity": required}}}
    return {**spec, "template": template}


# --- others, in their order -------------------------------------------------------------------


class Driver:
    """Makes pods as the controller of an object does."""

    def __init__(self, admin: Api, pods_path: str, manifest: Object) -> None:
        self._admin, self._path = admin, pods_path
        version, kind, name = manifest["apiVersion"], manifest["kind"], manifest["metadata"]["name"]
        group, _, short = version.partition("/")
        plural = f"{kind.lower()}s"
        admin.apply(f"{DEFINITIONS}/{plural}.{group}", _definition(group, short, kind, plural))
        admin.until(
            f"/apis/{version}",
            lambda found: any(one["name"] == plural for one in found["resources"]),
        )
        made = admin.create(
            f"/apis/{version}/namespaces/{pods_path.split('/')[4]}/{plural}", manifest
        )
        owner = {"apiVersion": version, "kind": kind, "name": name, "uid": made["metadata"]["uid"]}
        self._owner = {**owner, "controller": True}

    def pod(self, name: str, template: Object, labels: Any = None, annotations: Any = None) -> None:
        meta = template.get("metadata", {})
        made = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "labels": {**meta.get("labels", {}), **(labels or {})},
                "annotations": {**meta.get("annotations", {}), **(annotations or {})},
                "ownerReferences": [self._owner],
            },
            "spec": {**template["spec"], "terminationGracePeriodSeconds": 0},
        }
        self._admin.create(self._path, made)

    def ready(self, name: str) -> None:
        """It is bound, and its kubelet says that it runs."""
        self._admin.until(f"{self._path}/{name}", is_bound)
        self._admin.merge(f"{self._path}/{name}/status", {"status": READY})


def _definition(group: str, version: str, kind: str, plural: str) -> Object:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": anything},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [served],
        },
    }


@pytest.fixture
def manifests(tmp_path: Path) -> dict[str, Object]:
    return {
        name: yaml.safe_load((tmp_path / name).read_text())
        for name in pages.write_files(PAGE, tmp_path)
    }


def test_groups_of_a_leader_worker_set_are_whole_or_wait_and_workers_come_when_the_leader_is_ready(
    pool: ClusterPool, admin: Api, pods_path: str, manifests: dict[str, Object]
) -> None:
    """Six cards, two groups of four: the second has none until the first is gone."""
    manifest = manifests["lws.yaml"]
    driver, template = (
        Driver(admin, pods_path, manifest),
        manifest["spec"]["leaderWorkerTemplate"]["workerTemplate"],
    )
    size = {f"{LWS}/size": "4"}

    def leader(group: int) -> None:
        driver.pod(
            f"llama-{group}", template, {f"{LWS}/name": "llama", f"{LWS}/worker-index": "0"}, size
        )

    def workers(group: int) -> None:
        labels = {f"{LWS}/name": "llama", f"{LWS}/group-index": str(group)}
        for n in (1, 2, 3):
            driver.pod(
                f"llama-{group}-{n}", template, {**labels, f"{LWS}/worker-index": str(n)}, size
            )

    leader(0)
    leader(1)
    pool.until(lambda: len(bound(admin, pods_path)) == 1, "one leader")
    (first,) = [one["metadata"]["name"] for one in bound(admin, pods_path)]
    first_group = int(first[-1])
    second_group = 1 - first_group
    assert seats(pool) == seats(pool, f"llama-{first_group}") == 4
    driver.ready(first)
    workers(first_group)
    pool.until(lambda: len(bound(admin, pods_path)) == 4, "the whole first group")
    assert admin.get(f"{pods_path}/llama-{second_group}")["spec"]["schedulingGates"]
    for one in bound(admin, pods_path):
        admin.delete(f"{pods_path}/{one['metadata']['name']}?gracePeriodSeconds=0")
    driver.ready(f"llama-{second_group}")
    assert seats(pool, f"llama-{second_group}") == 4
    workers(second_group)
    pool.until(lambda: len(bound(admin, pods_path)) == 4, "the whole second group")


def test_workers_of_an_mpi_job_have_their_seats_from_the_first_and_its_launcher_never_meets_us(
    pool: ClusterPool, admin: Api, pods_path: str, manifests: dict[str, Object]
) -> None:
    """One worker after the other, and the launcher when all of them are ready."""
    manifest = manifests["mpi.yaml"]
    driver, kinds = Driver(admin, pods_path, manifest), manifest["spec"]["mpiReplicaSpecs"]
    for n in range(4):
        driver.pod(
            f"train-worker-{n}",
            kinds["Worker"]["template"],
            {"training.kubeflow.org/replica-index": str(n)},
        )
        driver.ready(f"train-worker-{n}")
        assert seats(pool) == 4
    driver.pod("train-launcher", kinds["Launcher"]["template"])
    launcher = admin.until(f"{pods_path}/train-launcher", is_bound)
    assert names.MANAGED not in launcher["metadata"].get("labels", {})


def test_workers_of_a_ray_job_come_after_the_head_and_start_together(
    pool: ClusterPool, admin: Api, pods_path: str, manifests: dict[str, Object]
) -> None:
    """While another holds four of six cards nobody of the three starts; the head does."""
    manifest = manifests["ray.yaml"]
    driver, cluster = Driver(admin, pods_path, manifest), manifest["spec"]["rayClusterSpec"]
    other = {
        "spec": {
            "containers": [
                {"name": "main", "image": "x:1", "resources": {"limits": {"gpupool.dev/gpus": 2}}}
            ]
        }
    }
    for n in range(2):
        driver.pod(f"other-{n}", other)
        driver.ready(f"other-{n}")
    driver.pod("tune-head", cluster["headGroupSpec"]["template"], {"ray.io/node-type": "head"})
    driver.ready("tune-head")
    (group,) = cluster["workerGroupSpecs"]
    for n in range(3):
        driver.pod(f"tune-workers-{n}", group["template"], {"ray.io/node-type": "worker"})

    def waits(found: dict[str, Any]) -> bool:
        conditions = found["status"].get("conditions", ())
        return any("GP-" in str(one) or one.get("message") for one in conditions)

    admin.until(f"{pods_path}/tune-workers-0", waits)
    assert (bound(admin, pods_path, "tune-workers"), seats(pool, "tune")) == ([], 0)
    admin.delete(f"{pods_path}/other-0?gracePeriodSeconds=0")
    pool.until(lambda: len(bound(admin, pods_path, "tune-workers")) == 3, "all three")
