"""A real control plane for each process of the session, a namespace for each test. Every test here
carries the marker.

Three processes share the modules (`make test-kubernetes`): most of the time they wait for programs.
There is one real node on a machine, so all that is about it is one process's.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.file_order import LongestFirst
from tests.support.cluster.api import Api
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.session import session_cluster

ON_THE_MACHINE = ("node", "installed", "rig")
"""Folders of tests that have the real node, or look at what is left on the machine."""

_numbers = itertools.count(1)


class ByModule(LongestFirst):
    """A module is one process's, and so is all that is about the real node."""

    def _split_scope(self, nodeid: str) -> str:
        module, _, _ = nodeid.partition("::")
        return "the real node" if Path(module).parent.name in ON_THE_MACHINE else module


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadScopeScheduling | None:
    return ByModule(config, log) if config.getoption("dist") == "loadscope" else None


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
    admin.create(
        "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    admin.until(f"/api/v1/namespaces/{name}/serviceaccounts/default", bool)
    yield f"/api/v1/namespaces/{name}/pods"
    admin.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="session")
def simulated_nodes(cluster: Cluster) -> list[str]:
    return cluster.simulate_nodes(3, {"gpupool.test/card": "8"})
