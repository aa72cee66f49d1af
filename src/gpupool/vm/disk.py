"""Disk images: what a file is, and the overlay on it that a VM writes to.

`qemu-img` runs under the account of the VM. An image is a tenant's file and may name other files
below it: a program of root would open them.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpupool.base.errors import BadImage, VmRejection
from gpupool.base.units import format_mib

QEMU_IMG: Final = "qemu-img"
#: Formats that a VM can start from. Others are converted when they are imported.
DIRECT_FORMATS: Final = ("qcow2", "raw")
#: Bytes of a disk: a raw file of another size is no disk, and `qemu-img` calls any file raw.
_SECTOR_BYTES: Final = 512
#: Seconds. An overlay takes 0.08 s; a network file system may be slow.
_SECONDS: Final = 60
#: Of a boot sector, at byte 510, and of a GUID partition table, at byte 512.
_BOOT_SIGN: Final = b"\x55\xaa"
_GPT_SIGN: Final = b"EFI PART"
#: With the versions 2 and 3 (QEMU's docs/interop/qcow2.txt).
_QCOW2_SIGN: Final = b"QFI\xfb\0\0\0"


@dataclass(frozen=True)
class Account:
    """The Unix account that a program runs as; None for all is the caller's own."""

    uid: int | None = None
    gid: int | None = None
    groups: tuple[int, ...] = ()


@dataclass(frozen=True)
class DiskImage:
    """What `qemu-img info` says of an image.

    Attributes:
        disk_bytes: Size of the disk that a guest sees.
        file_bytes: Bytes that the file takes.
        backing: Another file that it needs, empty where it stands alone.
    """

    format: str
    disk_bytes: int
    file_bytes: int
    backing: str = ""


def inspect_image(path: Path, account: Account = Account()) -> DiskImage:
    """Read what an image is. Blocks for one program.

    Raises:
        BadImage: The file is missing, unreadable, or no disk image; says what was found.
        VmRejection: `qemu-img` is missing.
    """
    _refuse_special_file(path)
    done = _run(["info", "--output=json", "--force-share", str(path)], account)
    if done.returncode != 0:
        raise BadImage(
            f"{path} cannot be used as a disk image: {_find_reason(done)}",
            hint="the VM's account must be able to read it: qemu-img info FILE",
        )
    found: dict[str, Any] = json.loads(done.stdout)
    image = DiskImage(
        format=found["format"],
        disk_bytes=found["virtual-size"],
        file_bytes=found.get("actual-size", 0),
        backing=_find_other_file(found),
    )
    if image.format == "raw":
        _check_raw(path, account)
    return image


def find_start_format(path: Path, account: Account = Account()) -> str:
    """Return the format of an image that a VM can start from.

    The first bytes decide where they can, without a start of `qemu-img`, which takes as long as
    everything else that the agent does for a VM.

    Raises:
        BadImage: The file is no image that a VM starts from; says what was found.
        VmRejection: `qemu-img` is missing.
    """
    head = _read_head(path, account)
    if head[: len(_QCOW2_SIGN)] == _QCOW2_SIGN:
        return "qcow2"
    if _is_disk(head):
        return "raw"
    image = inspect_image(path, account)
    check_startable(path, image)
    return image.format


def check_startable(path: Path, image: DiskImage) -> None:
    """Raise BadImage unless a VM can start from the image as it is."""
    if image.format not in DIRECT_FORMATS:
        raise BadImage(
            f"{path} has the format {image.format}; a VM starts from {' or '.join(DIRECT_FORMATS)}",
            hint=f"gpupool vm image import {path}  converts it",
        )


def make_overlay(disk: Path, image: Path, image_format: str, account: Account) -> None:
    """Make the disk of a VM on an image, unless the disk is there. Idempotent.

    A kill leaves the disk, or a file beside it that the next call replaces.

    Raises:
        BadImage: The disk cannot be made on this image.
    """
    if disk.exists():
        return
    part = disk.with_name(f"{disk.name}.new")
    part.unlink(missing_ok=True)
    backing = ["-b", str(image), "-F", image_format]
    done = _run(["create", "-q", "-f", "qcow2", *backing, str(part)], account)
    if done.returncode != 0:
        part.unlink(missing_ok=True)
        raise BadImage(f"no disk could be made on {image}: {_find_reason(done)}")
    os.rename(part, disk)


def copy_file(source: Path, target: Path, account: Account) -> None:
    """Copy a small file of the host for a VM's account, which alone may read the copy. Idempotent.

    Raises:
        VmRejection: The copy cannot be written.
    """
    part = target.with_name(f"{target.name}.new")
    part.unlink(missing_ok=True)
    # By a program under the account: the directory is the tenant's, and may have links.
    done = subprocess.run(
        ["/bin/cp", "--", str(source), str(part)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
        umask=0o077,
        cwd="/",
        **_make_options(account),
    )
    if done.returncode != 0:
        part.unlink(missing_ok=True)
        raise VmRejection(f"{source} could not be copied: {done.stderr.strip()[:300]}")
    os.rename(part, target)


def convert_image(source: Path, target: Path) -> None:
    """Write a copy as a compact qcow2 file that stands alone. Blocks for as long as it takes.

    Raises:
        BadImage: The image cannot be read, or the copy cannot be written.
    """
    done = _run(["convert", "-O", "qcow2", str(source), str(target)], Account(), seconds=None)
    if done.returncode != 0:
        target.unlink(missing_ok=True)
        raise BadImage(f"{source} could not be copied: {_find_reason(done)}")


def find_program(name: str, package: str) -> str:
    """Return the path of a program. Raises VmRejection with the package that has it."""
    # A service manager's PATH may lack the directories that programs of the system are in.
    path = shutil.which(name) or shutil.which(name, path="/usr/bin:/usr/sbin:/usr/local/bin")
    if path is None:
        raise VmRejection(
            f"{name} is not installed on this node",
            hint=f"an admin installs it: apt-get install {package}",
        )
    return path


def _find_other_file(found: dict[str, Any]) -> str:
    """Return the file below an image, or the file that has its data (qcow2 `data-file`)."""
    specific: dict[str, Any] = found.get("format-specific", {}).get("data", {})
    other = found.get("full-backing-filename") or found.get("backing-filename")
    return str(other or specific.get("data-file", ""))


def _check_raw(path: Path, account: Account) -> None:
    """Refuse a raw file that has no boot sector and no partition table: any file is `raw`."""
    head = _read_head(path, account)
    if not _is_disk(head):
        size = path.stat().st_size
        raise BadImage(
            f"{path} is no disk image: got {_describe_head(head)} of {size} bytes, "
            "expected qcow2, or a raw disk with a boot sector",
            hint="with --kernel a raw file system is imported first: gpupool vm image import FILE",
        )


def _refuse_special_file(path: Path) -> None:
    """Raise BadImage for a pipe, a socket or a directory: `qemu-img` waits for the first without end."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # qemu-img says why
    if not stat.S_ISREG(mode) and not stat.S_ISBLK(mode):
        raise BadImage(
            f"{path} cannot be used as a disk image: it is no regular file and no block device",
            hint="name the image itself",
        )


def _read_head(path: Path, account: Account) -> bytes:
    """Read the first two sectors as an account; nothing of a file that it cannot read."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return b""
    if not stat.S_ISREG(mode) and not stat.S_ISBLK(mode):
        # A pipe would keep the reader waiting.
        return b""
    reader = ["head", "-c", str(2 * _SECTOR_BYTES), str(path)]
    done: subprocess.CompletedProcess[bytes] = subprocess.run(
        reader,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_SECONDS,
        check=False,
        **_make_options(account),
    )
    return done.stdout


def _is_disk(head: bytes) -> bool:
    """Whether a raw file begins as a disk does."""
    is_partitioned = head[_SECTOR_BYTES : _SECTOR_BYTES + len(_GPT_SIGN)] == _GPT_SIGN
    return head[510:512] == _BOOT_SIGN or is_partitioned


def _describe_head(head: bytes) -> str:
    if head.startswith(b"\x7fELF"):
        return "a program (ELF)"
    if head.startswith(b"\x1f\x8b"):
        return "a gzip archive"
    if head.startswith(b"\xfd7zXZ"):
        return "an xz archive"
    if head and all(byte in b"\t\n\r" or 32 <= byte < 127 for byte in head[:64]):
        return "text"
    return "data" if head.strip(b"\0") else "nothing but zeros"


def _run(
    arguments: Sequence[str], account: Account, seconds: float | None = _SECONDS
) -> subprocess.CompletedProcess[str]:
    program = find_program(QEMU_IMG, "qemu-utils")
    try:
        return subprocess.run(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            cwd="/",
            **_make_options(account),
        )
    except subprocess.TimeoutExpired as error:
        raise BadImage(f"qemu-img {arguments[0]} did not end within {_SECONDS} s") from error


def _make_options(account: Account) -> dict[str, Any]:
    if account.uid is None:
        return {}
    return {"user": account.uid, "group": account.gid, "extra_groups": list(account.groups)}


def _find_reason(done: subprocess.CompletedProcess[str]) -> str:
    """Return why a program failed, on one line."""
    if done.returncode < 0:
        return f"{QEMU_IMG} was killed by signal {-done.returncode}"
    lines = done.stderr.strip().removeprefix(f"{QEMU_IMG}: ").splitlines()
    return lines[0][:300] if lines else f"{QEMU_IMG} gave no reason"


def describe_image(image: DiskImage) -> str:
    """Describe an image for people, as `qcow2, disk of 8192 MiB`."""
    return f"{image.format}, disk of {format_mib(image.disk_bytes)}"
