"""Runs `nvidia-cuda-mps-control` as a client of one daemon.

The client runs under the account of the daemon, never as root: its peer is a process of the tenant,
and so is every byte that it reads. Its output is cut, and it is killed when it takes too long.
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpupool.mechanisms.mps.replies import ControlReply, ReplyKind, classify_reply

#: Seconds for one command. `quit` waits for the server; all other answers come in milliseconds.
TIMEOUT_SECONDS = 5.0
#: Bytes of an answer that are read: 48 clients take below 8 KiB.
ANSWER_BYTES = 64 * 1024

PROGRAM = "nvidia-cuda-mps-control"


@dataclass(frozen=True)
class ControlTarget:
    """The daemon that a command is for: its directories, and the account that it runs as."""

    pipe: Path
    log: Path
    uid: int
    gid: int

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the daemon and of its control clients."""
        return {
            "CUDA_MPS_PIPE_DIRECTORY": str(self.pipe),
            "CUDA_MPS_LOG_DIRECTORY": str(self.log),
        }


class ControlClient(Protocol):
    """Sends commands to daemons."""

    def explain_absence(self) -> str:
        """Return why this host has no MPS; empty when it has."""
        ...

    def locate_program(self) -> str:
        """Return the absolute path of the host's program, which is there."""
        ...

    def has_namespaces(self) -> bool:
        """Whether the host's program speaks protocol 3."""
        ...

    def send_line(self, target: ControlTarget, line: str) -> ControlReply:
        """Send a command of protocol 2."""
        ...

    def send_words(self, target: ControlTarget, words: Sequence[str]) -> ControlReply:
        """Send a command of protocol 3."""
        ...


class ControlProgram:
    """The program of this host. Thread-safe; blocks for `TIMEOUT_SECONDS` at most."""

    def __init__(self, program: str = PROGRAM) -> None:
        self._program = program
        self._namespaces: bool | None = None

    def explain_absence(self) -> str:
        if shutil.which(self._program):
            return ""
        return f"{self._program} was not found on this host"

    def locate_program(self) -> str:
        return shutil.which(self._program) or self._program

    def has_namespaces(self) -> bool:
        if self._namespaces is None:
            text, _ = self._run(["-h"], "", {}, None)
            self._namespaces = "namespace" in text.lower()
        return self._namespaces

    def send_line(self, target: ControlTarget, line: str) -> ControlReply:
        return self._ask([], f"{line}\n", target)

    def send_words(self, target: ControlTarget, words: Sequence[str]) -> ControlReply:
        return self._ask(words, "", target)

    def _ask(self, arguments: Sequence[str], line: str, target: ControlTarget) -> ControlReply:
        text, ended = self._run(arguments, line, target.environment, target)
        return classify_reply(text) if ended else ControlReply(ReplyKind.TIMEOUT, text)

    def _run(
        self,
        arguments: Sequence[str],
        line: str,
        environment: Mapping[str, str],
        target: ControlTarget | None,
    ) -> tuple[str, bool]:
        """Return what the program printed, and whether it ended by itself."""
        path = shutil.which(self._program)
        if path is None:
            return self.explain_absence(), True
        # Only root can change the account; any other agent is the owner.
        owner = target if os.geteuid() == 0 else None
        try:
            process = subprocess.Popen(
                [path, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={"PATH": os.defpath, **environment},
                cwd="/",
                user=None if owner is None else owner.uid,
                group=None if owner is None else owner.gid,
                extra_groups=None if owner is None else (),
            )
        except OSError as problem:
            return f"failed to run {path}: {problem}", True
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(line.encode())
                process.stdin.close()
            except BrokenPipeError:
                pass  # it ended without reading: the daemon is not there, and its answer says so
            output, ended = _read_output(process.stdout.fileno())
            if not ended:
                process.kill()
        return output.decode(errors="replace"), ended


def _read_output(descriptor: int) -> tuple[bytes, bool]:
    """Read until the end of the output; False where time or size ran out first."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    output = b""
    while len(output) < ANSWER_BYTES:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([descriptor], [], [], left)[0]:
            return output, False
        piece = os.read(descriptor, ANSWER_BYTES)
        if not piece:
            return output, True
        output += piece
    return output[:ANSWER_BYTES], False
