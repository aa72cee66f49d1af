"""The files of a VM: their places, and the record that says what was started.

`vms/<job>` belongs to the agent; `vms/<job>/run` belongs to the account that the VM runs as, so its
owner can open the sockets and remove the disk, and no other tenant can. The record is written last:
a directory without it was never started and is removed. Must not start anything.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from gpupool.base.durable import write_durably
from gpupool.base.errors import DamagedRecord, StateNewer
from gpupool.base.files.trees import remove_tree

#: 2 has `firmware_code`, 3 `network_mac`, `tap` and `mtu`.
VERSION: Final = 3
RECORD: Final = "vm.json"
SEED: Final = "seed.iso"
RUN: Final = "run"
DISK: Final = "disk.qcow2"
#: What its UEFI firmware has written: the boot entries.
VARIABLES: Final = "firmware.fd"
#: The agent's QMP socket. A user's commands have their own: QEMU serves one client on each.
MONITOR: Final = "monitor"
CONTROL: Final = "control"
CONSOLE: Final = "console"
#: Other accounts pass through to their own directory but cannot list the names beside it.
_PASSED_THROUGH: Final = 0o711


@dataclass(frozen=True)
class VmRecord:
    """What was started, as `vm.json` holds it. It has no secret: the seed has the user data.

    Attributes:
        devices: Addresses of the PCI functions and uuids of the mediated devices in the guest.
        bar_bytes: Sizes of the memory BARs of all these functions.
        simulated: Whether its cards are simulated: they are held, but no guest can see them.
        accelerator: `kvm` or `tcg`.
        emulated_why: Why it is emulated; empty with `kvm`.
        mac: Address of its network interface.
        identity: Job from which its UUID and its address are made.
        firmware_code: Path of the UEFI firmware's code; empty of a VM that boots by BIOS.
        network_mac: Address of its interface in a tenant's network; empty where it is in none.
        tap: The tap of that interface.
        mtu: Of that network, in bytes.
    """

    job: str
    name: str
    cpus: int
    ram_bytes: int
    image: str | None
    kernel: str | None
    initrd: str | None
    append: str
    seeded: bool
    devices: tuple[str, ...]
    bar_bytes: tuple[int, ...]
    simulated: bool
    accelerator: str
    emulated_why: str
    mac: str
    identity: str
    firmware_code: str = ""
    network_mac: str = ""
    tap: str = ""
    mtu: int = 0


class VmFiles:
    """The paths of one VM."""

    def __init__(self, root: Path, job: str) -> None:
        """Name the paths; nothing is made.

        Args:
            root: The directory `vms` of an agent.
            job: The VM's job.

        Raises:
            ValueError: The id is no plain file name.
        """
        if not job or job.startswith(".") or "/" in job or "\0" in job:
            raise ValueError(f"not a job id: {job!r}")
        self.directory = root / job
        self.record = self.directory / RECORD
        self.seed = self.directory / SEED
        self.run = self.directory / RUN
        self.disk = self.run / DISK
        self.variables = self.run / VARIABLES
        self.monitor = self.run / MONITOR
        self.control = self.run / CONTROL
        self.console = self.run / CONSOLE

    def make_directories(self, uid: int, gid: int) -> None:
        """Make the directories, `run` for the account that the VM runs as. Idempotent."""
        for path in (self.directory.parent, self.directory):
            path.mkdir(mode=_PASSED_THROUGH, parents=True, exist_ok=True)
            path.chmod(_PASSED_THROUGH)
        self.run.mkdir(mode=0o700, exist_ok=True)
        # Not through a link: the directory above is the agent's, so `run` is what was made here.
        os.chown(self.run, uid, gid, follow_symlinks=False)

    def has_disk(self) -> bool:
        """Whether its disk is kept. Raises PermissionError for another account's VM."""
        return _is_present(self.disk)

    def take_over(self, old: VmFiles) -> None:
        """Take the disk of an ended VM, and share its seed and its variables. Idempotent.

        The record is written before: from then on a disk here is never removed as unused. Until the
        disk is here the other files are those of both: either VM can be the one that stays.
        """
        for theirs, ours in ((old.seed, self.seed), (old.variables, self.variables)):
            if _is_present(theirs) and not _is_present(ours):
                os.link(theirs, ours, follow_symlinks=False)
        if not self.has_disk():
            os.rename(old.disk, self.disk)

    def write_record(self, record: VmRecord, uid: int, gid: int) -> None:
        """Write the record for the VM's account to read. Idempotent; blocks for up to 3 flushes."""
        content = json.dumps({"version": VERSION, **asdict(record)}, indent=1)
        write_durably(self.record, content.encode(), mode=0o400)
        os.chown(self.record, uid, gid, follow_symlinks=False)

    def read_record(self) -> VmRecord | None:
        """Read the record; None where the VM was never started or its directory is gone.

        Raises:
            DamagedRecord: The file cannot be understood.
            StateNewer: A newer gpupool wrote it.
            PermissionError: The VM is another account's.
        """
        try:
            return _parse_record(self.record)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, KeyError, TypeError, AttributeError) as problem:
            raise DamagedRecord(
                f"{self.record} cannot be understood: {problem}",
                hint="the VM's disk is beside it, in the directory run",
            ) from problem

    def is_kept(self) -> bool:
        """Whether it must stay after its job: it was started, and its disk is there."""
        return self.record.exists() and self.has_disk()

    def remove(self) -> None:
        """Remove everything, the disk too. Idempotent."""
        # The disk goes first: after a kill here the directory has no disk and is removed later.
        self.disk.unlink(missing_ok=True)
        if self.directory.is_dir():
            remove_tree(self.directory)


def list_vms(root: Path) -> Iterator[VmFiles]:
    """List the VMs that have a directory, by job."""
    if not root.is_dir():
        return
    for entry in sorted(root.iterdir()):
        if entry.is_dir() and not entry.is_symlink():
            yield VmFiles(root, entry.name)


def _is_present(path: Path) -> bool:
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _parse_record(path: Path) -> VmRecord:
    entry: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    version = entry.pop("version")
    if version > VERSION:
        raise StateNewer(
            f"{path} was written by a newer gpupool (version {version})", hint="run that version"
        )
    entry["devices"] = tuple(entry["devices"])
    entry["bar_bytes"] = tuple(entry["bar_bytes"])
    return VmRecord(**entry)
