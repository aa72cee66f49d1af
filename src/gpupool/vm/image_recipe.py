"""What an image of Debian that gpupool builds has in it. Pure.

The disk has one partition and boots by BIOS: GRUB's first stage loads `core.img` from the sectors
behind it, which is what both do where nothing else is written into them (GRUB manual, "BIOS
installation"; i386-pc `boot.img` reads sector 1, `diskboot.img` the sectors from 2 on).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpupool.model.vm import MIB

BOOTSTRAP: Final = "mmdebstrap"
SECTOR: Final = 512
USUAL_SUITE: Final = "bookworm"
USUAL_DISK_BYTES: Final = 4096 * MIB
SMALLEST_DISK_BYTES: Final = 2048 * MIB
#: What a table of partitions of this kind can name: 2^32 sectors.
LARGEST_DISK_BYTES: Final = (SECTOR << 32) - MIB
#: The whole kernel and not the cloud's: that one lacks drivers of hardware that a VM is given.
PACKAGES: Final = (
    *("linux-image-amd64", "systemd-sysv", "dbus", "libpam-systemd", "systemd-resolved"),
    *("openssh-server", "cloud-init", "cloud-guest-utils", "e2fsprogs", "pciutils", "sudo"),
    *("iproute2", "ca-certificates", "grub-pc-bin"),
)
#: Of every file system, so that a kernel finds its root whatever the disk is called.
ROOT_LABEL: Final = "gpupool-root"
#: Where the partition begins, as every tool for partitions has it.
PARTITION_OFFSET: Final = MIB
_LINUX: Final = 0x83
_BOOTABLE: Final = 0x80
#: Bytes of a master boot record before its table; the rest belongs to the table.
_CODE_BYTES: Final = 440
_TABLE_OFFSET: Final = 446
#: Heads, sectors and cylinders of a place that only logical numbers can name.
_NO_CYLINDER: Final = b"\xfe\xff\xff"
GRUB_MODULES: Final = (
    *("biosdisk", "part_msdos", "part_gpt", "ext2", "linux", "normal", "serial", "terminal"),
    *("search", "search_label", "configfile", "echo", "test"),
)
#: `no_timer_check`: under emulation the timer is late on a busy host, and the kernel stops there.
_KERNEL_OPTIONS: Final = f"root=LABEL={ROOT_LABEL} ro console=tty0 console=ttyS0 no_timer_check"
GRUB_CONFIG: Final = f"""\
serial --unit=0 --speed=115200
terminal_output serial
set timeout=0
menuentry Debian {{
  search --no-floppy --label {ROOT_LABEL} --set=root
  linux /vmlinuz {_KERNEL_OPTIONS}
  initrd /initrd.img
}}
"""
FSTAB: Final = f"LABEL={ROOT_LABEL} / ext4 errors=remount-ro 0 1\n"
#: The user data of a VM is a disk of its own; no service of a cloud is looked for. Only the locale C is
#: installed, and cloud-init fails where it sets another.
CLOUD_INIT: Final = 'datasource_list: [NoCloud, None]\nlocale: "false"\n'


@dataclass(frozen=True)
class ImageRecipe:
    """What is built.

    Attributes:
        mirror: Address of the archive, or a directory that is one; None is the usual archive.
        packages: More packages than the usual ones.
        disk_bytes: Size of the disk; cloud-init grows its file system on a larger one.
    """

    suite: str = USUAL_SUITE
    mirror: str | None = None
    packages: tuple[str, ...] = ()
    disk_bytes: int = USUAL_DISK_BYTES


def build_bootstrap_command(recipe: ImageRecipe, target: Path) -> Sequence[str]:
    """Build the command that installs the packages into a directory."""
    packages = ",".join((*PACKAGES, *recipe.packages))
    # Documentation is removed from the file system, not from the package database.
    leave_out = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*")
    command = [BOOTSTRAP, "--mode=root", "--variant=minbase", f"--include={packages}"]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in leave_out]
    command += ["--dpkgopt=path-include=/usr/share/doc/*/copyright"]
    if recipe.mirror is not None and Path(recipe.mirror).is_absolute():
        command += ["--hook-dir=/usr/share/mmdebstrap/hooks/file-mirror-automount"]
    command += ["--format=directory", recipe.suite, str(target)]
    if recipe.mirror is not None:
        is_directory = Path(recipe.mirror).is_absolute()
        command += [f"file://{recipe.mirror}" if is_directory else recipe.mirror]
    return command


def build_boot_record(boot_code: bytes, disk_bytes: int) -> bytes:
    """Build the first sector of the disk: GRUB's first stage and the table of one partition."""
    start = PARTITION_OFFSET // SECTOR
    count = (disk_bytes - PARTITION_OFFSET) // SECTOR
    entry = struct.pack("<B3sB3sII", _BOOTABLE, _NO_CYLINDER, _LINUX, _NO_CYLINDER, start, count)
    record = boot_code[:_CODE_BYTES].ljust(_TABLE_OFFSET, b"\0") + entry
    return record.ljust(SECTOR - 2, b"\0") + b"\x55\xaa"
