"""A container that takes GPU time past its fence is found by its node's agent, and killed; one that
obeys is not."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.base.units import GIB
from gpupool.kubernetes.node.audit import REASON
from gpupool.mechanisms.driver.driver_files import find_simulated_libraries, find_templates
from tests.support.cluster.api import Api, Object
from tests.support.cluster.images import Image
from tests.support.cluster.node import RealNode
from tests.support.cluster.pods import has_ended
from tests.support.cluster_pool import ClusterPool, NodeParts, fresh
from tests.support.compute import NATIVE, REPOSITORY
from tests.support.kube_builders import asking, pod
from tests.support.programs_in_images import PLACE, image_of

pytestmark = [
    pytest.mark.root,
    pytest.mark.usefixtures("cards_come_back"),
    pytest.mark.skipif(
        find_templates() is None or find_simulated_libraries() is None,
        reason="gpupool-native is installed without its fence",
    ),
]

KILLED = 137


@pytest.fixture(scope="module")
def image(real_node: RealNode, tmp_path_factory: pytest.TempPathFactory) -> Image:
    source = REPOSITORY / "tests/adversary/time_evasions.c"
    made = image_of(source, tmp_path_factory.mktemp("program"), options=[f"-I{NATIVE / 'include'}"])
    real_node.containerd.load(made)
    return made


def begin(admin: Api, pods_path: str, way: str, image: Image, seconds: int) -> None:
    """A pod of that name; with a way that the program does not know it does its work and no
    more."""
    spec: dict[str, Any] = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    made = fresh(pod(way, {"main": asking(1, 300, 25 * GIB)}, spec=spec))
    made["metadata"]["namespace"] = pods_path.split("/")[4]
    made["spec"]["containers"][0] |= {"image": image.name, "command": [PLACE, way, str(seconds)]}
    admin.create(pods_path, made)


def exit_code(admin: Api, pods_path: str, name: str) -> int:
    found = admin.until(f"{pods_path}/{name}", has_ended)
    return int(found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"])


def told(admin: Api, pods_path: str, name: str) -> list[Object]:
    space = pods_path.split("/")[4]
    found = admin.get(
        f"/api/v1/namespaces/{space}/events?fieldSelector=involvedObject.name%3D{name}"
    )["items"]
    return [one for one in found if one["reason"] == REASON]


def test_a_container_past_its_fence_is_killed_and_one_that_obeys_is_not(
    admin: Api, pods_path: str, image: Image, pool: ClusterPool, parts: NodeParts
) -> None:
    begin(admin, pods_path, "own-grants", image, 60)
    begin(admin, pods_path, "obeys", image, 5)
    assert exit_code(admin, pods_path, "own-grants") == KILLED, parts.log()
    event = pool.until(
        lambda: next(iter(told(admin, pods_path, "own-grants")), None), f"{REASON} is told"
    )
    assert "container main: fence.time: its processes had" in event["message"]
    assert "(its processes were killed)" in event["message"]
    assert event["reportingComponent"] == "gpupool.dev/agent"
    assert exit_code(admin, pods_path, "obeys") == 0
    assert told(admin, pods_path, "obeys") == []
