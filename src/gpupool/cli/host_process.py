"""Starting `python -m gpupool.host` as a child: the command line never imports the server or the agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import IO, Any

from gpupool.base.errors import GpupoolError, Internal, from_code


def host_command(state_dir: str, *words: str) -> list[str]:
    return [sys.executable, "-m", "gpupool.host", "--state-dir", state_dir, *words]


class HostStart:
    """A pool that is starting; `ready()` blocks until it answers and knows what became of its jobs."""

    def __init__(self, state_dir: str, words: Sequence[str], *, log: IO[bytes] | None) -> None:
        read, write = os.pipe()
        try:
            # A session of its own: Ctrl-C on the terminal is ours to translate, not the server's to die of.
            self.process = subprocess.Popen(
                [*host_command(state_dir, *words), "--ready-fd", str(write)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[write],
                start_new_session=True,
                cwd="/",
            )
        finally:
            os.close(write)
        self._read = read
        self.log, self.state_dir = log, state_dir

    def ready(self) -> dict[str, Any]:
        """What the pool says of itself. Raises the error that it answered, Internal when it died without a word."""
        with os.fdopen(self._read, "rb") as said:
            line = said.readline()
        answer = _parse(line)
        if answer.get("ready"):
            return answer
        self.process.wait()
        if "error" in answer:
            raise _as_error(answer["error"])
        raise Internal(
            f"the pool ended while starting (exit status {self.process.returncode})", hint=self._where_to_look()
        )

    def _where_to_look(self) -> str:
        return f"see {self.state_dir}/server.log" if self.log is not None else "see what it said above"


def _parse(line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _as_error(said: dict[str, Any]) -> GpupoolError:
    return from_code(str(said.get("code", "GP-5900")), str(said.get("message", "")), str(said.get("hint", "")))


def facts(state_dir: str) -> dict[str, Any]:
    """What this machine has, as the host finds it. Raises Internal."""
    done = subprocess.run(
        host_command(state_dir, "--facts"), stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    found = _parse(done.stdout)
    if done.returncode or not found:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise Internal(f"looking at this machine failed: {said[-1] if said else done.returncode}")
    return found


def ask_host(state_dir: str, *words: str) -> int:
    """Have the host do one thing and say itself how it went; its exit code."""
    sys.stdout.flush()
    return subprocess.run(host_command(state_dir, *words), stdin=subprocess.DEVNULL, check=False).returncode


def purge(state_dir: str) -> int:
    """End what is left of the pool's jobs and remove everything of it; the exit code.

    The host says itself, a line each, what was removed (stdout) or why not (stderr).
    """
    return ask_host(state_dir, "--purge")
