"""One real control plane for the whole session, a namespace for each test. Every test here carries the marker."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster.api import Api
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.session import session_cluster

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.kubernetes)


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with session_cluster(print) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[Api]:
    client = cluster.admin()
    yield client
    client.close()


@pytest.fixture
def pods_path(admin: Api) -> Iterator[str]:
    """Where the pods of this test's own namespace are."""
    name = f"test-{next(_numbers)}"
    admin.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    admin.until(f"/api/v1/namespaces/{name}/serviceaccounts/default", bool)
    yield f"/api/v1/namespaces/{name}/pods"
    admin.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="session")
def simulated_nodes(cluster: Cluster) -> list[str]:
    return cluster.simulate_nodes(3, {"gpupool.test/card": "8"})
