"""The device plugin hands out anonymous slots, and passes on what the agent says."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import grpc
import pytest

from gpupool.kubernetes import slots
from gpupool.kubernetes.node.grpc.protocol import device_plugin
from gpupool.kubernetes.resources.names import SLOT

D = device_plugin.messages


class Aborted(Exception):
    """Raised where gRPC would end the call."""


class Call:
    """The context of a call; `code` and `said` are how it was ended."""

    def __init__(self) -> None:
        self.code: grpc.StatusCode | None = None
        self.said = ""

    def abort(self, code: grpc.StatusCode, said: str) -> NoReturn:
        self.code = code
        self.said = said
        raise Aborted

    def add_callback(self, _end: Any) -> bool:
        """The call has ended already: nobody waits."""
        return False


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # A short path: a Unix socket's holds 107 bytes.
    made: Path = tmp_path_factory.mktemp("p") / "agent.sock"
    return made


@contextmanager
def answering(place: Path, *answers: bytes) -> Iterator[list[str]]:
    """An agent that answers so; the slots it was asked for."""
    asked: list[str] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()

        def serve() -> None:
            for answer in answers:
                line, _ = listener.accept()
                with line, line.makefile("rb") as question:
                    asked.append(json.loads(question.readline())["slot"])
                    line.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield asked
        thread.join()


def allocate(*device_ids: list[str]) -> Any:
    requests = [D.ContainerAllocateRequest(devices_ids=ids) for ids in device_ids]
    return D.AllocateRequest(container_requests=requests)


def test_plugin_offers_so_many_healthy_slots_and_wants_each_start() -> None:
    plugin = slots.Slots(2, Path("/nowhere"))
    (listed,) = plugin.ListAndWatch(D.Empty(), Call())
    assert [(one.ID, one.health) for one in listed.devices] == [
        ("s0000", "Healthy"),
        ("s0001", "Healthy"),
    ]
    assert plugin.GetDevicePluginOptions(D.Empty(), Call()).pre_start_required


def test_same_slot_gets_a_fresh_name_each_time() -> None:
    plugin = slots.Slots(2, Path("/nowhere"))
    found = []
    for answer in plugin.Allocate(allocate(["s0001"], ["s0001"]), Call()).container_responses:
        (device,) = answer.cdi_devices
        found.append(device.name)
    assert all(name.startswith(f"{SLOT}=s0001-") for name in found)
    assert len(set(found)) == 2


@pytest.mark.parametrize("ids", [[], ["s0000", "s0001"]])
def test_container_with_another_number_of_slots_than_one_is_refused(ids: list[str]) -> None:
    call = Call()
    with pytest.raises(Aborted):
        slots.Slots(2, Path("/nowhere")).Allocate(allocate(ids), call)
    assert call.code is grpc.StatusCode.INVALID_ARGUMENT
    assert f"one {SLOT} a container, not {len(ids)}" in call.said


def test_start_waits_with_the_words_of_the_agent(place: Path) -> None:
    call = Call()
    request = D.PreStartContainerRequest(devices_ids=["s0001"])
    with answering(place, b'{"refused": "GP-2033: wait"}\n', b'{"refused": ""}\n') as asked:
        plugin = slots.Slots(2, place)
        with pytest.raises(Aborted):
            plugin.PreStartContainer(request, call)
        plugin.PreStartContainer(request, Call())
    assert (call.code, call.said) == (grpc.StatusCode.UNAVAILABLE, "GP-2033: wait")
    assert asked == ["s0001", "s0001"]


def test_agent_that_is_away_or_breaks_off_lets_no_container_start(place: Path) -> None:
    said = slots.ask(place, "s0001")
    assert said.startswith("GP-2033: the agent of this node does not answer (")
    with answering(place, b"", b"{}\n"):
        assert "does not answer" in slots.ask(place, "s0001")
        assert "does not answer ('refused')" in slots.ask(place, "s0001")
