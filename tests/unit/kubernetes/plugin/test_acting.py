"""Opening a gate reads the pod again where the controller wrote its status in between."""

from __future__ import annotations

import asyncio
import copy
from datetime import UTC, datetime
from typing import Any

from gpupool.base.errors import ApiServerRejection
from gpupool.kubernetes.client.api import KubeApi
from gpupool.kubernetes.plugin.acting import open_gate
from gpupool.kubernetes.plugin.context import Context
from gpupool.kubernetes.resources import names

PATH = "/api/v1/namespaces/lab/pods/here"
OTHER_GATE = {"name": "example.com/quota"}


def build_pod(version: int = 1, uid: str = "uid-here") -> dict[str, Any]:
    meta = {"namespace": "lab", "name": "here", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": meta, "spec": {"schedulingGates": [{"name": names.GATE}, OTHER_GATE]}}


class OnePodServer(KubeApi):
    """One pod, or none; a patch that names another version is refused, as the API server does."""

    def __init__(self, pod: dict[str, Any] | None) -> None:
        self.pod = pod
        self.patches = 0

    async def get(self, path: str, accept: str = "", **query: str) -> dict[str, Any]:
        assert path == PATH
        if self.pod is None:
            raise ApiServerRejection("not found", status=404)
        return copy.deepcopy(self.pod)

    async def patch(self, path: str, body: Any, kind: str = "", accept: str = "") -> dict[str, Any]:
        self.patches += 1
        pod = await self.get(path)
        if body["metadata"]["resourceVersion"] != pod["metadata"]["resourceVersion"]:
            raise ApiServerRejection("the object has been modified", status=409)
        assert self.pod is not None
        self.pod["spec"] |= body["spec"]
        return self.pod


def open_with(server: OnePodServer, pod: dict[str, Any]) -> None:
    asyncio.run(open_gate(Context(server, "gpupool-system", False, datetime.now(UTC)), pod))


def test_a_gate_opens_though_the_pods_status_was_written_since_it_was_listed() -> None:
    server = OnePodServer(build_pod(version=2))
    open_with(server, build_pod(version=1))
    assert server.pod is not None
    assert server.pod["spec"]["schedulingGates"] == [OTHER_GATE]
    assert server.patches == 2


def test_a_pod_that_is_gone_is_left_alone() -> None:
    server = OnePodServer(None)
    open_with(server, build_pod())
    assert server.patches == 1


def test_another_pod_of_the_same_name_keeps_its_gate() -> None:
    server = OnePodServer(build_pod(version=2, uid="uid-next"))
    open_with(server, build_pod(version=1))
    assert server.pod == build_pod(version=2, uid="uid-next")


def test_a_pod_that_the_controller_released_meanwhile_is_patched_no_more() -> None:
    released = build_pod(version=2)
    released["spec"]["schedulingGates"] = [OTHER_GATE]
    server = OnePodServer(released)
    open_with(server, build_pod(version=1))
    assert server.patches == 1
