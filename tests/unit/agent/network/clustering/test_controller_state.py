"""A real ovn-controller that goes from one cluster to the next."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.agent.network.clustering import controller_state
from gpupool.agent.network.clustering.controller_state import (
    describe_connection,
    forget_other_cluster,
)
from gpupool.agent.network.daemons import DATABASE_SCHEMAS
from gpupool.agent.network.switch_ports import SwitchPorts
from gpupool.wire.network.engine import NetworkEngineReport, NetworkEngineWork
from tests.support.ovsdb import find_missing_part, is_listening
from tests.support.supervised import until

_MISSING = find_missing_part() or ("" if shutil.which("ovn-controller") else "needs ovn-host")
pytestmark = pytest.mark.skipif(bool(_MISSING), reason=_MISSING)
#: Changes of the first cluster: its log is longer than the next one's by these.
CHANGES = 40


def test_what_is_said_of_many_databases_fits_into_a_report(tmp_path: Path) -> None:
    servers = ",".join(f"ssl:[2001:db8:1000:2000:3000:4000:5000:600{n}]:6642" for n in range(8))
    work = NetworkEngineWork(want="run", southbound=servers, is_external=True)
    fields = describe_connection(tmp_path, work)
    assert NetworkEngineReport.model_validate(fields).reason.startswith("not connected to the")


class Daemons:
    """A controller, its switch's database, and servers of one-machine clusters."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._running = dict[str, subprocess.Popen[bytes]]()
        self._create("create", "switch", DATABASE_SCHEMAS["switch"][0])
        self._serve("switch")
        self.ports = SwitchPorts(f"unix:{place}/switch.sock")

    def serve_cluster(self, number: int) -> None:
        """Begin a cluster with an empty database, and let the controller connect to it."""
        name = f"south-{number}"
        peer = f"unix:{self.place}/{name}.raft"
        self._create("create-cluster", name, DATABASE_SCHEMAS["southbound"][0], peer)
        self._serve(name)
        self.ports.write_settings(
            {
                "system-id": "here",
                "ovn-remote": f"unix:{self.place}/{name}.sock",
                "ovn-encap-type": "geneve",
                "ovn-encap-ip": "127.0.0.1",
            }
        )

    def end_cluster(self, number: int) -> None:
        _end(self._running.pop(f"south-{number}"))

    def start_controller(self) -> None:
        self._run(
            "controller",
            "ovn-controller",
            f"unix:{self.place}/switch.sock",
            f"--pidfile={self.place}/ovn-controller.pid",
            "-vconsole:off",
        )

    def is_known(self, number: int) -> bool:
        """Whether the controller has written its machine to a cluster."""
        return "here" in self._command(number, "--columns=name", "list", "Chassis")

    def change(self, number: int) -> None:
        """Write to a cluster as often as makes its log longer than that of another one."""
        for change in range(CHANGES):
            self._command(number, "set", "SB_Global", ".", f"external_ids:change={change}")

    def end(self) -> None:
        self.ports.close()
        for process in self._running.values():
            _end(process)

    def _command(self, number: int, *words: str) -> str:
        command = ["ovn-sbctl", f"--db=unix:{self.place}/south-{number}.sock", "--timeout=10"]
        done = subprocess.run([*command, *words], check=True, capture_output=True, text=True)
        return done.stdout

    def _create(self, command: str, name: str, *words: str) -> None:
        subprocess.run(["ovsdb-tool", command, f"{self.place}/{name}.db", *words], check=True)

    def _serve(self, name: str) -> None:
        socket = self.place / f"{name}.sock"
        self._run(
            name,
            "ovsdb-server",
            f"{self.place}/{name}.db",
            f"--remote=punix:{socket}",
            f"--unixctl={self.place}/{name}.ctl",
            "-vconsole:off",
        )
        until(lambda: is_listening(socket))

    def _run(self, name: str, *words: str) -> None:
        environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        environ |= {"OVS_RUNDIR": str(self.place), "OVN_RUNDIR": str(self.place)}
        self._running[name] = subprocess.Popen(words, env=environ)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@pytest.fixture
def daemons() -> Iterator[Daemons]:
    # A socket's path has 107 bytes at most, which a directory of pytest may exceed.
    with tempfile.TemporaryDirectory(prefix="gps-") as directory:
        made = Daemons(Path(directory))
        try:
            yield made
        finally:
            made.end()


def test_a_controller_reads_a_cluster_whose_log_is_shorter_than_the_last_one(
    daemons: Daemons,
) -> None:
    daemons.serve_cluster(1)
    daemons.start_controller()
    forget_other_cluster(daemons.ports, daemons.place, 1)
    until(lambda: daemons.is_known(1))
    daemons.change(1)
    daemons.end_cluster(1)
    daemons.serve_cluster(2)
    forget_other_cluster(daemons.ports, daemons.place, 2)
    assert until(lambda: daemons.is_known(2))


def test_a_controller_is_asked_once_for_each_cluster(
    daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()
    monkeypatch.setattr(
        controller_state, "ask_controller", lambda _run, command: asked.append(command)
    )
    daemons.serve_cluster(1)
    counts = list[int]()
    for cluster in (0, 1, 1, 0, 2):
        forget_other_cluster(daemons.ports, daemons.place, cluster)
        counts.append(len(asked))
    assert counts == [0, 1, 1, 2, 3]
    assert set(asked) == {"sb-cluster-state-reset"}
