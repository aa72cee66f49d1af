"""Starts the daemons of a line's BGP speaker, in an order in which they find each other.

`bgpd` and `bfdd` speak through `zebra`. They try its socket at their start and again ten seconds
later. A `bgpd` that was first without `zebra` never hands its session to `bfdd`: BGP comes up and
BFD stays down (FRR 8.4, measured over 100 s). So `zebra` listens before the others start.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Final

from gpupool.agent.jobs.helpers import HelperProcesses
from gpupool.agent.network.daemons import EngineFiles
from gpupool.agent.network.lines.speaker_config import (
    list_speaker_helpers,
    locate_speaker,
    name_user,
)
from gpupool.base.errors import NetworkingUnavailable
from gpupool.wire.network.lines import LineWork

#: Seconds in which `zebra` has to listen; the start is tried again.
_LISTEN_SECONDS: Final = 3.0
#: Seconds between two looks at its socket.
_LOOK_SECONDS: Final = 0.02


class SpeakerDaemons:
    """The daemons of the speakers of one engine."""

    def __init__(
        self, files: EngineFiles, helpers: HelperProcesses, listen_seconds: float = _LISTEN_SECONDS
    ) -> None:
        self._files = files
        self._helpers = helpers
        self._listen_seconds = listen_seconds

    def start(self, line: LineWork, namespace: Path) -> None:
        """Start the daemons of a line that do not run. Idempotent; blocks for some seconds at most.

        Raises:
            NetworkingUnavailable: `zebra` does not listen yet, so the others were not started.
            SupervisorError: a daemon cannot be started.
        """
        zebra, *others = list_speaker_helpers(self._files, line, namespace)
        user = name_user(line.id)
        self._helpers.start(user, (zebra,))
        if all(self._helpers.is_running(helper.name) for helper in others):
            return
        path = locate_speaker(self._files, line.id) / "zserv.api"
        if not _await_listener(path, self._listen_seconds):
            raise NetworkingUnavailable(
                f"the speaker starts: its zebra did not listen within {self._listen_seconds:g} s"
            )
        self._helpers.start(user, others)


def _await_listener(path: Path, seconds: float) -> bool:
    """Wait until a program listens at a socket; return whether it does."""
    deadline = time.monotonic() + seconds
    while not _has_listener(path):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


def _has_listener(path: Path) -> bool:
    # The file alone says nothing: a `zebra` that was killed leaves its own.
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True
