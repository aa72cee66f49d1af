"""A device plugin for tests: anonymous ids, every call remembered in its order, and what starts
decided by the test."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from gpupool.kubernetes.node.grpc.protocol import device_plugin, pod_resources
from tests.support.cluster.machine import PLUGINS

D = device_plugin.messages
VERSION = "v1beta1"
CALL_SECONDS = 10


class NotYet(Exception):
    """Raised by a test's `before_start`: the container is to wait, with these words."""


@dataclass(frozen=True)
class Seen:
    """One call of the kubelet, and which pods its record named for the ids at that time."""

    call: str
    ids: tuple[str, ...]
    pods: tuple[str, ...]


@dataclass
class DevicePlugin:
    resource: str
    ids: Sequence[str]
    kubelet_root: Path
    cdi_name: Callable[[str], str]
    before_start: Callable[[Sequence[str]], None] = lambda ids: None
    seen: list[Seen] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        return self._options()

    def ListAndWatch(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        yield D.ListAndWatchResponse(
            devices=[D.Device(ID=one, health="Healthy") for one in self.ids]
        )
        self.stopped.wait()

    def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802
        answers = []
        for one in request.container_requests:
            self._see("Allocate", one.devices_ids)
            names = [D.CDIDevice(name=self.cdi_name(device)) for device in one.devices_ids]
            answers.append(D.ContainerAllocateResponse(cdi_devices=names))
        return D.AllocateResponse(container_responses=answers)

    def PreStartContainer(self, request: Any, context: Any) -> Any:  # noqa: N802
        self._see("PreStartContainer", request.devices_ids)
        try:
            self.before_start(list(request.devices_ids))
        except NotYet as words:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(words))
        return D.PreStartContainerResponse()

    def GetPreferredAllocation(self, request: Any, context: Any) -> Any:  # noqa: N802
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "every id is as good")

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Registered with the kubelet for as long as the block lasts."""
        socket = PLUGINS / f"tests-{self.resource.replace('/', '-')}.sock"
        with ThreadPoolExecutor(8) as pool:
            server = grpc.server(pool)
            server.add_generic_rpc_handlers([device_plugin.handlers("DevicePlugin", self)])
            server.add_insecure_port(f"unix:{socket}")
            server.start()
            try:
                self.register(socket)
                yield
            finally:
                self.stopped.set()
                server.stop(None).wait()
                socket.unlink(missing_ok=True)

    def register(self, socket: Path) -> None:
        with grpc.insecure_channel(f"unix:{PLUGINS / 'kubelet.sock'}") as channel:
            about = {"version": VERSION, "endpoint": socket.name, "resource_name": self.resource}
            request = D.RegisterRequest(**about, options=self._options())
            device_plugin.call(channel, "Registration/Register")(
                request, timeout=CALL_SECONDS, wait_for_ready=True
            )

    def _options(self) -> Any:
        return D.DevicePluginOptions(pre_start_required=True)

    def _see(self, call: str, ids: Sequence[str]) -> None:
        self.seen.append(Seen(call, tuple(sorted(ids)), self._pods_with(set(ids))))

    def _pods_with(self, ids: set[str]) -> tuple[str, ...]:
        """The kubelet's own record: namespace/pod/container of whoever holds one of the ids."""
        with grpc.insecure_channel(
            f"unix:{self.kubelet_root / 'pod-resources' / 'kubelet.sock'}"
        ) as channel:
            ask = pod_resources.call(channel, "PodResourcesLister/List")
            answer = ask(pod_resources.messages.ListPodResourcesRequest(), timeout=CALL_SECONDS)
        return tuple(
            f"{pod.namespace}/{pod.name}/{container.name}"
            for pod in answer.pod_resources
            for container in pod.containers
            if any(
                d.resource_name == self.resource and ids & set(d.device_ids)
                for d in container.devices
            )
        )
