"""What a built image has in it, and the first sector of its disk."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from gpupool.model.vm import GIB, MIB
from gpupool.vm.image_recipe import (
    CLOUD_INIT,
    GRUB_CONFIG,
    LARGEST_DISK_BYTES,
    ROOT_LABEL,
    ImageRecipe,
    build_boot_record,
    build_bootstrap_command,
)

TARGET = Path("/store/.build-x/root")


def test_packages_come_from_the_usual_archive_with_its_security_updates() -> None:
    command = build_bootstrap_command(ImageRecipe(packages=("git",)), TARGET)
    assert command[0] == "mmdebstrap"
    # Without a mirror mmdebstrap takes the archives of updates as well.
    assert list(command[-2:]) == ["bookworm", str(TARGET)]
    (packages,) = [word for word in command if word.startswith("--include=")]
    assert {"cloud-init", "openssh-server", "git"} <= set(packages[10:].split(","))


@pytest.mark.parametrize(
    ("mirror", "last", "hooks"),
    [
        ("http://mirror.example/debian", "http://mirror.example/debian", 0),
        ("/srv/debian", "file:///srv/debian", 1),
    ],
)
def test_a_mirror_is_an_address_or_a_directory_that_the_chroot_sees(
    mirror: str, last: str, hooks: int
) -> None:
    command = build_bootstrap_command(ImageRecipe(mirror=mirror), TARGET)
    assert command[-1] == last
    assert sum(word.startswith("--hook-dir=") for word in command) == hooks


@pytest.mark.parametrize("disk_bytes", [2 * GIB, LARGEST_DISK_BYTES])
def test_the_first_sector_has_the_boot_code_and_one_partition(disk_bytes: int) -> None:
    code = bytes(range(1, 256)) * 3
    record = build_boot_record(code, disk_bytes)
    assert len(record) == 512
    assert record[:440] == code[:440]
    assert record[510:] == b"\x55\xaa"
    status, kind, start, count = struct.unpack("<B3xB3xII", record[446:462])
    assert (status, kind, start) == (0x80, 0x83, 2048)
    assert (start + count) * 512 <= disk_bytes
    assert record[462:510] == bytes(48)


@pytest.mark.skipif(shutil.which("sfdisk", path="/sbin:/usr/sbin") is None, reason="no sfdisk")
def test_the_table_is_what_other_programs_read(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with open(disk, "wb") as file:
        file.write(build_boot_record(b"", 64 * MIB))
        file.truncate(64 * MIB)
    shown = subprocess.run(
        ["/sbin/sfdisk", "--dump", disk], capture_output=True, text=True, check=True
    )
    assert "start=        2048, size=      129024, type=83, bootable" in shown.stdout


def test_the_kernel_finds_its_root_by_label_and_needs_no_service_of_a_cloud() -> None:
    assert f"root=LABEL={ROOT_LABEL}" in GRUB_CONFIG
    assert "NoCloud" in CLOUD_INIT
