"""The settings of a pool that runs: changed without a restart, refused where they are bad, told
where people look."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.pool_settings import NAME, SETTINGS, Settings
from tests.support.cluster.api import Api, Object, RefusedError
from tests.support.cluster.cluster import Cluster
from tests.support.cluster_pool import ClusterPool

POOL = f"{SETTINGS}/{NAME}"
WHOLE = {"nvidia.com/gpu": "1"}


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("settings")) as made:
        made.adopt(cluster.simulate_nodes(1, prefix="set"), 1)
        made.start()
        made.start_webhook("native")
        made.admin.until(POOL, lambda found: bool(found.get("status")))
        yield made
        made.admin.delete(POOL)


@pytest.fixture(autouse=True)
def _as_it_was(pool: ClusterPool, admin: Api) -> Iterator[None]:
    yield
    in_use(admin, **dict.fromkeys(Settings().to_json()))


def in_use(admin: Api, **spec: Any) -> Object:
    """What is in use once the controller has read that."""
    said = admin.merge(POOL, {"spec": spec})["metadata"]["generation"]
    found = admin.until(
        POOL, lambda one: one.get("status", {}).get("observedGeneration", 0) >= said
    )
    told: Object = found["status"]["inUse"]
    return told


def test_there_is_one_to_look_at_and_it_says_all_that_is_in_use(
    pool: ClusterPool, admin: Api
) -> None:
    found = admin.get(POOL)
    assert (
        Settings.from_json(found["status"]["inUse"]).preemption.protected_s == 1
    )  # as this controller was started
    conditions = {one["type"]: one["status"] for one in found["status"]["conditions"]}
    assert conditions == {"InForce": "True", "PolicyWorks": "True"}


def test_one_that_is_deleted_comes_again_and_changes_nothing(pool: ClusterPool, admin: Api) -> None:
    assert in_use(admin, policy="binpack")["policy"] == "binpack"
    before = admin.get(POOL)["metadata"]["uid"]
    admin.delete(POOL)
    found = pool.until(lambda: _other(admin, before), "another object")
    assert found["status"]["inUse"]["policy"] == "default"


def _other(admin: Api, uid: str) -> Object | None:
    found = admin.find(POOL)
    return found if found and found["metadata"]["uid"] != uid and found.get("status") else None


def test_it_counts_without_a_restart(pool: ClusterPool, admin: Api, pods_path: str) -> None:
    assert in_use(admin, policy="spread", replaceSeconds=0)["policy"] == "spread"
    plain = {"name": "main", "image": "x", "resources": {"limits": WHOLE}}
    theirs = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [plain]},
    }

    def gated() -> bool:
        return bool(admin.create(f"{pods_path}?dryRun=All", theirs)["spec"].get("schedulingGates"))

    assert not gated()
    in_use(admin, dialects=["all"])
    pool.until(gated, "admission takes the words of others")
    in_use(admin, dialects=None)
    pool.until(lambda: not gated(), "admission leaves them alone again")


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"policy": "of-mine"}, "supported values: .*default"),
        ({"dialects": ["hami"]}, "add native"),
        ({"dialects": ["native", "hamy"]}, "upported value"),
        ({"replaceSeconds": 100_000}, "less than or equal to 86400"),
        ({"preemption": {"protectedSeconds": -1}}, "greater than or equal to 0"),
        ({"preemption": {"perHour": 2_000_000}}, "less than or equal to 100000"),
    ],
)
def test_a_bad_value_is_refused_with_the_limits(
    pool: ClusterPool, admin: Api, spec: Object, words: str
) -> None:
    before = admin.get(POOL)["spec"]
    with pytest.raises(RefusedError, match=words):
        admin.merge(POOL, {"spec": spec})
    assert admin.get(POOL)["spec"] == before


def test_there_is_no_second_one(pool: ClusterPool, admin: Api) -> None:
    other = {
        "apiVersion": names.API_VERSION,
        "kind": "PoolSettings",
        "metadata": {"name": "other"},
        "spec": {},
    }
    with pytest.raises(RefusedError, match="it is called pool"):
        admin.create(SETTINGS, other)


def test_people_write_what_they_want_and_the_controller_what_is_in_use(
    pool: ClusterPool, admin: Api, cluster: Cluster
) -> None:
    with pytest.raises(RefusedError, match="GP-2031"):
        admin.merge(f"{POOL}/status", {"status": {"inUse": {"policy": "spread"}}})
    access = cluster.access()
    controller = access.client(access.token(install.NAMESPACE, install.CONTROLLER))
    with pytest.raises(RefusedError, match="cannot patch"):
        controller.merge(POOL, {"spec": {"policy": "spread"}})
    made = {"apiVersion": names.API_VERSION, "kind": "PoolSettings", "metadata": {"name": NAME}}
    with pytest.raises(RefusedError, match="GP-2031"):
        controller.create(SETTINGS, {**made, "spec": {"policy": "spread"}})
    for account in (install.WEBHOOK, install.AGENT):
        other = access.client(access.token(install.NAMESPACE, account))
        with pytest.raises(RefusedError, match="cannot patch"):
            other.merge(POOL, {"spec": {"policy": "spread"}})
