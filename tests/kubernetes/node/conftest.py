"""A control plane with a real node: the fixtures of the folder above then mean this one."""

from collections.abc import Iterator

import pytest

from tests.support.cluster.cluster import Cluster
from tests.support.cluster.node import RealNode
from tests.support.cluster.session import session_cluster


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    with session_cluster(print) as running:
        yield running


@pytest.fixture(scope="package")
def real_node(cluster: Cluster) -> RealNode:
    return cluster.add_real_node(print)
