"""Answers to the controller's own writes that come after the watch has told more: they change
nothing any more."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from gpupool.kubernetes.ledger import ledger
from tests.support.cluster.api import Api
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster_pool import ClusterPool, fresh
from tests.support.kube_builders import pod
from tests.support.kube_faults.doors import Trap
from tests.support.kube_faults.replicas import Replica, Replicas, doors_of

PREFIX, LIMIT_SECONDS = "late", 60.0
NODE = f"{PREFIX}-00000"


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("late")) as made:
        made.adopt(cluster.simulate_nodes(2, prefix=PREFIX), 1)
        yield made


@pytest.fixture(params=[False, True], ids=["by the gate", "direct"])
def controller(
    request: pytest.FixtureRequest, cluster: Cluster, pool: ClusterPool
) -> Iterator[Replica]:
    settings = json.dumps({"direct": request.param})
    with doors_of(cluster) as doors:
        one = Replicas(pool, doors, pool.place).make("--alone", "--settings", settings)
        yield one
        one.bury()


def create(admin: Api, pods_path: str, name: str, node: str = "") -> None:
    spec = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    admin.create(pods_path, fresh(pod(name, namespace=pods_path.split("/")[4], spec=spec)))


def test_a_pod_that_went_before_its_release_was_answered_does_not_come_back(
    pool: ClusterPool, controller: Replica, admin: Api, pods_path: str
) -> None:
    trap = Trap("release", lambda: None, after=True, holds=True)
    controller.door.set(trap)
    create(admin, pods_path, "gone")
    assert trap.sprung.wait(LIMIT_SECONDS)
    admin.delete(f"{pods_path}/gone?gracePeriodSeconds=0")
    create(admin, pods_path, "later")
    admin.until(f"{pods_path}/later", is_bound)  # so the watch has told that the other is gone
    controller.door.let_pass()
    admin.delete(f"{pods_path}/later?gracePeriodSeconds=0")
    pool.until(lambda: not any(pool.entries().values()), "every ledger empty", LIMIT_SECONDS)


def test_a_ledger_that_went_with_its_node_does_not_hide_the_one_of_the_next_node(
    cluster: Cluster, pool: ClusterPool, controller: Replica, admin: Api, pods_path: str
) -> None:
    trap = Trap("ledger", lambda: None, after=True, holds=True)
    create(admin, pods_path, "first", NODE)
    admin.until(f"{pods_path}/first", is_bound)
    controller.door.set(trap)
    create(admin, pods_path, "second", NODE)
    assert trap.sprung.wait(LIMIT_SECONDS)
    pool.agents.names.discard(NODE)
    admin.delete(f"/api/v1/nodes/{NODE}")
    admin.delete(f"{pods_path}?gracePeriodSeconds=0")
    admin.until_gone(f"{ledger.NODES}/{NODE}", LIMIT_SECONDS)
    cluster.simulate_nodes(2, prefix=PREFIX)
    pool.adopt([NODE], 1)
    controller.door.let_pass()
    create(admin, pods_path, "third", NODE)
    admin.until(f"{pods_path}/third", is_bound, LIMIT_SECONDS)
    admin.delete(f"{pods_path}?gracePeriodSeconds=0")
    pool.until(lambda: not any(pool.entries().values()), "every ledger empty", LIMIT_SECONDS)
