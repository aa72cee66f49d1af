"""What containers use is told by their node's agent from their bind on, and by `kubectl gpupool
top`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gpupool.base.units import GIB, MIB
from gpupool.kubernetes.manifests import install
from gpupool.mechanisms.driver.driver_files import find_simulated_libraries, find_templates
from tests.support.cluster.api import Api, Object
from tests.support.cluster.images import SHELL
from tests.support.cluster.node import NAME, RealNode
from tests.support.cluster_pool import ClusterPool, NodeParts, fresh
from tests.support.kube_builders import asking, pod
from tests.support.kube_people import People, cluster_admin
from tests.support.programs_in_images import PLACE, image_of

pytestmark = [
    pytest.mark.root,
    pytest.mark.usefixtures("cards_come_back"),
    pytest.mark.skipif(
        find_templates() is None or find_simulated_libraries() is None,
        reason="gpupool-native is installed without its fence",
    ),
]

TAKES = Path(__file__).parent / "takes_memory.c"
TAKEN = 5 * 64 * MIB
SPACE = f"/api/v1/namespaces/{install.NAMESPACE}/pods"


def agents_pod(port: int) -> Object:
    """Stands where a DaemonSet's pod would: on the node's own network, where the agent of this test
    listens."""
    door = {"name": "agent", "image": SHELL.name, "command": ["/bin/sleep", "600"]}
    spec = {
        "nodeName": NAME,
        "hostNetwork": True,
        "terminationGracePeriodSeconds": 0,
        "containers": [door],
    }
    door["ports"] = [{"name": "metrics", "containerPort": port}]
    return {
        "metadata": {"name": "agent", "labels": {"app.kubernetes.io/component": "agent"}},
        "spec": spec,
    }


def told(admin: Api, port: int, pods_path: str) -> Mapping[str, Mapping[str, float]]:
    """By pod and name what the agent's metrics say of this namespace, asked by the API server's
    way."""
    families = text_string_to_metric_families(admin.text(f"{SPACE}/agent:{port}/proxy/metrics"))
    found: dict[str, dict[str, float]] = {}
    for sample in (sample for family in families for sample in family.samples):
        if sample.labels.get("namespace") == pods_path.split("/")[4]:
            found.setdefault(sample.labels["pod"], {})[sample.name] = sample.value
    return found


def test_limits_are_told_from_the_bind_on_and_use_once_there_is_some(
    pool: ClusterPool,
    parts: NodeParts,
    admin: Api,
    pods_path: str,
    real_node: RealNode,
    tmp_path: Path,
) -> None:
    image = image_of(TAKES, tmp_path)
    real_node.containerd.load(image)
    admin.until(f"/api/v1/namespaces/{install.NAMESPACE}/serviceaccounts/default", bool)
    admin.create(SPACE, agents_pod(parts.metrics_port))
    words = {"busy": (image, [PLACE, "64", "5", "stay"]), "never": (SHELL, ["/bin/nothing"])}
    for name, (shown, command) in words.items():
        made = fresh(
            pod(name, {"main": asking(1, 200, GIB)}, spec={"terminationGracePeriodSeconds": 0})
        )
        made["metadata"]["namespace"] = pods_path.split("/")[4]
        made["spec"]["containers"][0] |= {"image": shown.name, "command": command}
        admin.create(pods_path, made)
    admin.until(f"{SPACE}/agent", lambda found: found["status"].get("phase") == "Running")

    def look() -> Any:
        found = told(admin, parts.metrics_port, pods_path)
        return found if found.get("busy", {}).get(USED, 0) >= TAKEN and "never" in found else None

    found = pool.until(look, "what the container took")
    assert TAKEN <= found["busy"][USED] < GIB
    assert found["never"][USED] == 0
    for name in words:
        assert (found[name][f"{LIMIT}_milli"], found[name][f"{LIMIT}_bytes"]) == (200, GIB)

    rows = {row["pod"]: row for row in People(cluster_admin(pool.cluster)).data("top")}
    space = pods_path.split("/")[4]
    assert rows[f"{space}/busy"]["memory_used_bytes"] == found["busy"][USED]
    assert rows[f"{space}/never"]["memory_used_bytes"] == 0
    assert rows[f"{space}/never"]["gpu_seconds"] == 0
    admin.delete(f"{SPACE}/agent")


USED, LIMIT = "gpupool_container_memory_used_bytes", "gpupool_container_limit"
