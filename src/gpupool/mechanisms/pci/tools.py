"""What an operation works with: the tree, the writer of attributes, and the host's programs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.mechanisms.pci.writer import SysfsWriter

#: Where vendors and distributions put their programs, below the root.
FOLDERS = ("usr/bin", "usr/sbin", "bin", "sbin", "usr/lib/nvidia")
#: Seconds after which a vendor's program counts as hung.
TIMEOUT_SECONDS = 60


class OperationFailure(Exception):
    """An operation did not have its effect; the message says what is there instead."""


@dataclass(frozen=True)
class OperationTools:
    """The hands of an operation.

    Attributes:
        pause: waits some seconds between two looks at a state that the kernel does not announce.
    """

    tree: PciTree
    writer: SysfsWriter = field(default_factory=SysfsWriter)
    pause: Callable[[float], object] = time.sleep

    @property
    def root(self) -> Path:
        return self.tree.root

    def run_program(self, name: str, arguments: Sequence[str]) -> str:
        """Run a program of the host and return its output. Blocks for up to a minute.

        Raises:
            OperationFailure: it is missing, hangs or fails.
        """
        program = find_program(self.root, name)
        if program is None:
            raise OperationFailure(f"{name} is not installed")
        command = " ".join((name, *arguments))
        try:
            done = subprocess.run(
                [str(program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise OperationFailure(f"{command} hung for {TIMEOUT_SECONDS} s") from None
        output = done.stdout.decode(errors="replace").strip()
        if done.returncode != 0:
            raise OperationFailure(f"{command} ended with {done.returncode}: {output[-300:]}")
        return output


def find_program(root: Path, name: str) -> Path | None:
    """Return where a program of the host is, None where it is not installed."""
    for folder in FOLDERS:
        path = root / folder / name
        if path.is_file():
            return path
    return None
