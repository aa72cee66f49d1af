"""A control plane with a real node: the fixtures of the folder above then mean this one."""

from collections.abc import Iterator

import pytest

from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.node.kubelet import CHECKPOINT, PLUGINS
from gpupool.kubernetes.resources import names
from tests.support.cluster.api import Api, Object
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.node import NAME, RealNode
from tests.support.cluster.session import session_cluster
from tests.support.cluster_pool import ClusterPool, NodeParts

CARDS = 4


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    with session_cluster(print) as running:
        yield running


@pytest.fixture(scope="package")
def real_node(cluster: Cluster) -> RealNode:
    return cluster.add_real_node(print)


@pytest.fixture(scope="package")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("pool")) as made:
        made.start()
        yield made


@pytest.fixture(scope="package")
def parts(
    pool: ClusterPool, real_node: RealNode, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeParts]:
    """Agent and plugin on the node, which is looked at and then adopted; its cards are
    simulated."""
    made = NodeParts(pool, real_node, tmp_path_factory.mktemp("node"), f"{CARDS}xL40S")
    before = node_as_it_is(pool.admin, real_node)
    made.start_agent()
    made.start_plugin()
    path = f"{ledger.NODES}/{NAME}"
    pool.until(
        lambda: (pool.admin.find(path) or {}).get("status", {}).get("cards"), "what the agent sees"
    )
    pool.until(lambda: "hands out no cards" in made.log(), "a plugin that waits")
    made.looked_at = before, node_as_it_is(pool.admin, real_node)
    pool.admin.merge(path, {"spec": {"mode": "slot"}})
    pool.until(lambda: allocatable(pool.admin, names.SLOT) == 512, "slots")
    pool.until(
        lambda: allocatable(pool.admin, names.GPU_MILLI) == CARDS * 1000, "what the node has"
    )
    yield made
    made.stop()


@pytest.fixture
def cards_come_back(pool: ClusterPool, parts: NodeParts, pods_path: str) -> Iterator[None]:
    """After the test nobody holds a card, and the agent has nothing on record."""
    yield
    pool.clear(pods_path)
    path = f"{ledger.NODES}/{NAME}"  # what containers used is told until the agent has seen that nobody holds a card
    pool.until(
        lambda: pool.admin.get(path)["status"]["slots"] == [],
        f"nothing is on record\n{parts.log()}",
    )


def node_as_it_is(admin: Api, node: RealNode) -> Object:
    """Of the Node object what others may see of gpupool, and the names in the folders where it
    would do something."""
    found = admin.get(f"/api/v1/nodes/{NAME}")
    plugins = {one.name for one in PLUGINS.iterdir()} - {"kubelet.sock", CHECKPOINT}
    return {
        "meta": {key: found["metadata"].get(key) for key in ("labels", "annotations")},
        "spec": found["spec"],
        "has": [found["status"][key] for key in ("capacity", "allocatable")],
        "cdi": sorted(one.name for one in node.cdi.iterdir()),
        "plugins": sorted(plugins),
    }


def allocatable(admin: Api, name: str) -> int:
    text = admin.get(f"/api/v1/nodes/{NAME}")["status"]["allocatable"].get(name, "0")
    return int(text.replace("k", "000"))
