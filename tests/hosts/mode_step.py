"""Run by the tests as the process of a plan: its writes to sysfs have the kernel's effects.

A card that leaves its driver while a process has it open hangs the kernel; here the step fails then.

Arguments: as `gpupool.mechanisms.pci.operations` takes them.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gpupool.mechanisms.pci.holders import find_holders, format_holders
from gpupool.mechanisms.pci.operations import main
from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.mechanisms.pci.tools import OperationTools
from tests.hosts.mode_machine import CARD, await_permission
from tests.support.pci_kernel import FakeKernel


class GuardedKernel(FakeKernel):
    """Waits before the card leaves a driver, and refuses while a process has a card open."""

    def write(self, path: Path, text: str) -> None:
        if path.name == "unbind":
            assert text.strip() == CARD
            await_permission(self.root)
            holders = find_holders((self.root / "dev").glob("nvidia*"), self.root)
            if holders:
                raise OSError(f"a card is open: {format_holders(holders)}")
        super().write(path, text)


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    sys.exit(main(sys.argv[1:], OperationTools(PciTree(folder), GuardedKernel(folder))))
