"""The kubelet of a node says which container has which slot."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from gpupool.base.errors import CardNotReady
from gpupool.kubernetes.node import kubelet
from gpupool.kubernetes.node.grpc.protocol import device_plugin, pod_resources
from gpupool.kubernetes.node.kubelet import CHECKPOINT, KubeletClient, has_processes
from gpupool.kubernetes.resources.names import SLOT

D = device_plugin.messages
P = pod_resources.messages


class PodResources:
    """Answers from `busy` refusals on; a pod that is not `a` is unknown."""

    def __init__(self) -> None:
        self.busy = 0
        self.asked = 0

    def Get(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        self.asked += 1
        if self.asked <= self.busy:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        if (request.pod_namespace, request.pod_name) != ("team", "a"):
            context.abort(grpc.StatusCode.NOT_FOUND, "no such pod")
        devices = [
            P.ContainerDevices(resource_name=SLOT, device_ids=["s1", "s2"]),
            P.ContainerDevices(resource_name="example.com/nic", device_ids=["n1"]),
        ]
        containers = [
            P.ContainerResources(name="main", devices=devices),
            P.ContainerResources(name="side"),
        ]
        return P.GetPodResourcesResponse(
            pod_resources=P.PodResources(name="a", namespace="team", containers=containers)
        )

    def List(self, _request: Any, context: Any) -> Any:  # noqa: N802
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "not here")

    GetAllocatableResources = List


@pytest.fixture
def service() -> PodResources:
    return PodResources()


@pytest.fixture
def client(
    service: PodResources, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KubeletClient]:
    # A short path: a Unix socket's holds 107 bytes.
    root: Path = tmp_path_factory.mktemp("k")
    (root / "pod-resources").mkdir()
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        server.add_generic_rpc_handlers([pod_resources.handlers("PodResourcesLister", service)])
        server.add_insecure_port(f"unix:{root / 'pod-resources' / 'kubelet.sock'}")
        server.start()
        made = KubeletClient(root, root)
        yield made
        made.close()
        server.stop(None).wait()


def test_read_slots_lists_our_resource_by_container(client: KubeletClient) -> None:
    assert client.read_slots("team", "a") == {"main": ["s1", "s2"], "side": []}


def test_read_slots_asks_a_busy_kubelet_again(
    client: KubeletClient, service: PodResources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubelet, "BUSY_SECONDS", 0.0)
    service.busy = 3
    assert client.read_slots("team", "a")["main"] == ["s1", "s2"]
    assert service.asked == 4


def test_read_slots_gives_up_on_a_kubelet_that_stays_busy(
    client: KubeletClient, service: PodResources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubelet, "BUSY_SECONDS", 0.0)
    monkeypatch.setattr(kubelet, "TRIES", 3)
    service.busy = 100
    with pytest.raises(CardNotReady, match="team/a: too many requests; asked 3 times"):
        client.read_slots("team", "a")


def test_read_slots_of_an_unknown_pod_is_refused_at_once(
    client: KubeletClient, service: PodResources
) -> None:
    with pytest.raises(CardNotReady, match="PodResources of team/b: no such pod"):
        client.read_slots("team", "b")
    assert service.asked == 1


def test_read_bookings_has_the_cdi_name_of_the_plugins_answer(tmp_path: Path) -> None:
    client = KubeletClient(tmp_path, tmp_path)
    with pytest.raises(CardNotReady, match="checkpoint cannot be read"):
        client.read_bookings()
    answer = D.ContainerAllocateResponse(cdi_devices=[D.CDIDevice(name=f"{SLOT}=s1-ab")])
    line = {
        "PodUID": "u",
        "ContainerName": "main",
        "ResourceName": SLOT,
        "DeviceIDs": {"-1": ["s1"]},
        "AllocResp": base64.b64encode(answer.SerializeToString()).decode(),
    }
    (tmp_path / CHECKPOINT).write_text(json.dumps({"Data": {"PodDeviceEntries": [line]}}))
    (booking,) = client.read_bookings()
    client.close()
    assert (booking.uid, booking.slots, booking.device) == ("u", frozenset({"s1"}), "s1-ab")


@pytest.mark.parametrize(
    ("cgroup", "expected"),
    [
        ("0::/kubepods/burstable/pod1f-2e/abc\n", True),
        ("0::/kubepods.slice/kubepods-pod1f_2e.slice/cri-abc.scope\n", True),
        ("0::/kubepods/pod1f-2f/abc\n", False),
    ],
)
def test_has_processes_finds_the_uid_in_both_kinds_of_cgroup(
    tmp_path: Path, cgroup: str, expected: bool
) -> None:
    for name in ("self", "7", "8"):
        (tmp_path / name).mkdir()
    (tmp_path / "self" / "cgroup").write_text("0::/pod1f-2e\n")
    # Process 7 has ended since it was listed: its file is gone.
    (tmp_path / "8" / "cgroup").write_text(cgroup)
    assert has_processes("1f-2e", tmp_path) is expected


def test_has_processes_passes_over_cgroups_whose_name_is_no_text(tmp_path: Path) -> None:
    """A container that may make cgroups calls them as it likes; such a name is in every look."""
    for name, cgroup in (("7", b"0::/kubepods/podaa/\xff\n"), ("8", b"0::/kubepods/pod1f-2e\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "cgroup").write_bytes(cgroup)
    assert has_processes("1f-2e", tmp_path)
    assert not has_processes("3c-4d", tmp_path)
