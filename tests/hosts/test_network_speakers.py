"""Two BGP speakers with the real FRR, one of which has a zebra that starts slowly."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.agent.jobs.helpers import HelperProcesses
from gpupool.agent.network.daemons import EngineFiles, locate_engine
from gpupool.agent.network.lines import speaker_config
from gpupool.agent.network.lines.speaker_config import (
    ACCOUNT,
    PROGRAMS,
    format_speaker,
    list_daemons,
    locate_speaker,
    locate_speakers,
    name_user,
)
from gpupool.agent.network.lines.speaker_console import SpeakerConsole
from gpupool.agent.network.lines.speaker_daemons import SpeakerDaemons
from gpupool.agent.network.namespaces import enter_namespace, turn_checksum_off
from gpupool.wire.network.lines import LineWork
from tests.support.dedicated_lines import make_work
from tests.support.supervised import until

pytestmark = [
    pytest.mark.hosts,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root"),
    pytest.mark.skipif(not (PROGRAMS / "bgpd").exists(), reason="needs frr"),
]

#: Seconds by which zebra is late: more than bgpd and bfdd take to try its socket.
LATE_SECONDS = 1
PEERS = {
    "l-0000000001": ("192.168.200.2", 64512, "192.168.200.6", 65001),
    "l-0000000002": ("192.168.200.6", 65001, "192.168.200.2", 64512),
}


class Speakers:
    """Two of them at the ends of one cable."""

    def __init__(self, root: Path) -> None:
        self.files: EngineFiles = locate_engine(root)
        self.helpers = HelperProcesses(root / "helpers", 0, lambda _name: ())
        self.daemons = SpeakerDaemons(self.files, self.helpers)
        self.lines = [
            make_work(id=key, speaker=own, asn=asn, peer=peer, peer_asn=peer_asn, bfd=True)
            for key, (own, asn, peer, peer_asn) in PEERS.items()
        ]
        self.namespaces = {line.id: f"gpt-{line.id[-1]}-{os.getpid()}" for line in self.lines}

    def connect(self) -> None:
        """Lay the cable and write the daemons' files."""
        names = list(self.namespaces.values())
        for name in names:
            run("ip", "netns", "add", name)
        cable = f"ip link add up0 netns {names[0]} type veth peer up0 netns {names[1]}"
        run(*cable.split())
        for line in self.lines:
            name = self.namespaces[line.id]
            with enter_namespace(Path("/run/netns") / name):
                turn_checksum_off("up0")
            run("ip", "-n", name, "addr", "add", f"{line.speaker}/{line.prefix}", "dev", "up0")
            for interface in ("lo", "up0"):
                run("ip", "-n", name, "link", "set", interface, "up")
            self._write_files(line)

    def start(self, line: LineWork) -> None:
        self.daemons.start(line, Path("/run/netns") / self.namespaces[line.id])

    def read_neighbor(self, line: LineWork) -> dict[str, Any]:
        with SpeakerConsole(locate_speaker(self.files, line.id) / "bgpd.vty") as console:
            found: dict[str, Any] = console.read(f"show bgp neighbors {line.peer}")[line.peer]
        return found

    def close(self) -> None:
        for line in self.lines:
            self.helpers.release(name_user(line.id))
            subprocess.run(["ip", "netns", "del", self.namespaces[line.id]], check=False)
        shutil.rmtree(locate_speakers(self.files), ignore_errors=True)

    def _write_files(self, line: LineWork) -> None:
        directory = locate_speaker(self.files, line.id)
        directory.mkdir(parents=True)
        directory.parent.chmod(0o711)
        shutil.chown(directory, ACCOUNT, ACCOUNT)
        for daemon in list_daemons(line):
            file = directory / f"{daemon}.conf"
            file.write_text(format_speaker(line) if daemon == "bgpd" else "! none\n")
            shutil.chown(file, ACCOUNT, ACCOUNT)


@pytest.fixture
def speakers() -> Iterator[Speakers]:
    root = Path(tempfile.mkdtemp(prefix="gps-"))
    made = Speakers(root)
    try:
        made.connect()
        yield made
    finally:
        made.close()
        shutil.rmtree(root)


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


def test_bfd_comes_up_beside_a_zebra_that_starts_slowly(
    speakers: Speakers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bgpd that finds no zebra brings BGP up and never BFD."""
    first, second = speakers.lines
    speakers.start(first)
    tmp_path.chmod(0o755)
    for daemon in list_daemons(second):
        (tmp_path / daemon).symlink_to(PROGRAMS / daemon)
    (tmp_path / "zebra").unlink()
    late = tmp_path / "zebra"
    late.write_text(f'#!/bin/sh\nsleep {LATE_SECONDS}\nexec {PROGRAMS}/zebra "$@"\n')
    late.chmod(0o755)
    monkeypatch.setattr(speaker_config, "PROGRAMS", tmp_path)
    speakers.start(second)
    until((locate_speaker(speakers.files, second.id) / "bgpd.vty").exists, "a console")
    until(
        lambda: speakers.read_neighbor(second).get("peerBfdInfo", {}).get("status") == "Up",
        "a session of BFD",
    )
    assert speakers.read_neighbor(second)["bgpState"] == "Established"


def test_bfd_comes_back_after_all_daemons_died_at_once(speakers: Speakers) -> None:
    first, second = speakers.lines
    for line in speakers.lines:
        speakers.start(line)
    path = locate_speaker(speakers.files, second.id)
    until((path / "bgpd.vty").exists, "a console")

    def is_up() -> bool:
        return bool(speakers.read_neighbor(first).get("peerBfdInfo", {}).get("status") == "Up")

    until(is_up, "a session of BFD")
    for daemon in list_daemons(second):
        os.kill(int((path / f"{daemon}.pid").read_text()), 9)
    until(lambda: not is_up(), "the end of the session")
    speakers.start(second)
    until(is_up, "the next session of BFD")
