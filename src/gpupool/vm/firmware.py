"""The UEFI firmware of a host (OVMF): its code, which all VMs share, and a VM's variables.

The variables are a file of each VM, beside its disk: boot entries that an installer has written stay
with the disk that they name.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpupool.base.errors import VmRejection
from gpupool.vm.disk import Account, copy_file

PACKAGE: Final = "ovmf"
#: Code and empty variables that belong together, without Secure Boot, the larger flash first. Paths of
#: the packages of Debian and Ubuntu (ovmf), Fedora and RHEL (edk2-ovmf), and openSUSE (qemu-ovmf-x86_64).
_PLACES: Final = (
    ("usr/share/OVMF/OVMF_CODE_4M.fd", "usr/share/OVMF/OVMF_VARS_4M.fd"),
    ("usr/share/edk2/ovmf/OVMF_CODE.fd", "usr/share/edk2/ovmf/OVMF_VARS.fd"),
    ("usr/share/qemu/ovmf-x86_64-4m-code.bin", "usr/share/qemu/ovmf-x86_64-4m-vars.bin"),
    ("usr/share/OVMF/OVMF_CODE.fd", "usr/share/OVMF/OVMF_VARS.fd"),
)


@dataclass(frozen=True)
class FirmwareFiles:
    """The two files of a firmware.

    Attributes:
        code: Is never written to.
        variables: The empty variables, of which each VM gets a copy.
    """

    code: Path
    variables: Path


def find_firmware(root: Path = Path("/")) -> FirmwareFiles:
    """Find the UEFI firmware of this host. Raises VmRejection with the package that has it."""
    for code, variables in _PLACES:
        files = FirmwareFiles(root / code, root / variables)
        if files.code.is_file() and files.variables.is_file():
            return files
    raise VmRejection(
        "--firmware uefi: no UEFI firmware for virtual machines is installed on this node",
        hint=f"an admin installs it: apt-get install {PACKAGE}; or --firmware bios",
    )


def make_variables(target: Path, files: FirmwareFiles, account: Account) -> None:
    """Make the variables of a VM, unless it has some. Idempotent."""
    if not target.exists():
        copy_file(files.variables, target, account)
