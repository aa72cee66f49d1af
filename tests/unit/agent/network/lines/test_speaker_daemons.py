"""The order in which the daemons of a speaker start."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from gpupool.agent.jobs.helpers import HelperProcesses
from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.lines.speaker_config import locate_speaker
from gpupool.agent.network.lines.speaker_daemons import SpeakerDaemons
from gpupool.base.errors import NetworkingUnavailable
from gpupool.mechanisms.contract import HelperProcess
from tests.support.dedicated_lines import KEY, make_work

LINE = make_work(bfd=True)


class Recorder(HelperProcesses):
    """Starts no process; a socket listens in the place of `zebra` where the test says so."""

    def __init__(self, path: Path, *, listens: bool) -> None:
        super().__init__(path.parent / "helpers", os.getuid(), lambda _name: ())
        self.started = list[str]()
        self.accepted = 0
        self._path = path
        self._listens = listens
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)

    def start(self, allocation: str, helpers: Iterable[HelperProcess]) -> None:
        for helper in helpers:
            daemon = helper.name.removeprefix(f"line-{KEY}-")
            if daemon == "zebra" and "zebra" not in self.started:
                self._socket.bind(str(self._path))
                if self._listens:
                    self._socket.listen()
            if daemon not in self.started:
                self.started.append(daemon)

    def is_running(self, name: str) -> bool:
        return name.removeprefix(f"line-{KEY}-") in self.started

    def count_connections(self) -> int:
        """Accept what has connected, and count it."""
        self._socket.setblocking(False)
        while True:
            try:
                self._socket.accept()[0].close()
            except BlockingIOError:
                return self.accepted
            self.accepted += 1

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def files() -> Iterator[EngineFiles]:
    # The name of a socket has 107 bytes at most.
    root = Path(tempfile.mkdtemp(prefix="gps-"))
    made = EngineFiles("mark", root, root / "run")
    locate_speaker(made, KEY).mkdir(parents=True)
    yield made
    shutil.rmtree(root)


def socket_of_zebra(files: EngineFiles) -> Path:
    return locate_speaker(files, KEY) / "zserv.api"


def test_the_others_start_once_zebra_listens(files: EngineFiles) -> None:
    helpers = Recorder(socket_of_zebra(files), listens=True)
    daemons = SpeakerDaemons(files, helpers)
    daemons.start(LINE, Path("/run/netns/a"))
    assert helpers.started == ["zebra", "bgpd", "bfdd"]
    assert helpers.count_connections() == 1
    # Each look starts what has ended: zebra is not asked where all of them run.
    daemons.start(LINE, Path("/run/netns/a"))
    assert helpers.count_connections() == 1
    helpers.close()


def test_a_socket_without_a_listener_starts_zebra_alone(files: EngineFiles) -> None:
    """As a `zebra` that was killed leaves it."""
    helpers = Recorder(socket_of_zebra(files), listens=False)
    with pytest.raises(NetworkingUnavailable, match=r"zebra did not listen within 0\.05 s"):
        SpeakerDaemons(files, helpers, listen_seconds=0.05).start(LINE, Path("/run/netns/a"))
    assert helpers.started == ["zebra"]
    helpers.close()
