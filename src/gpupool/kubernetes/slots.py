"""The device plugin: a small process that hands out anonymous slots and knows nothing else.

It decides nothing. `Allocate` answers with a fresh CDI name; `PreStartContainer` asks the node's
agent over a Unix socket and passes on what it says. So it is rarely restarted, and an agent that is
replaced keeps no container from running. The kubelet forgets its plugins when it starts: its socket
is watched, and we register again. A node that is only looked at gets no slots: the agent says by a
file beside its socket that the node hands out cards, and a file outlives the agent.
"""

from __future__ import annotations

import argparse
import json
import logging
import secrets
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from gpupool.base.errors import CardNotReady
from gpupool.kubernetes.node.grpc.protocol import device_plugin
from gpupool.kubernetes.resources.names import SLOT

D = device_plugin.messages
PLUGINS = Path("/var/lib/kubelet/device-plugins")
ENDPOINT = "gpupool-slots.sock"
#: The agent's file, beside its socket, while slots are to be handed out.
HANDED_OUT = "handed-out"
VERSION = "v1beta1"
CALL_SECONDS = 10.0
#: The kubelet gives a start 30 s.
ANSWER_SECONDS = 25.0
LOOK_SECONDS = 0.2
MOST_CALLS = 80

log = logging.getLogger(__name__)


class Slots:
    """The plugin's calls; `agent` is the socket of the node's agent."""

    def __init__(self, count: int, agent: Path) -> None:
        self._ids = [f"s{number:04d}" for number in range(count)]
        self._agent = agent
        self.ended = threading.Event()

    def GetDevicePluginOptions(self, _request: Any, _context: Any) -> Any:  # noqa: N802 - the protocol's names
        return options()

    def ListAndWatch(self, _request: Any, context: Any) -> Iterator[Any]:  # noqa: N802
        yield D.ListAndWatchResponse(
            devices=[D.Device(ID=one, health="Healthy") for one in self._ids]
        )
        over = threading.Event()
        if context.add_callback(over.set):
            over.wait()

    def GetPreferredAllocation(self, _request: Any, context: Any) -> Any:  # noqa: N802
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "every slot is as good as another")

    def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802
        answers = []
        for one in request.container_requests:
            if len(one.devices_ids) != 1:
                context.abort(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    f"{CardNotReady.code}: one {SLOT} a container, not {len(one.devices_ids)}",
                )
            name = f"{one.devices_ids[0]}-{secrets.token_hex(4)}"
            answers.append(
                D.ContainerAllocateResponse(cdi_devices=[D.CDIDevice(name=f"{SLOT}={name}")])
            )
        return D.AllocateResponse(container_responses=answers)

    def PreStartContainer(self, request: Any, context: Any) -> Any:  # noqa: N802
        for slot in request.devices_ids:
            refusal = ask(self._agent, slot)
            if refusal:
                log.info("slot %s waits: %s", slot, refusal)
                context.abort(grpc.StatusCode.UNAVAILABLE, refusal)
        return D.PreStartContainerResponse()


def options() -> Any:
    return D.DevicePluginOptions(pre_start_required=True)


def ask(agent: Path, slot: str) -> str:
    """Have the agent make the slot's container ready; empty when it is, else why it has to wait."""
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(ANSWER_SECONDS)
            line.connect(str(agent))
            line.sendall(json.dumps({"slot": slot}).encode() + b"\n")
            with line.makefile("rb") as answer:
                return str(json.loads(answer.readline())["refused"])
    except (OSError, ValueError, KeyError) as error:
        return f"{CardNotReady.code}: the agent of this node does not answer ({error}); it is asked again"


class Registration:
    """Serves the plugin and registers it, as often as the kubelet starts, while there is
    `handed_out`."""

    def __init__(self, slots: Slots, folder: Path, handed_out: Path) -> None:
        self._slots = slots
        self._folder = folder
        self._handed_out = handed_out
        self._server: grpc.Server | None = None
        self._known: tuple[int, int] | None = None

    def run(self) -> None:
        """Until `slots.ended` is set."""
        if not self._handed_out.exists():
            log.info("this node hands out no cards: no slots until %s is there", self._handed_out)
        while not self._slots.ended.is_set():
            try:
                now = self._kubelet() if self._handed_out.exists() else None
                if now is None:
                    self._stop()
                elif now != self._known:
                    self._serve()
                    self._register()
                self._known = now
            except (OSError, grpc.RpcError) as error:
                log.info("not registered yet: %s", error)
            self._slots.ended.wait(LOOK_SECONDS)
        self._stop()

    def _kubelet(self) -> tuple[int, int]:
        """Which kubelet listens: its socket's inode and birth."""
        found = (self._folder / "kubelet.sock").stat()
        return found.st_ino, found.st_ctime_ns

    def _serve(self) -> None:
        """A kubelet that starts empties the folder, so the socket is made anew."""
        self._stop()
        place = self._folder / ENDPOINT
        place.unlink(missing_ok=True)
        self._server = grpc.server(ThreadPoolExecutor(MOST_CALLS))
        self._server.add_generic_rpc_handlers([device_plugin.handlers("DevicePlugin", self._slots)])
        self._server.add_insecure_port(f"unix:{place}")
        self._server.start()

    def _register(self) -> None:
        about = {
            "version": VERSION,
            "endpoint": ENDPOINT,
            "resource_name": SLOT,
            "options": options(),
        }
        with grpc.insecure_channel(f"unix:{self._folder / 'kubelet.sock'}") as channel:
            device_plugin.call(channel, "Registration/Register")(
                D.RegisterRequest(**about), timeout=CALL_SECONDS, wait_for_ready=True
            )
        log.info("registered %s with the kubelet", SLOT)

    def _stop(self) -> None:
        if self._server is not None:
            self._server.stop(0).wait()
            self._server = None
            (self._folder / ENDPOINT).unlink(missing_ok=True)


def main(arguments: Sequence[str]) -> int:
    """Run until SIGTERM or SIGINT. Stops advertising then: running containers go on."""
    parser = argparse.ArgumentParser(prog="python -m gpupool.kubernetes.slots", description=__doc__)
    parser.add_argument("--agent", type=Path, required=True, help="socket of the node's agent")
    parser.add_argument(
        "--count", type=int, default=512, help="slots: so many containers with cards at once"
    )
    parser.add_argument(
        "--plugins", type=Path, default=PLUGINS, help="the kubelet's folder of device plugins"
    )
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    slots = Slots(given.count, given.agent)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: slots.ended.set())
    Registration(slots, given.plugins, given.agent.with_name(HANDED_OUT)).run()
    return 0


if __name__ == "__main__":
    import sys

    sys.exit(main(sys.argv[1:]))
