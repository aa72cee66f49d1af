"""What this node's kubelet says of its pods: its checkpoint of devices, PodResources, and the processes it started."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import grpc

from gpupool.base.errors import CardNotReady
from gpupool.kubernetes._wire.protocol import device_plugin, pod_resources
from gpupool.kubernetes.identity import Booking, bookings
from gpupool.kubernetes.names import SLOT

ROOT = Path("/var/lib/kubelet")
PLUGINS = ROOT / "device-plugins"
CHECKPOINT = "kubelet_internal_checkpoint"
CALL_SECONDS = 3.0
TRIES, BUSY_SECONDS = 50, 0.02
"""PodResources answers 100 requests a second and refuses the others at once."""


class Kubelet:
    """`root` is its --root-dir; its folder of plugins does not move with it."""

    def __init__(self, root: Path = ROOT, plugins: Path = PLUGINS) -> None:
        self._plugins = plugins
        self._channel = grpc.insecure_channel(
            f"unix:{root / 'pod-resources' / 'kubelet.sock'}",
            [("grpc.max_reconnect_backoff_ms", 500), ("grpc.max_receive_message_length", 64 << 20)],
        )

    def close(self) -> None:
        self._channel.close()

    def bookings(self) -> tuple[Booking, ...]:
        """Who has which slot. Raises CardNotReady where the checkpoint cannot be read."""
        try:
            content = (self._plugins / CHECKPOINT).read_bytes()
        except OSError as error:
            raise CardNotReady(f"the kubelet's checkpoint cannot be read: {error}") from None
        return bookings(content, SLOT, _device)

    def slots(self, namespace: str, pod: str) -> dict[str, list[str]]:
        """By container of the pod its slots, as PodResources has it. Raises CardNotReady."""
        request = pod_resources.messages.GetPodResourcesRequest(pod_namespace=namespace, pod_name=pod)
        ask = pod_resources.call(self._channel, "PodResourcesLister/Get")
        for _ in range(TRIES):
            try:
                answer = ask(request, timeout=CALL_SECONDS, wait_for_ready=True)
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise CardNotReady(f"PodResources of {namespace}/{pod}: {error.details()}") from None
                time.sleep(BUSY_SECONDS)
                continue
            return {one.name: list(_slots(one)) for one in answer.pod_resources.containers}
        raise CardNotReady(f"PodResources of {namespace}/{pod}: too many requests; asked {TRIES} times")


def _device(answer: bytes) -> str:
    """The CDI name out of a ContainerAllocateResponse."""
    name: str = device_plugin.messages.ContainerAllocateResponse.FromString(answer).cdi_devices[0].name
    return name.partition("=")[2]


def _slots(container: object) -> Iterator[str]:
    for one in container.devices:  # type: ignore[attr-defined]  # a message class made at run time
        if one.resource_name == SLOT:
            yield from one.device_ids


def runs(uid: str, proc: Path = Path("/proc")) -> bool:
    """Whether a process of the pod is alive: its cgroup's name has the pod's uid (`pod1f-2e`, systemd's `pod1f_2e`)."""
    names = (f"pod{uid}", f"pod{uid.replace('-', '_')}")
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "cgroup").read_text()
        except OSError:
            continue  # it has ended since it was listed
        if any(name in text for name in names):
            return True
    return False
