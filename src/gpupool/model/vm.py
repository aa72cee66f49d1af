"""Facts about a virtual machine: its sizes, its hardware, and the states that a user sees.

A VM is a job whose command is QEMU. Pure; QEMU's own words are in `gpupool.vm`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from gpupool.model.job import JobState

#: First word of a VM's command in the ledger. No program has this name: the agent makes the real
#: command, because only the agent knows the cards.
VM_COMMAND: Final = "gpupool:vm"
MIB: Final = 1 << 20
GIB: Final = 1 << 30
SMALLEST_RAM_BYTES: Final = 64 * MIB
#: 16 TiB: more than any host has today.
LARGEST_RAM_BYTES: Final = 16 << 40
MOST_CPUS: Final = 1024
USUAL_CPUS: Final = 2
USUAL_RAM_BYTES: Final = 2 * GIB
#: Main memory of QEMU beside the guest's: translated code, disk cache, device state. Measured 225
#: MB in all for a guest of 256 MB that is emulated.
OVERHEAD_BYTES: Final = 512 * MIB
#: Bytes of user data that cloud-init gets. EC2 takes 16 KiB, which is the smallest of the clouds.
LARGEST_CLOUD_INIT: Final = 64 << 10
#: Seconds for which a guest may shut down before its QEMU gets SIGTERM.
USUAL_GRACE_SECONDS: Final = 60
#: The 64-bit hole for BARs that QEMU's q35 leaves by itself (hw/pci-host/q35.c).
USUAL_HOLE_BYTES: Final = 32 * GIB
#: The smallest BAR through which a card shows its memory; BARs of registers are smaller.
_LARGE_BAR_BYTES: Final = 256 * MIB


class VmFirmware(StrEnum):
    """What a VM boots by: SeaBIOS, which QEMU has itself, or OVMF."""

    BIOS = "bios"
    UEFI = "uefi"


@dataclass(frozen=True)
class VmSpec:
    """The virtual machine that a user asks for.

    Attributes:
        ram_bytes: The guest's memory; QEMU needs `OVERHEAD_BYTES` more.
        image: Absolute path of the disk image, which stays as it is: the VM writes to an overlay.
        kernel: Absolute path of a kernel that QEMU boots itself, without a boot loader.
        append: The kernel's command line.
        ssh_keys: Public keys for the image's usual account, by cloud-init.
        cloud_init: User data for cloud-init.
        continues: Job of an ended VM whose disk, and seed if it has one, this VM goes on with.
        identity: Job of the first VM in such a row: the guest keeps its UUID and MAC address.
        has_old_seed: The VM that it continues has a seed.
    """

    cpus: int = USUAL_CPUS
    ram_bytes: int = USUAL_RAM_BYTES
    image: str | None = None
    kernel: str | None = None
    initrd: str | None = None
    append: str = ""
    ssh_keys: tuple[str, ...] = ()
    cloud_init: str | None = None
    continues: str | None = None
    identity: str | None = None
    has_old_seed: bool = False
    firmware: VmFirmware = VmFirmware.BIOS

    @property
    def has_new_seed(self) -> bool:
        """Whether a seed is made for it."""
        return bool(self.ssh_keys) or self.cloud_init is not None

    @property
    def needs_seed(self) -> bool:
        """Whether cloud-init in the guest is given anything."""
        return self.has_new_seed or self.has_old_seed

    @property
    def host_bytes(self) -> int:
        """Main memory that the host gives to the guest and its QEMU."""
        return self.ram_bytes + OVERHEAD_BYTES


class VmState(StrEnum):
    """What a user sees of a VM: its job's state, and what QEMU says of the guest."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    SHUT_DOWN = "shut-down"
    ENDED = "ended"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"


_BY_JOB: Final = {
    JobState.PENDING: VmState.WAITING,
    JobState.STARTING: VmState.STARTING,
    JobState.RUNNING: VmState.RUNNING,
    JobState.DONE: VmState.ENDED,
    JobState.FAILED: VmState.FAILED,
    JobState.STOPPED: VmState.STOPPED,
    JobState.LOST: VmState.LOST,
}
#: By `query-status` of QMP (qapi/run-state.json).
_BY_GUEST: Final = {
    "paused": VmState.PAUSED,
    "guest-panicked": VmState.FAILED,
    "internal-error": VmState.FAILED,
    "io-error": VmState.FAILED,
    "shutdown": VmState.SHUT_DOWN,
}


def find_vm_state(job_state: str, guest_status: str | None) -> VmState:
    """Return the state that a user sees.

    Args:
        job_state: State of the VM's job.
        guest_status: QEMU's word for the guest; None where QEMU was not asked or does not answer.
    """
    state = _BY_JOB[JobState(job_state)]
    if state is VmState.RUNNING and guest_status is not None:
        return _BY_GUEST.get(guest_status, state)
    return state


def find_hole_bytes(bar_bytes: Iterable[int]) -> int:
    """Return the size of the 64-bit hole for the BARs of all cards of a VM.

    Each card is behind a port whose window is aligned to the card's largest BAR, so a card takes up to
    twice that BAR; its small BARs fit into the same room. A hole that is too small makes the firmware
    leave cards without memory, or not boot at all. One that is too large (8 TiB for eight H200) is
    beyond what the IOMMU of some hosts maps.
    """
    total = sum(size for size in bar_bytes if size >= _LARGE_BAR_BYTES)
    if total == 0:
        return USUAL_HOLE_BYTES
    return max(USUAL_HOLE_BYTES, 1 << (2 * total - 1).bit_length())
