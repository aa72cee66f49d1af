"""Runs the management tool of a card's maker: never longer than its time, never raising.

Such a tool asks the driver, and a process that waits for a broken driver cannot be killed. It is
abandoned then, and the tool is not started again before that process has ended.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

#: Seconds that a tool may take; npu-smi takes up to two for each card.
TOOL_SECONDS: Final = 20.0
#: Seconds for a killed tool to end.
KILL_SECONDS: Final = 2.0
#: Characters of what a tool complains of that are shown.
COMPLAINT_LENGTH: Final = 160


@dataclass(frozen=True)
class ToolAnswer:
    """What a tool printed; `problem` says why there is nothing, for people."""

    text: str = ""
    problem: str = ""


@dataclass(frozen=True)
class ToolPlace:
    """Where a tool is looked for.

    Attributes:
        names: names on the PATH, the first that exists is taken.
        paths: where the maker installs it, if not on the PATH.
        package: what an operator installs to get it.
        environment: variables that it needs, such as the path of its libraries.
    """

    names: tuple[str, ...]
    paths: tuple[str, ...] = ()
    package: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


class VendorTool:
    """One tool on this host.

    Args:
        root: file system with the maker's paths.
        search_path: directories as in PATH; None takes those of this process.
    """

    def __init__(
        self,
        place: ToolPlace,
        root: Path = Path("/"),
        search_path: str | None = None,
        seconds: float = TOOL_SECONDS,
    ) -> None:
        self._place = place
        self._root = root
        self._search_path = search_path
        self._seconds = seconds
        self._one_at_a_time = threading.Lock()
        self._abandoned: subprocess.Popen[str] | None = None

    def find_program(self) -> str | None:
        """Return the path of the tool; None where it is not installed."""
        for name in self._place.names:
            found = shutil.which(name, path=self._search_path)
            if found:
                return found
        for path in self._place.paths:
            candidate = self._root / path.lstrip("/")
            if os.access(candidate, os.X_OK):
                return str(candidate)
        return None

    def run(self, arguments: Sequence[str]) -> ToolAnswer:
        """Run the tool and return what it printed. Blocks for at most its time."""
        program = self.find_program()
        if program is None:
            package = f": install {self._place.package}" if self._place.package else ""
            return ToolAnswer(problem=f"{self._place.names[0]} was not found{package}")
        with self._one_at_a_time:
            if self._abandoned is not None and self._abandoned.poll() is None:
                pid = self._abandoned.pid
                return ToolAnswer(problem=f"{program} hangs in the driver (pid {pid})")
            return self._run_program(program, arguments)

    def _run_program(self, program: str, arguments: Sequence[str]) -> ToolAnswer:
        # Another language would change the words that are looked for.
        environment = {**os.environ, "LC_ALL": "C", **self._place.environment}
        try:
            process = subprocess.Popen(
                [program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                text=True,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            return ToolAnswer(problem=f"{program} cannot be started: {error.strerror}")
        try:
            text, complaint = process.communicate(timeout=self._seconds)
        except subprocess.TimeoutExpired:
            return self._abandon(program, process)
        if process.returncode:
            said = " ".join((complaint or text).split())[:COMPLAINT_LENGTH]
            return ToolAnswer(problem=f"{program} failed with code {process.returncode}: {said}")
        return ToolAnswer(text)

    def _abandon(self, program: str, process: subprocess.Popen[str]) -> ToolAnswer:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        try:
            process.communicate(timeout=KILL_SECONDS)
        except subprocess.TimeoutExpired:
            self._abandoned = process
        return ToolAnswer(problem=f"{program} did not end within {self._seconds:g} s")
