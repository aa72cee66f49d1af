"""etcd is put back to an older copy while the controller lives: what was done since is gone, and it
learns that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpupool.kubernetes.ledger import ledger
from tests.support.cluster.api import Api
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.pods import is_bound
from tests.support.cluster_pool import ClusterPool, fresh
from tests.support.kube_builders import asking, pod
from tests.support.kube_faults.agents import Agents
from tests.support.kube_faults.replicas import Replica, Replicas, doors_of

NODE, LIMIT_SECONDS = "restored-00000", 60.0
AHEAD = 400
"""So many versions the server is behind afterwards: more than it makes by itself while it
starts."""
MORE = 5
"""So many pods come and go before, that the ledger is written more often than in all that
follows."""


@pytest.fixture(scope="module")
def agents(cluster: Cluster) -> Agents:
    return Agents(cluster.admin(), seed=1)


@pytest.fixture(scope="module")
def pool(
    cluster: Cluster, agents: Agents, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("restored"), agents) as made:
        made.adopt(cluster.simulate_nodes(1, prefix="restored"), 2)
        yield made


@pytest.fixture
def controller(cluster: Cluster, pool: ClusterPool) -> Iterator[Replica]:
    with doors_of(cluster) as doors:
        one = Replicas(pool, doors, pool.place).make("--alone")
        yield one
        one.bury()


def create(admin: Api, pods_path: str, name: str) -> None:
    """It wants more than half a card: two cards have room for two."""
    made = pod(name, {"main": asking(1, 600)}, namespace=pods_path.split("/")[4])
    admin.create(pods_path, fresh(made))
    admin.until(f"{pods_path}/{name}", is_bound, LIMIT_SECONDS)


def end(pool: ClusterPool, pods_path: str, name: str) -> None:
    pool.admin.delete(f"{pods_path}/{name}?gracePeriodSeconds=0")
    pool.until(lambda: name not in held(pool), f"{name} is in no ledger", LIMIT_SECONDS)


def held(pool: ClusterPool) -> list[str]:
    return sorted(entry["pod"] for entry in pool.entries()[NODE])


def version(admin: Api) -> tuple[int, int]:
    """Of the ledger: its generation, and its state."""
    meta: dict[str, Any] = admin.get(f"{ledger.NODES}/{NODE}")["metadata"]
    return meta["generation"], int(meta["resourceVersion"])


def test_after_a_restore_the_list_is_the_truth(
    cluster: Cluster, pool: ClusterPool, agents: Agents, controller: Replica, pods_path: str
) -> None:
    create(pool.admin, pods_path, "kept")
    cluster.copy_store()
    pool.admin.close()
    end(pool, pods_path, "kept")
    for number in range(MORE):
        create(pool.admin, pods_path, f"short-{number}")
        end(pool, pods_path, f"short-{number}")
    for name in ("gone-1", "gone-2"):
        create(pool.admin, pods_path, name)
    for number in range(AHEAD):
        pool.admin.merge(
            f"/api/v1/nodes/{NODE}", {"metadata": {"annotations": {"test/number": str(number)}}}
        )
    before = version(pool.admin)
    agents.kill()
    cluster.restore_store()
    pool.admin.close()
    agents.forget(NODE)
    agents.revive()
    assert version(pool.admin) < before
    assert held(pool) == ["kept"]
    create(pool.admin, pods_path, "new")
    assert held(pool) == ["kept", "new"]
    end(pool, pods_path, "kept")
    create(pool.admin, pods_path, "next")
    assert version(pool.admin) < before, (
        "its versions are still lower than those that the controller had seen"
    )
    assert agents.broken == []
    assert controller.lives
    for name in ("new", "next"):
        end(pool, pods_path, name)
