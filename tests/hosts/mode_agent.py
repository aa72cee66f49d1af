"""Run by the tests in a process of its own: an agent of a machine whose files are in a folder.

The agent, its threads, its steps and the library are those of a real machine. What differs is where
the host's files are, and that the writes of a step to sysfs are carried out by `mode_step`.

Arguments: the machine's folder, then those of `python -m gpupool.agent`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from gpupool.agent import __main__ as program
from gpupool.agent import card_modes, facts, nodes
from gpupool.mechanisms import card_modes as offers
from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.mig.host_files import HostFiles
from gpupool.mechanisms.mig.mode_switch import MigModeSwitch
from gpupool.mechanisms.mig.simulated_switch import MigSwitch
from gpupool.mechanisms.passthrough import PassthroughSwitch
from gpupool.mechanisms.pci.steps import PlanRunner
from gpupool.mechanisms.slow_step import StepResult
from gpupool.model.device import CardMode


class MachineRunner(PlanRunner):
    """Starts plans as an agent does; their program writes to the machine of the folder."""

    def _start(
        self, folder: Path, name: str, module: Sequence[str], reason: str, needs_release: bool
    ) -> StepResult | NotYet:
        words = ["tests.hosts.mode_step", *module[1:]]
        return super()._start(folder, name, words, reason, needs_release)


def main(root: Path, arguments: Sequence[str]) -> int:
    mig = MigModeSwitch(host=HostFiles(root=root))
    switches = {
        CardMode.MIG: MigSwitch(mig),
        CardMode.PASSTHROUGH: PassthroughSwitch(root, MachineRunner()),
    }
    for module in (card_modes, facts, offers):
        module.SWITCHES = switches  # type: ignore[attr-defined]
    nodes.MigModeSwitch = lambda: mig  # type: ignore[attr-defined]
    return program.main(arguments, os.environ)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
