"""What a ledger keeps for the books, on a real control plane: who was held from when to when, and
who may say so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.manifests import install
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import GpuNode
from tests.support.cluster.api import Api, RefusedError
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster_pool import ClusterPool, fresh
from tests.support.kube_builders import pod

FORBIDDEN = "GP-2031"


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("held")) as made:
        made.adopt(cluster.simulate_nodes(1, prefix="held"), 2)
        made.start("--metered")
        yield made


def the_node(pool: ClusterPool) -> GpuNode:
    (name,) = pool.agents.names
    return GpuNode.from_json(pool.admin.get(f"{ledger.NODES}/{name}"))


def test_what_ended_stays_until_the_meter_has_told_it_through_a_kill_of_the_controller(
    pool: ClusterPool, admin: Api, pods_path: str
) -> None:
    for name in ("a", "b"):
        made = fresh(pod(name))
        admin.create(
            pods_path,
            {**made, "metadata": {**made["metadata"], "namespace": pods_path.split("/")[4]}},
        )
        admin.until(f"{pods_path}/{name}", is_bound)
    held = {one.pod: one.held_ns for one in the_node(pool).entries}
    assert min(held.values()) > 0
    pool.kill()
    admin.delete(f"{pods_path}/a?gracePeriodSeconds=0")
    pool.start("--metered")
    (ended,) = pool.until(lambda: the_node(pool).ended, "what ended is kept")
    assert (ended.pod, ended.account, ended.held_ns) == ("a", "default", held["a"])
    assert the_node(pool).entries[0].held_ns == held["b"]

    access = pool.cluster.access()
    meter = access.client(access.token(install.NAMESPACE, install.METER))
    note = {"metadata": {"annotations": {names.METERED: str(ended.ended_ns)}}}
    meter.merge(f"{ledger.NODES}/{the_node(pool).name}", note)
    admin.delete(f"{pods_path}/b?gracePeriodSeconds=0")
    pool.until(lambda: [one.pod for one in the_node(pool).ended] == ["b"], "what is told is let go")


@pytest.mark.parametrize(
    ("who", "patch"),
    [
        ("admin", {"spec": {"ended": [], "ledgerNs": 1}}),
        ("admin", {"metadata": {"annotations": {names.METERED: "9"}}}),
        (install.METER, {"spec": {"mode": "observe"}}),
        (install.METER, {"spec": {"ended": []}, "metadata": {"annotations": {names.METERED: "9"}}}),
        (install.CONTROLLER, {"metadata": {"annotations": {names.METERED: "9"}}}),
    ],
)
def test_only_the_controller_keeps_it_and_only_the_meter_says_what_is_in_the_books(
    pool: ClusterPool, admin: Api, who: str, patch: dict[str, Any]
) -> None:
    access = pool.cluster.access()
    client = admin if who == "admin" else access.client(access.token(install.NAMESPACE, who))
    with pytest.raises(RefusedError, match=FORBIDDEN):
        client.merge(f"{ledger.NODES}/{the_node(pool).name}", patch)
