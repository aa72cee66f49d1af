"""A machine with two cards in a folder: sysfs, nodes, NVML's state, and the vendor's program."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.mig_cards import MigHost, build_host
from tests.support.pci_kernel import FunctionFacts, build_tree
from tests.support.processes import die_with_owner, stop_surely
from tests.unit.agent.pool import POOL_ID, PoolServer

#: Addresses of the cards, as the library has them.
CARD = "0000:1b:00.0"
OTHER = "0000:3b:00.0"
#: Seconds that a step waits for the test's permission.
PATIENCE = 60.0
#: Resets cards as the vendor's program does: not while a process has one of them open.
PROGRAM = """#!{python}
import pathlib, sys
from gpupool.mechanisms.pci.holders import find_holders, format_holders
from tests.hosts.mode_machine import await_permission
from tests.support.mig_cards import open_state
root = pathlib.Path({root!r})
if "--query-gpu=persistence_mode" in sys.argv:
    print("Disabled")
elif sys.argv[1] == "--gpu-reset":
    await_permission(root)
    holders = find_holders((root / "dev").glob("nvidia*"))
    if holders:
        sys.exit("In use by another client: " + format_holders(holders))
    for card in open_state(pathlib.Path({state!r})).cards:
        card.current = card.pending
else:
    sys.exit("unknown: " + " ".join(sys.argv[1:]))
"""


def await_permission(root: Path) -> None:
    """Say that a step is at its work, and wait until the test lets it go on."""
    with (root / "steps").open("a") as file:
        file.write(f"{os.getpid()}\n")
    deadline = time.monotonic() + PATIENCE
    while not (root / "go").exists():
        if time.monotonic() > deadline:
            sys.exit("the test gave no permission")
        time.sleep(0.01)  # between two looks from outside


class ModeMachine:
    """The machine, a pool's server for it, and its agents.

    Args:
        folder: empty.
        library: the compiled stand-in for NVML.
    """

    def __init__(self, folder: Path, library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.host: MigHost = build_host(folder, library, monkeypatch)
        self.root = self.host.files.root
        shutil.rmtree(self.root / "proc")
        build_tree(self.root, [FunctionFacts(CARD, 10), FunctionFacts(OTHER, 11)])
        shutil.rmtree(self.root / "proc")
        # The processes are those of this machine.
        (self.root / "proc").symlink_to("/proc")
        self._write_program()
        state = folder / "state"
        state.mkdir(mode=0o700)
        self.server = PoolServer(state)
        self.server.begin()
        self.agents: list[subprocess.Popen[bytes]] = []
        self._log_start = 0

    def _write_program(self) -> None:
        program = self.root / "usr/bin/nvidia-smi"
        program.parent.mkdir(parents=True)
        state = str(self.host.folder / "cards")
        program.write_text(PROGRAM.format(python=sys.executable, root=str(self.root), state=state))
        program.chmod(0o755)

    def start_agent(self) -> subprocess.Popen[bytes]:
        """Start `python -m gpupool.agent` of this machine."""
        environment = {
            **{key: value for key, value in os.environ.items() if "GPUPOOL_" not in key},
            "MIG_NODES": str(self.root / "dev"),
            "MIG_BUS": str(self.root / "sys/bus/pci"),
            "PATH": f"{self.root}/usr/bin:{os.environ['PATH']}",
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        words = ["--state-dir", str(self.server.paths.root), "--name", "host"]
        words += ["--pool-id", POOL_ID, "--sample-seconds", "0.2"]
        with open(self.server.paths.root / "agent.log", "ab") as log:
            self._log_start = log.tell()
            agent = subprocess.Popen(
                [sys.executable, "-m", "tests.hosts.mode_agent", str(self.root), *words],
                env=environment,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_owner(signal.SIGKILL),
            )
        self.agents.append(agent)
        return agent

    def count_steps(self) -> int:
        """Count the steps that are or were at their work."""
        path = self.root / "steps"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def permit(self) -> None:
        """Let steps do their work."""
        (self.root / "go").touch()

    def forbid(self) -> None:
        """Make steps wait before their work."""
        (self.root / "go").unlink(missing_ok=True)

    def read_driver(self) -> str:
        """Return the driver of the first card; empty while it has none."""
        link = self.root / "sys/bus/pci/devices" / CARD / "driver"
        return link.readlink().name if link.is_symlink() else ""

    def read_log(self) -> str:
        return (self.server.paths.root / "agent.log").read_text()

    def read_new_log(self) -> str:
        """Return what the last agent has written."""
        return self.read_log()[self._log_start :]

    def end(self) -> None:
        self.permit()
        for agent in self.agents:
            if agent.poll() is None:
                stop_surely(agent, [signal.SIGTERM])
        self.server.end()
