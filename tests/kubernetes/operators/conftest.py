"""A pool of eight cards on two simulated nodes, whose kubelets say of every pod that it runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.api import Api
from tests.support.cluster.cluster import Cluster
from tests.support.cluster_pool import ClusterPool
from tests.support.operators.space import Space
from tests.support.simulated_kubelet import SimulatedKubelet

CARDS = 4


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.operators)


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("operators")) as made:
        made.adopt(cluster.simulate_nodes(2, prefix="operators"), CARDS)
        made.start()
        made.start_webhook("native")
        yield made


@pytest.fixture(scope="module")
def kubelet(cluster: Cluster) -> Iterator[SimulatedKubelet]:
    with SimulatedKubelet(cluster.admin()) as made:
        yield made


@pytest.fixture
def space(pool: ClusterPool, admin: Api, pods_path: str) -> Space:
    return Space(admin, pool, pods_path.split("/")[4])
