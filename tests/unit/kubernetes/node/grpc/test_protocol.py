import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from gpupool.kubernetes.node.grpc.protocol import (
    Messages,
    device_plugin,
    pod_resources,
    resource_allocation,
)

D = device_plugin.messages


def test_a_message_has_the_bytes_that_protobuf_says() -> None:
    device = D.Device(ID="a", health="Healthy", topology=D.TopologyInfo(nodes=[D.NUMANode(ID=1)]))
    assert device.SerializeToString() == b"\n\x01a\x12\x07Healthy\x1a\x04\n\x02\x08\x01"


def test_a_map_is_a_repeated_entry_of_key_and_value() -> None:
    answer = D.ContainerAllocateResponse(envs={"K": "v"})
    assert answer.SerializeToString() == b"\n\x06\n\x01K\x12\x01v"
    assert dict(D.ContainerAllocateResponse.FromString(answer.SerializeToString()).envs) == {
        "K": "v"
    }


def test_a_map_may_have_messages_as_values() -> None:
    messages = resource_allocation.messages
    prepared = messages.NodePrepareResourceResponse(error="no card")
    answer = messages.NodePrepareResourcesResponse(claims={"uid-1": prepared})
    again = messages.NodePrepareResourcesResponse.FromString(answer.SerializeToString())
    assert again.claims["uid-1"].error == "no card"


def test_an_optional_field_tells_empty_from_absent() -> None:
    claim = pod_resources.messages.ClaimResource
    assert not claim().HasField("share_id")
    assert claim.FromString(claim(share_id="").SerializeToString()).HasField("share_id")


def test_a_newer_kubelets_fields_are_passed_over() -> None:
    newer = Messages("v1beta1", "Device ID=1:string health=2:string colour=9:string*")
    read = D.Device.FromString(
        newer.Device(ID="a", health="Healthy", colour=["red"]).SerializeToString()
    )
    assert (read.ID, read.health) == ("a", "Healthy")


def test_packages_with_a_message_of_one_name_do_not_meet() -> None:
    assert D.Device.DESCRIPTOR.full_name == "v1beta1.Device"
    assert (
        resource_allocation.messages.Device.DESCRIPTOR.full_name
        == "k8s.io.kubelet.pkg.apis.dra.v1.Device"
    )


def test_a_name_that_is_not_there_is_an_error_at_once() -> None:
    with pytest.raises(AttributeError, match="Devise"):
        _ = D.Devise
    with pytest.raises(KeyError, match="v1beta1 has no service Device"):
        device_plugin.handlers("Device", object())
    with pytest.raises(KeyError, match="DevicePlugin/Free"):
        device_plugin.call(grpc.insecure_channel("unix:/nonexistent"), "DevicePlugin/Free")


class Plugin:
    """Each call of the service; the stream goes on until the test has seen enough."""

    def __init__(self) -> None:
        self.ended = threading.Event()

    def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
        return D.DevicePluginOptions(pre_start_required=True)

    def ListAndWatch(self, request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        yield D.ListAndWatchResponse(devices=[D.Device(ID="s1", health="Healthy")])
        self.ended.wait(60)
        yield D.ListAndWatchResponse(devices=[D.Device(ID="s1", health="Unhealthy")])

    def GetPreferredAllocation(self, request: Any, context: Any) -> Any:  # noqa: N802
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "every id is as good")

    def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802
        asked = [list(one.devices_ids) for one in request.container_requests]
        return D.AllocateResponse(
            container_responses=[
                D.ContainerAllocateResponse(envs={"IDS": ",".join(ids)}) for ids in asked
            ]
        )

    def PreStartContainer(self, request: Any, context: Any) -> Any:  # noqa: N802
        return D.PreStartContainerResponse()


@pytest.fixture
def plugin() -> Plugin:
    return Plugin()


@pytest.fixture
def channel(plugin: Plugin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[grpc.Channel]:
    """To a server of the plugin, on a real Unix socket."""
    socket: Path = tmp_path_factory.mktemp("s") / "p"
    with ThreadPoolExecutor(4) as pool:
        server = grpc.server(pool)
        server.add_generic_rpc_handlers([device_plugin.handlers("DevicePlugin", plugin)])
        server.add_insecure_port(f"unix:{socket}")
        server.start()
        with grpc.insecure_channel(f"unix:{socket}") as opened:
            yield opened
        plugin.ended.set()
        server.stop(None).wait()


def test_a_call_reaches_the_method_of_its_name(channel: grpc.Channel) -> None:
    ask = device_plugin.call(channel, "DevicePlugin/Allocate")
    request = D.ContainerAllocateRequest(devices_ids=["s1", "s2"])
    (answer,) = ask(D.AllocateRequest(container_requests=[request]), timeout=30).container_responses
    assert dict(answer.envs) == {"IDS": "s1,s2"}


def test_a_stream_comes_piece_by_piece(channel: grpc.Channel, plugin: Plugin) -> None:
    devices = device_plugin.call(channel, "DevicePlugin/ListAndWatch")(D.Empty(), timeout=30)
    assert next(devices).devices[0].health == "Healthy"
    plugin.ended.set()
    assert next(devices).devices[0].health == "Unhealthy"


def test_a_refusal_keeps_its_code_and_its_words(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as refusal:
        device_plugin.call(channel, "DevicePlugin/GetPreferredAllocation")(
            D.PreferredAllocationRequest(), timeout=30
        )
    assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert refusal.value.details() == "every id is as good"
