"""Tenants on a real control plane: limits that hold, trees that are refused with their numbers,
columns people read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.kubernetes.resources.tenant import TENANTS
from tests.support.cluster.api import Api, Object
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster_pool import ClusterPool, fresh
from tests.support.kube_builders import asking, pod, tenant

WHOLE = {"main": asking(1, 1000, None)}
CARDS = 4


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("tenants")) as made:
        made.adopt(cluster.simulate_nodes(1, prefix="tenants"), CARDS)
        made.start()
        yield made


@pytest.fixture(autouse=True)
def _nothing_is_left(pool: ClusterPool, pods_path: str) -> Iterator[None]:
    yield
    assert pool.running, pool.log()
    pool.admin.delete(f"{pods_path}?gracePeriodSeconds=0")
    pool.admin.delete(TENANTS)
    pool.until(lambda: not any(pool.entries().values()), "every ledger empty")


def apply(admin: Api, *made: Object) -> None:
    for one in made:
        admin.apply(f"{TENANTS}/{one['metadata']['name']}", one)


def create(admin: Api, pods_path: str, name: str) -> None:
    made = fresh(pod(name, WHOLE))
    made["metadata"]["namespace"] = space(pods_path)
    admin.create(pods_path, made)


def space(pods_path: str) -> str:
    return pods_path.split("/")[4]


def in_force(found: Object) -> dict[str, Any]:
    conditions = {one["type"]: one for one in found.get("status", {}).get("conditions", ())}
    return conditions.get("InForce", {})


def until_said(admin: Api, name: str, status: str) -> Object:
    """Its condition about the spec as it is now."""

    def said(found: Object) -> bool:
        observed = (
            found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"]
        )
        return observed and in_force(found).get("status") == status

    return admin.until(f"{TENANTS}/{name}", said)


def limit(nominal: str) -> dict[str, dict[str, str]]:
    return {"gpu": {"nominal": nominal, "borrowing": "0"}}


def test_a_limit_holds_is_told_and_shown_and_gives_way_when_it_is_raised(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    apply(
        admin,
        tenant("lab", limits=limit("3")),
        tenant("vision", "lab", [space(pods_path)], limits=limit("2")),
    )
    until_said(admin, "vision", "True")
    for n in range(4):
        create(admin, pods_path, f"p-{n}")
    shown = {"held": {"gpu": "2"}, "waiting": 2}
    for name in ("vision", "lab"):
        status = admin.until(
            f"{TENANTS}/{name}", lambda t: t["status"]["waiting"] == shown["waiting"]
        )["status"]
        assert status["held"]["gpu"] == "2"
    bound = [one for one in admin.get(pods_path)["items"] if is_bound(one)]
    assert len(bound) == 2
    entries = [entry["tenant"] for found in pool.entries().values() for entry in found]
    assert entries == ["vision"] * 2
    apply(admin, tenant("vision", "lab", [space(pods_path)], limits=limit("3")))
    admin.until(f"{TENANTS}/vision", lambda t: t["status"]["held"]["gpu"] == "3")


def test_a_limit_of_one_vendor_holds_what_is_beyond_it(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    of_vendor = {"gpu:nvidia": limit("1")["gpu"]}
    apply(admin, tenant("vision", None, [space(pods_path)], limits=of_vendor))
    until_said(admin, "vision", "True")
    for name in ("one", "two"):
        create(admin, pods_path, name)
    status = admin.until(f"{TENANTS}/vision", lambda t: t["status"]["waiting"] == 1)["status"]
    assert status["held"]["gpu"] == "1"
    assert status["inForce"]["limits"] == {"gpu:NVIDIA": {"nominal": "1", "borrowing": "0"}}


def test_a_tree_that_does_not_add_up_is_told_and_the_last_one_holds_also_for_a_new_leader(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    apply(
        admin,
        tenant("lab", limits=limit("2")),
        tenant("vision", "lab", [space(pods_path)], limits=limit("1")),
    )
    until_said(admin, "vision", "True")
    apply(admin, tenant("vision", "lab", [space(pods_path)], limits=limit("4")))
    refused = in_force(until_said(admin, "vision", "False"))
    assert "GP-2014" in refused["message"]
    assert "lab is guaranteed 2 gpu, those in it 4: vision 4" in refused["message"]
    pool.kill()
    pool.start()
    create(admin, pods_path, "one")
    create(admin, pods_path, "two")
    status = admin.until(f"{TENANTS}/vision", lambda t: t["status"]["waiting"] == 1)["status"]
    assert status["held"]["gpu"] == "1"
    assert status["inForce"]["limits"]["gpu"]["nominal"] == "1"


def test_kubectl_shows_what_is_guaranteed_held_and_in_force(
    admin: Api, pool: ClusterPool, pods_path: str
) -> None:
    apply(admin, tenant("vision", None, [space(pods_path)], limits=limit("2.5")))
    until_said(admin, "vision", "True")
    crd = admin.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/tenants.gpupool.dev")
    columns = [one["name"] for one in crd["spec"]["versions"][0]["additionalPrinterColumns"]]
    assert columns == ["Parent", "Nominal", "Held", "Waiting", "In force"]
