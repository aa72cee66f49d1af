"""Pods on a real kubelet, containerd and runc."""

from pathlib import Path

import pytest

from tests.support.cluster.api import Api
from tests.support.cluster.cluster import Cluster
from tests.support.cluster.images import Image
from tests.support.cluster.node import NAME, RealNode
from tests.support.cluster.pods import has_ended, pod

pytestmark = pytest.mark.root


def test_a_pod_runs_and_ends_and_its_words_are_its_log(
    admin: Api, pods_path: str, real_node: RealNode
) -> None:
    admin.create(pods_path, pod("p", command=["/bin/echo", "from inside"]))
    found = admin.until(f"{pods_path}/p", has_ended)
    assert (found["status"]["phase"], found["spec"]["nodeName"]) == ("Succeeded", NAME)
    assert admin.text(f"{pods_path}/p/log") == "from inside\n"


def test_a_pods_exit_code_is_reported(admin: Api, pods_path: str, real_node: RealNode) -> None:
    admin.create(pods_path, pod("p", command=["/bin/sh", "-c", "exit 3"]))
    found = admin.until(f"{pods_path}/p", has_ended)
    (container,) = found["status"]["containerStatuses"]
    assert (found["status"]["phase"], container["state"]["terminated"]["exitCode"]) == ("Failed", 3)


def test_a_gated_pod_runs_when_it_is_released(
    admin: Api, pods_path: str, real_node: RealNode
) -> None:
    admin.create(pods_path, pod("p", gates=["gpupool.test/placement"]))
    admin.merge(f"{pods_path}/p", {"spec": {"schedulingGates": None}})
    assert admin.until(f"{pods_path}/p", has_ended)["status"]["phase"] == "Succeeded"


def test_an_image_carries_files_of_the_machine(
    admin: Api, pods_path: str, real_node: RealNode, tmp_path: Path
) -> None:
    tool = tmp_path / "tool"
    tool.write_text("#!/bin/sh\necho a tool of ours\n")
    tool.chmod(0o755)
    image = Image("gpupool.test/with-tool:1", files={"/opt/tool": tool})
    real_node.containerd.load(image)
    wanted = pod("p", command=["/opt/tool"])
    wanted["spec"]["containers"][0]["image"] = image.name
    admin.create(pods_path, wanted)
    admin.until(f"{pods_path}/p", has_ended)
    assert admin.text(f"{pods_path}/p/log") == "a tool of ours\n"


def test_a_deleted_pod_is_ended_and_gone(admin: Api, pods_path: str, real_node: RealNode) -> None:
    admin.create(pods_path, pod("p", command=["/bin/sleep", "600"]))
    admin.until(f"{pods_path}/p", lambda p: p["status"].get("phase") == "Running")
    admin.delete(f"{pods_path}/p")
    admin.until_gone(f"{pods_path}/p")


def test_running_pods_outlive_a_kubelet_that_is_killed(
    cluster: Cluster, admin: Api, pods_path: str, real_node: RealNode
) -> None:
    admin.create(pods_path, pod("p", command=["/bin/sleep", "600"]))
    running = admin.until(f"{pods_path}/p", lambda p: p["status"].get("phase") == "Running")
    cluster.processes.kill("kubelet")
    cluster.add_real_node(print)
    found = admin.get(f"{pods_path}/p")
    assert found["status"]["phase"] == "Running"
    before, after = (
        one["status"]["containerStatuses"][0]["containerID"] for one in (running, found)
    )
    assert before == after
