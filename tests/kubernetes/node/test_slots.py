"""On a real kubelet every container gets the cards that the ledger gives its pod, and no other's."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from gpupool.kubernetes import ledger, names
from tests.support.cluster.api import Api, Object
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.images import SHELL
from tests.support.cluster.node import NAME, RealNode
from tests.support.cluster.pods import has_ended
from tests.support.cluster_pool import ClusterPool, NodeParts, fresh
from tests.support.kube_builders import asking, pod

pytestmark = pytest.mark.root

SHARE = "/run/gpupool/share/share.json"
CARDS = 4


@pytest.fixture(scope="module")
def pool(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterPool]:
    with ClusterPool(cluster, tmp_path_factory.mktemp("pool")) as made:
        made.start()
        yield made


@pytest.fixture(scope="module")
def parts(pool: ClusterPool, real_node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeParts]:
    made = NodeParts(pool, real_node, tmp_path_factory.mktemp("node"), f"{CARDS}xL40S")
    made.start_agent()
    made.start_plugin()
    path = f"{ledger.NODES}/{NAME}"
    pool.until(lambda: pool.admin.find(path), "the agent's GpuNode")
    pool.admin.merge(path, {"spec": {"mode": "slot"}})
    pool.until(lambda: allocatable(pool.admin, names.SLOT) == 512, "slots")
    pool.until(lambda: allocatable(pool.admin, names.GPU_MILLI) == CARDS * 1000, "what the node has")
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def _cards_come_back(pool: ClusterPool, parts: NodeParts, pods_path: str) -> Iterator[None]:
    yield
    pool.admin.delete(f"{pods_path}?gracePeriodSeconds=0")
    pool.until(lambda: not pool.entries()[NAME], "an empty ledger")
    node = pool.admin.get(f"{ledger.NODES}/{NAME}")
    assert node["status"]["slots"] == [], parts.log()


def allocatable(admin: Api, name: str) -> int:
    text = admin.get(f"/api/v1/nodes/{NAME}")["status"]["allocatable"].get(name, "0")
    return int(text.replace("k", "000"))


def create(admin: Api, pods_path: str, name: str, claims: dict[str, dict[str, object]], script: str) -> None:
    made = fresh(pod(name, claims, spec={"restartPolicy": "Never", "terminationGracePeriodSeconds": 0}))
    made["metadata"]["namespace"] = pods_path.split("/")[4]
    for container in made["spec"]["containers"]:
        container |= {"image": SHELL.name, "command": ["/bin/sh", "-c", script]}
    admin.create(pods_path, made)


def told(admin: Api, pods_path: str, name: str, container: str = "main") -> Object:
    """What the container saw of its share."""
    found: Object = json.loads(admin.text(f"{pods_path}/{name}/log?container={container}"))
    return found


def test_each_of_many_containers_at_once_sees_its_own_cards(
    pool: ClusterPool, parts: NodeParts, admin: Api, pods_path: str
) -> None:
    sizes = [100, 150, 200, 250, 300]
    for n in range(15):
        one, two = asking(1, sizes[n % 5], 1 << 30), asking(1, 50, 1 << 29)
        claims = {"main": one, "side": two} if n % 3 == 0 else {"main": one}
        create(admin, pods_path, f"p-{n}", claims, f"cat {SHARE}")
    ended = [admin.until(f"{pods_path}/p-{n}", has_ended) for n in range(15)]
    assert {found["status"]["phase"] for found in ended} == {"Succeeded"}, parts.log()
    wrong = 0
    for n, found in enumerate(ended):
        placed = found["metadata"]["annotations"][names.PLACED]
        for container in found["spec"]["containers"]:
            share = told(admin, pods_path, f"p-{n}", container["name"])
            (card,) = share["devices"]
            part = placed.split(": ", 1)[1].split(f"{container['name']}: ")[1].split(";")[0]
            wrong += card["uuid"] not in part or card["gpu_milli"] not in (sizes[n % 5], 50)
    assert wrong == 0


def test_a_restarted_container_has_its_cards_again_also_after_agent_and_plugin_were_killed(
    pool: ClusterPool, parts: NodeParts, admin: Api, pods_path: str
) -> None:
    made = fresh(pod("again", {"main": asking(1, 200, 1 << 30)}, spec={"restartPolicy": "OnFailure"}))
    made["metadata"]["namespace"] = pods_path.split("/")[4]
    script = f"cat {SHARE}; test -e /tmp/x"
    made["spec"]["containers"][0] |= {"image": SHELL.name, "command": ["/bin/sh", "-c", script]}
    admin.create(pods_path, made)
    admin.until(f"{pods_path}/again", lambda p: restarts(p) >= 1)
    assert parts.agent is not None
    assert parts.plugin is not None
    parts.agent.kill()
    parts.plugin.kill()
    parts.agent.wait()
    parts.plugin.wait()
    before = restarts(admin.get(f"{pods_path}/again"))
    parts.start_agent()
    parts.start_plugin()
    admin.until(f"{pods_path}/again", lambda p: restarts(p) > before, 90)
    (card,) = told(admin, pods_path, "again")["devices"]
    assert card["uuid"] in admin.get(f"{pods_path}/again")["metadata"]["annotations"][names.PLACED]


def restarts(found: Object) -> int:
    return sum(one["restartCount"] for one in found["status"].get("containerStatuses", ()))
