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


@pytest.mark.parametrize("rounds", [3])
def test_of_64_pods_at_once_none_sees_a_card_of_another(
    pool: ClusterPool, parts: NodeParts, admin: Api, pods_path: str, rounds: int
) -> None:
    """Mixed shares, every third pod with two containers; the next round takes the slots that the last one left."""
    wrong = 0
    for turn in range(rounds):
        names_of = [f"p-{turn}-{n}" for n in range(64)]
        for n, name in enumerate(names_of):
            claims = {"main": asking(1, SIZES[n % 5], 256 << 20)}
            claims |= {"side": asking(1, 20, 128 << 20)} if n % 3 == 0 else {}
            create(admin, pods_path, name, claims, f"cat {SHARE}")
        ended = [admin.until(f"{pods_path}/{name}", has_ended, 240) for name in names_of]
        assert {found["status"]["phase"] for found in ended} == {"Succeeded"}, parts.log()
        wrong += sum(_wrong(admin, pods_path, found) for found in ended)
        admin.delete(f"{pods_path}?gracePeriodSeconds=0")
    assert wrong == 0


SIZES = [20, 30, 40, 50, 60]


def _wrong(admin: Api, pods_path: str, found: Object) -> int:
    """Containers that saw other cards, or another size, than the ledger gave them."""
    told_of = dict(
        part.split(": ", 1) for part in found["metadata"]["annotations"][names.PLACED].split(": ", 1)[1].split("; ")
    )
    name, count = found["metadata"]["name"], 0
    size = SIZES[int(name.rsplit("-", 1)[1]) % 5]
    for container in found["spec"]["containers"]:
        (card,) = told(admin, pods_path, name, container["name"])["devices"]
        asked = size if container["name"] == "main" else 20
        count += card["uuid"] not in told_of[container["name"]] or card["gpu_milli"] != asked
    return count


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
