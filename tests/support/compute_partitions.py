"""A machine with one MI300X whose kernel answers writes of compute partition modes."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.support.pci_kernel import FakeKernel
from tests.support.recorded_hosts import (
    CPU_PROPERTIES,
    MI300_CARDS,
    MI300_PROPERTIES,
    add_amd_card,
    add_kfd_node,
    write,
)

ADDRESS = "0000:05:00.0"
AGENTS = {"SPX": 1, "DPX": 2, "TPX": 3, "QPX": 4, "CPX": 8}


class PartitionKernel(FakeKernel):
    """Makes the agents of the only card anew when its mode changes, as amdgpu does.

    Attributes:
        refusal: number of the error with which a write is refused.
        is_deaf: writes succeed and change nothing.
    """

    refusal = 0
    is_deaf = False
    mode = ""

    def make_agents(self, mode: str) -> None:
        """Write the agents of a mode in place of those that are there."""
        self.mode = mode
        shutil.rmtree(self.root / "sys/class/kfd/kfd/topology/nodes", ignore_errors=True)
        add_kfd_node(self.root, 0, CPU_PROPERTIES)
        location, first, minor, unique = MI300_CARDS[0]
        for part in range(AGENTS[mode]):
            properties = MI300_PROPERTIES.format(
                location=location + part, minor=minor + part, unique=unique
            )
            add_kfd_node(self.root, first + part, properties)

    def _react(self, path: Path, text: str) -> None:
        if path.name != "current_compute_partition":
            super()._react(path, text)
            return
        # The write has changed the text already, which the kernel would not do.
        write(path, self.mode if self.refusal or self.is_deaf else text.strip())
        if self.refusal:
            raise OSError(self.refusal, os.strerror(self.refusal))
        if not self.is_deaf:
            self.make_agents(text.strip())


def make_kernel(
    root: Path, mode: str = "SPX", memory: str = "NPS1", modes: str = "SPX, DPX, QPX, CPX"
) -> PartitionKernel:
    """Build a machine with one MI300X."""
    _, _, minor, unique = MI300_CARDS[0]
    add_amd_card(
        root,
        ADDRESS,
        196592 << 20,
        minor,
        device="0x74a1",
        product_name="AMD Instinct MI300X OAM",
        unique_id=f"{unique:016x}",
        current_compute_partition=mode,
        available_compute_partition=modes,
        current_memory_partition=memory,
        available_memory_partition="NPS1, NPS4",
    )
    (root / "sys/class/kfd/kfd/proc").mkdir(parents=True)
    (root / "proc").mkdir()
    (root / "dev").mkdir()
    (root / "dev/kfd").touch()
    kernel = PartitionKernel(root)
    kernel.make_agents(mode)
    return kernel
