"""Reads from this node's kubelet which container has which slot, and whether its processes run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import grpc

from gpupool.base.errors import CardNotReady
from gpupool.kubernetes.node.grpc.protocol import device_plugin, pod_resources
from gpupool.kubernetes.resources.names import SLOT
from gpupool.kubernetes.resources.slot_identity import SlotBooking, read_bookings

#: The kubelet's default --root-dir.
ROOT = Path("/var/lib/kubelet")
PLUGINS = ROOT / "device-plugins"
#: File in which the kubelet's device manager records its allocations.
CHECKPOINT = "kubelet_internal_checkpoint"
#: Seconds for one call of PodResources.
CALL_SECONDS = 3.0
#: Attempts of a call that the kubelet is too busy for.
TRIES = 50
#: Seconds between two attempts: PodResources answers 100 requests a second and refuses the others
#: at once.
BUSY_SECONDS = 0.02


class KubeletClient:
    """The kubelet of this node.

    `root` is its --root-dir; the directory of device plugins does not move with it.
    """

    def __init__(self, root: Path = ROOT, plugins: Path = PLUGINS) -> None:
        self._plugins = plugins
        self._channel = grpc.insecure_channel(
            f"unix:{root / 'pod-resources' / 'kubelet.sock'}",
            [("grpc.max_reconnect_backoff_ms", 500), ("grpc.max_receive_message_length", 64 << 20)],
        )

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()

    def read_bookings(self) -> tuple[SlotBooking, ...]:
        """Which container has which slot, by the device manager's checkpoint.

        Raises:
            CardNotReady: the checkpoint cannot be read.
        """
        try:
            content = (self._plugins / CHECKPOINT).read_bytes()
        except OSError as error:
            raise CardNotReady(f"the kubelet's checkpoint cannot be read: {error}") from None
        return read_bookings(content, SLOT, _read_device_name)

    def read_slots(self, namespace: str, pod: str) -> dict[str, list[str]]:
        """By container of the pod, its slots, by the PodResources API. Blocks, up to a few seconds.

        Raises:
            CardNotReady: the kubelet does not answer, or is too busy.
        """
        request = pod_resources.messages.GetPodResourcesRequest(
            pod_namespace=namespace, pod_name=pod
        )
        ask = pod_resources.call(self._channel, "PodResourcesLister/Get")
        for _ in range(TRIES):
            try:
                answer = ask(request, timeout=CALL_SECONDS, wait_for_ready=True)
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise CardNotReady(
                        f"PodResources of {namespace}/{pod}: {error.details()}"
                    ) from None
                time.sleep(BUSY_SECONDS)
                continue
            return {one.name: list(_list_slots(one)) for one in answer.pod_resources.containers}
        raise CardNotReady(
            f"PodResources of {namespace}/{pod}: too many requests; asked {TRIES} times"
        )


def _read_device_name(answer: bytes) -> str:
    """Return the CDI name in a ContainerAllocateResponse."""
    name: str = (
        device_plugin.messages.ContainerAllocateResponse.FromString(answer).cdi_devices[0].name
    )
    return name.partition("=")[2]


def _list_slots(container: object) -> Iterator[str]:
    for one in container.devices:  # type: ignore[attr-defined]  # a message class made at run time
        if one.resource_name == SLOT:
            yield from one.device_ids


def has_processes(uid: str, proc: Path = Path("/proc")) -> bool:
    """Whether a process of the pod is alive.

    The name of its cgroup contains the pod's uid: `pod1f-2e`, or `pod1f_2e` by the systemd driver.
    """
    names = (f"pod{uid}", f"pod{uid.replace('-', '_')}")
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # A container that may make cgroups chooses their names, and they need not be text.
            text = (entry / "cgroup").read_text(encoding="utf-8", errors="replace")
        except OSError:
            # The process has ended since it was listed.
            continue
        if any(name in text for name in names):
            return True
    return False
