"""Pods as their users write them, in our words and in others', admitted by the webhook and
placed."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.resources import names
from tests.support.cluster.api import Api, Object, RefusedError
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster_pool import ClusterPool

CARDS = 4


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("pool")) as made:
        made.adopt(cluster.simulate_nodes(2, prefix="cards"), CARDS)
        made.start()
        made.start_webhook()
        yield made


@pytest.fixture(autouse=True)
def _nothing_is_left(pool: ClusterPool, pods_path: str) -> Iterator[None]:
    yield
    pool.clear(pods_path)


def asking(
    name: str, limits: dict[str, str], notes: dict[str, str] | None = None, **spec: Any
) -> Object:
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    meta = {"name": name, "annotations": notes or {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [container], **spec},
    }


def totals(found: Object) -> dict[str, str]:
    limits = found["spec"]["containers"][0]["resources"]["limits"]
    return {name.removeprefix("gpupool.dev/"): text for name, text in limits.items()}


def test_our_own_words_become_totals_and_what_was_typed_stays_readable(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    limits = {"gpupool.dev/gpus": "2", "gpupool.dev/gpu-milli": "300", "gpupool.dev/memory": "8Gi"}
    made = admin.create(pods_path, asking("two", limits))
    assert totals(made) == {"slot": "1", "gpu-milli": "600", "memory": "16Gi"}
    assert json.loads(made["metadata"]["annotations"][names.TYPED])["containers"]["main"] == limits
    found = admin.until(f"{pods_path}/two", is_bound)
    assert found["metadata"]["annotations"][names.PLACED].count("0.30 GPU") == 2


@pytest.mark.parametrize(
    ("limits", "notes", "told"),
    [
        ({"nvidia.com/gpu": "1"}, {}, {"slot": "1", "gpu-milli": "1k"}),
        (
            {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000", "nvidia.com/gpucores": "30"},
            {},
            {"slot": "1", "gpu-milli": "300", "memory": "3000Mi"},
        ),
        (
            {"tke.cloud.tencent.com/qgpu-core": "30", "tke.cloud.tencent.com/qgpu-memory": "10"},
            {},
            {"slot": "1", "gpu-milli": "300", "memory": "10Gi"},
        ),
    ],
)
def test_words_of_others_are_taken_unchanged(
    pool: ClusterPool,
    admin: Api,
    pods_path: str,
    limits: dict[str, str],
    notes: dict[str, str],
    told: dict[str, str],
) -> None:
    assert totals(admin.create(pods_path, asking("theirs", limits, notes))) == told
    admin.until(f"{pods_path}/theirs", is_bound)


def test_a_pod_that_asks_for_no_card_never_meets_us(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    made = admin.create(pods_path, asking("plain", {"cpu": "1"}))
    assert "schedulingGates" not in made["spec"]
    assert "labels" not in made["metadata"]
    admin.until(f"{pods_path}/plain", is_bound)


@pytest.mark.parametrize(
    ("limits", "spec", "words"),
    [
        ({"gpupool.dev/gpu-milli": "1500"}, {}, "GP-1041"),
        (
            {"gpupool.dev/gpu-milli": "300", "gpupool.dev/memory": "900Gi"},
            {},
            "largest: L40S with 48 GiB",
        ),
        ({"gpupool.dev/gpu-milli": "300"}, {"nodeName": "cards-00000"}, "nodeName"),
        ({"gpupool.dev/gpu-milli": "300"}, {"schedulerName": "mine"}, "schedulerName"),
        ({"gpupool.dev/gpu-milli": "300", "nvidia.com/gpu": "2"}, {}, "GP-1042"),
    ],
)
def test_what_can_never_be_is_refused_with_the_numbers(
    pool: ClusterPool,
    admin: Api,
    pods_path: str,
    limits: dict[str, str],
    spec: dict[str, Any],
    words: str,
) -> None:
    with pytest.raises(RefusedError, match=words):
        admin.create(pods_path, asking("bad", limits, **spec))


def test_an_unknown_model_is_refused_with_the_nearest_name(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    with pytest.raises(RefusedError, match="L40S"):
        admin.create(
            pods_path, asking("bad", {"gpupool.dev/gpus": "1"}, {"gpupool.dev/model": "L40X"})
        )


def test_beyond_a_tenants_maximum_is_refused_and_what_is_only_in_use_waits(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    limits = {"gpu": {"nominal": "1", "borrowing": "0"}}
    spec = {"namespaces": [pods_path.split("/")[4]], "limits": limits}
    path = f"/apis/{names.API_VERSION}/tenants/small"
    meta = {"apiVersion": names.API_VERSION, "kind": "Tenant", "metadata": {"name": "small"}}
    admin.apply(path, {**meta, "spec": spec})

    def refused() -> bool:
        try:
            admin.create(f"{pods_path}?dryRun=All", asking("two", {"gpupool.dev/gpus": "2"}))
        except RefusedError as refusal:
            return "maximum of 1.00 GPU" in str(refusal)
        return False

    pool.until(refused, "a refusal by the tenant's maximum")
    for n in range(2):
        admin.create(pods_path, asking(f"one-{n}", {"gpupool.dev/gpus": "1"}))
    admin.until(f"{pods_path}/one-0", is_bound)
    assert not is_bound(admin.get(f"{pods_path}/one-1"))
    admin.delete(path)


def test_a_privileged_pod_gets_no_share(pool: ClusterPool, admin: Api, pods_path: str) -> None:
    bad = asking("bad", {"gpupool.dev/gpu-milli": "300"})
    bad["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    with pytest.raises(RefusedError, match="privileged"):
        admin.create(pods_path, bad)


def test_asked_again_nothing_changes(pool: ClusterPool, admin: Api, pods_path: str) -> None:
    made = admin.create(
        pods_path, asking("once", {"gpupool.dev/gpu-milli": "300", "gpupool.dev/memory": "1Gi"})
    )
    again = {key: made[key] for key in ("apiVersion", "kind", "spec")}
    meta = {key: made["metadata"][key] for key in ("annotations", "labels")}
    twin = admin.create(pods_path, {**again, "metadata": {**meta, "name": "twin"}})
    assert totals(twin) == totals(made)


def test_while_admission_is_away_askers_are_refused_and_others_are_not(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    assert pool.webhook is not None
    pool.webhook.kill()
    pool.webhook.wait()
    with pytest.raises(RefusedError, match="gpupool"):
        admin.create(pods_path, asking("asks", {"gpupool.dev/gpu-milli": "300"}))
    admin.create(pods_path, asking("plain", {"cpu": "1"}))
    pool.start_webhook()
    admin.create(pods_path, asking("asks", {"gpupool.dev/gpu-milli": "300"}))


def test_rubbish_is_answered_and_does_no_harm(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    url = f"https://localhost:{pool.webhook_port}/admit"
    for body in (b"", b"{", b"[]", b'{"request": {}}'):
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        with pytest.raises(urllib.error.HTTPError) as refusal:
            urllib.request.urlopen(request, context=ssl._create_unverified_context())
        assert refusal.value.code in (400, 422)
    assert pool.webhook is not None
    assert pool.webhook.poll() is None


def test_the_keys_are_for_the_webhooks_account_alone(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    access = pool.cluster.access()
    path = f"/api/v1/namespaces/{install.NAMESPACE}/secrets/{install.SECRET}"
    assert access.client(access.token(install.NAMESPACE, install.WEBHOOK)).get(path)
    for account in (install.CONTROLLER, install.AGENT):
        with pytest.raises(RefusedError, match="forbidden"):
            access.client(access.token(install.NAMESPACE, account)).get(path)
