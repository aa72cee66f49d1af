"""Runs `nvidia-smi`, for settings that the management library has no call for, or where the library
cannot be loaded."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import Protocol

#: Seconds; the tool takes below one, and several on a node that has just booted.
TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True)
class ToolAnswer:
    """What the tool printed, and whether it succeeded."""

    success: bool
    text: str


class VendorTool(Protocol):
    """The vendor's command-line tool."""

    def run(self, *arguments: str) -> ToolAnswer: ...


class NvidiaSmi:
    """NVIDIA's tool. Blocks until it has ended."""

    def __init__(self, program: str = "nvidia-smi") -> None:
        self._program = program

    def run(self, *arguments: str) -> ToolAnswer:
        """Run it; a tool that is missing or hangs is an answer without success."""
        try:
            done = subprocess.run(
                [self._program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except FileNotFoundError:
            return ToolAnswer(False, f"{self._program} was not found on this host")
        except subprocess.TimeoutExpired:
            return ToolAnswer(False, f"{self._program} did not end in {TIMEOUT_SECONDS:g} s")
        return ToolAnswer(done.returncode == 0, done.stdout.decode(errors="replace").strip())
