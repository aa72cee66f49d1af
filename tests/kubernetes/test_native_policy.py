"""Plain native pods are admitted inside the API server exactly as the webhook admits them, and no
others are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.pool_settings import NAME, SETTINGS
from tests.support.cluster.api import Api, Object, RefusedError
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster_pool import ClusterPool

POOL = f"{SETTINGS}/{NAME}"
PODS = "/api/v1/namespaces/default/pods?dryRun=All"
SHARE = {"gpupool.dev/gpu-milli": "300"}
BOTH = {
    "gpupool.dev/gpus": "2",
    "gpupool.dev/gpu-milli": "300",
    "gpupool.dev/memory": "8Gi",
    "cpu": "1",
}
FULL = {"gpupool.dev/gpus": "4"}


def typed(limits: dict[str, str], more: Object | None = None, **spec: Any) -> Object:
    """As its user writes it; `more` is of its metadata."""
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    meta = {"name": "p", **(more or {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [container], **spec},
    }


def beside(pod: Object, **container: Any) -> Object:
    """With another container, which comes before the first by its name."""
    other = {"name": "aside", "image": "x", **container}
    return {**pod, "spec": {**pod["spec"], "containers": [*pod["spec"]["containers"], other]}}


TAKEN = {
    "two cards": typed(BOTH),
    "whole": typed({"gpupool.dev/gpus": "1"}),
    "four whole": typed(FULL),
    "a share": typed(SHARE),
    "a whole one by thousandths": typed({"gpupool.dev/gpu-milli": "1000", "gpupool.dev/memory": "48Gi"}),
    "odd memory": typed({**SHARE, "gpupool.dev/memory": "3000Mi"}),
    "memory in bytes": typed({**SHARE, "gpupool.dev/memory": str(500 << 20)}),
    "a companion": beside(typed(SHARE), resources={"limits": {"cpu": "100m"}}),
    "a companion that says nothing": beside(typed(SHARE)),
    "two that ask": beside(typed(SHARE), resources={"limits": BOTH}),
    "labels, notes, a class": typed(
        SHARE, {"labels": {"app": "a"}, "annotations": {"my.own/note": 'says "so"'}}, priorityClassName="gpupool-native"
    ),
    "a gate of another": typed(SHARE, schedulingGates=[{"name": "other.example/gate"}]),
    "an init container": typed(SHARE, initContainers=[{"name": "i", "image": "x"}]),
    "a volume": typed(SHARE, volumes=[{"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}}}]),
}  # fmt: skip
NOT_TAKEN = {
    "memory that is rounded": typed({**SHARE, "gpupool.dev/memory": "1500M"}),
    "an annotation of ours": typed(SHARE, {"annotations": {"gpupool.dev/sharing": "burst"}}),
    "a mistyped one": typed(SHARE, {"annotations": {"gpupool.dev/shraing": "burst"}}),
    "a gang": typed(
        SHARE, {"labels": {"gpupool.dev/gang": "g"}, "annotations": {"gpupool.dev/gang-size": "2"}}
    ),
    "a queue of another": typed(SHARE, {"labels": {"kueue.x-k8s.io/queue-name": "q"}}),
    "an environment": beside(typed(SHARE), env=[{"name": "CUDA_VISIBLE_DEVICES", "value": "0"}]),
    "an init container that asks": typed(
        SHARE, initContainers=[{"name": "i", "image": "x", "resources": {"limits": SHARE}}]
    ),
}
REFUSED = {
    "a fraction above one card": (typed({"gpupool.dev/gpu-milli": "1500"}), "GP-1041"),
    "memory without a share": (typed({"gpupool.dev/memory": "8Gi"}), "without a share"),
    "too little memory": (typed({**SHARE, "gpupool.dev/memory": "5Mi"}), "from 64 MiB"),
    "no card": (typed({"gpupool.dev/gpus": "0"}), "GP-"),
    "memory that no card has": (
        typed({**SHARE, "gpupool.dev/memory": "900Gi"}),
        "largest: L40S with 48 GiB",
    ),
    "more cards than a node has": (typed({"gpupool.dev/gpus": "5"}), "5"),
    "an unknown model": (typed(FULL, {"annotations": {"gpupool.dev/model": "L40X"}}), "L40S"),
    "two ways": (typed({**SHARE, "nvidia.com/gpu": "2"}), "GP-1042"),
    "another scheduler": (typed(SHARE, schedulerName="mine"), "schedulerName"),
    "a node": (typed(SHARE, nodeName="native-00000"), "nodeName"),
}


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("native")) as made:
        made.admin.until("/api/v1/namespaces/default/serviceaccounts/default", bool)
        path = "/apis/scheduling.k8s.io/v1/priorityclasses/gpupool-native"
        api = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "gpupool-native"},
        }
        made.admin.apply(path, {**api, "value": 7})
        made.adopt(cluster.simulate_nodes(2, prefix="native"), 4)
        made.start()
        made.start_webhook("native")
        yield made
        made.admin.delete(POOL)


@pytest.fixture(scope="module")
def by_webhook(pool: ClusterPool) -> dict[str, Object]:
    """What the webhook makes of them, before there is a policy."""
    known = {"count": 4, "memoryBytes": 48 << 30}
    pool.admin.until(
        POOL, lambda found: known in found.get("status", {}).get("admits", {}).get("cards", ())
    )
    return {name: pool.admin.create(PODS, pod) for name, pod in (TAKEN | NOT_TAKEN).items()}


@pytest.fixture(scope="module")
def policy(pool: ClusterPool, by_webhook: dict[str, Object]) -> Iterator[None]:
    """In effect, as is seen while nobody else could admit."""
    pool.install_native()
    pool.end_webhook()
    pool.until(lambda: accepted(pool.admin, typed(SHARE)), "the policy in effect")
    yield
    pool.uninstall_native()


@pytest.fixture
def with_webhook(pool: ClusterPool, policy: None) -> Iterator[None]:
    pool.start_webhook("native")
    yield
    pool.end_webhook()


def accepted(admin: Api, pod: Object) -> Object | None:
    try:
        return admin.create(PODS, pod)
    except RefusedError as refusal:
        assert "GP-2032" in refusal.body
        return None


def comparable(pod: Object) -> Object:
    """Without what differs between any two pods; what was typed as what it says."""
    notes = pod["metadata"]["annotations"]
    meta = {
        "labels": pod["metadata"]["labels"],
        "annotations": {**notes, names.TYPED: json.loads(notes[names.TYPED])},
    }
    spec = json.loads(json.dumps(pod["spec"]))
    spec["volumes"] = [
        one for one in spec.get("volumes", ()) if not one["name"].startswith("kube-api-access")
    ]
    for one in [*spec["containers"], *spec.get("initContainers", ())]:
        one.pop("volumeMounts", None)
    return {"metadata": meta, "spec": spec}


@pytest.mark.parametrize("name", TAKEN)
def test_it_makes_what_the_webhook_makes(
    pool: ClusterPool, by_webhook: dict[str, Object], policy: None, name: str
) -> None:
    found = accepted(pool.admin, TAKEN[name])
    assert found is not None
    assert comparable(found) == comparable(by_webhook[name])


@pytest.mark.parametrize("name", NOT_TAKEN)
def test_what_it_is_not_sure_of_is_left_to_the_webhook(
    pool: ClusterPool, policy: None, name: str
) -> None:
    assert accepted(pool.admin, NOT_TAKEN[name]) is None


def test_with_both_every_pod_becomes_the_same(
    pool: ClusterPool, by_webhook: dict[str, Object], with_webhook: None
) -> None:
    for name, pod in (TAKEN | NOT_TAKEN).items():
        assert comparable(pool.admin.create(PODS, pod)) == comparable(by_webhook[name]), name
    for pod, words in REFUSED.values():
        with pytest.raises(RefusedError, match=words):
            pool.admin.create(PODS, pod)


def test_the_webhook_is_asked_of_no_pod_that_is_done(pool: ClusterPool, with_webhook: None) -> None:
    assert pool.webhook is not None
    pool.webhook.kill()
    pool.webhook.wait()
    pool.admin.create(PODS, TAKEN["two cards"])
    with pytest.raises(RefusedError, match="failed calling webhook"):
        pool.admin.create(PODS, NOT_TAKEN["an environment"])


def test_direct_pods_are_made_here_as_well(pool: ClusterPool, policy: None) -> None:
    pool.admin.merge(POOL, {"spec": {"direct": True}})

    def is_direct() -> bool:
        found = accepted(pool.admin, typed(SHARE))
        return found is not None and found["spec"]["schedulerName"] == names.DIRECT

    pool.until(is_direct, "direct pods")
    assert "schedulingGates" not in pool.admin.create(PODS, TAKEN["two that ask"])["spec"]
    assert pool.admin.create(PODS, TAKEN["a volume"])["spec"]["schedulingGates"]
    pool.admin.merge(POOL, {"spec": {"direct": None}})
    pool.until(lambda: not is_direct(), "gated pods")


def test_a_tenant_gets_no_more_than_its_maximum(
    pool: ClusterPool, with_webhook: None, pods_path: str
) -> None:
    space, path = pods_path.split("/")[4], f"/apis/{names.API_VERSION}/tenants/few"
    spec = {"namespaces": [space], "limits": {"gpu": {"nominal": "1", "borrowing": "1"}}}
    meta = {"apiVersion": names.API_VERSION, "kind": "Tenant", "metadata": {"name": "few"}}
    pool.admin.apply(path, {**meta, "spec": spec})
    pool.admin.until(
        POOL, lambda found: found["status"]["admits"]["limits"].get(space) == {"gpuMilli": 2000}
    )

    def refused() -> bool:
        try:
            pool.admin.create(f"{pods_path}?dryRun=All", typed({"gpupool.dev/gpus": "3"}))
        except RefusedError as refusal:
            return "maximum of 2.00 GPU" in refusal.body
        return False

    pool.until(refused, "a refusal by the webhook")
    pool.admin.create(f"{pods_path}?dryRun=All", typed({"gpupool.dev/gpus": "2"}))
    pool.admin.delete(path)


def test_a_pod_is_placed_while_the_webhook_is_away(
    pool: ClusterPool, policy: None, admin: Api, pods_path: str
) -> None:
    made = admin.create(pods_path, typed(BOTH))
    assert made["spec"]["schedulingGates"] == [{"name": names.GATE}]
    found = admin.until(f"{pods_path}/p", is_bound)
    assert found["metadata"]["annotations"][names.PLACED].count("0.30 GPU") == 2
    pool.clear(pods_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"securityContext": {"privileged": True}}, "privileged"),
        ({"runtimeClassName": "gvisor"}, "sandbox"),
    ],
)
def test_the_normal_form_by_hand_goes_past_no_rule(
    pool: ClusterPool, with_webhook: None, change: dict[str, Any], words: str
) -> None:
    made = pool.admin.create(PODS, typed(SHARE))
    again = {"name": "p", **{part: made["metadata"][part] for part in ("annotations", "labels")}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": again, "spec": made["spec"]}
    if "securityContext" in change:
        pod["spec"]["containers"][0] |= change
    else:
        made_class = {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": "gvisor"},
        }
        pool.admin.apply(
            "/apis/node.k8s.io/v1/runtimeclasses/gvisor", {**made_class, "handler": "runsc"}
        )
        pod["spec"] |= change
    with pytest.raises(RefusedError, match=words):
        pool.admin.create(PODS, pod)


def test_no_policy_says_that_it_cannot_be_read(pool: ClusterPool, policy: None) -> None:
    made, _ = install.native()
    found = pool.admin.get(install.path_of(made))
    assert "warning" not in json.dumps(found.get("status", {})).lower()
