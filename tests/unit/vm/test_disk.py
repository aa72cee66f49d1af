"""Disk images by the real `qemu-img`: what a file is, and the overlay on it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from gpupool.base.errors import BadImage, VmRejection
from gpupool.vm import disk
from gpupool.vm.disk import (
    Account,
    DiskImage,
    check_startable,
    convert_image,
    find_program,
    find_start_format,
    inspect_image,
    make_overlay,
)

pytestmark = pytest.mark.skipif(
    shutil.which("qemu-img") is None, reason="no qemu-img: apt-get install qemu-utils"
)
SIZE = 1 << 20


def make_image(path: Path, form: str = "qcow2") -> Path:
    subprocess.run(["qemu-img", "create", "-q", "-f", form, path, str(SIZE)], check=True)
    return path


def make_raw(path: Path) -> Path:
    path.write_bytes(bytes(510) + b"\x55\xaa" + bytes(SIZE - 512))
    return path


def test_a_qcow2_image_is_known_with_its_size(tmp_path: Path) -> None:
    image = inspect_image(make_image(tmp_path / "a,b.qcow2"))
    assert (image.format, image.disk_bytes, image.backing) == ("qcow2", SIZE, "")
    check_startable(tmp_path, image)


def test_a_raw_disk_has_a_boot_sector_or_a_partition_table(tmp_path: Path) -> None:
    assert inspect_image(make_raw(tmp_path / "mbr")).format == "raw"
    gpt = tmp_path / "gpt"
    gpt.write_bytes(bytes(512) + b"EFI PART" + bytes(SIZE))
    assert inspect_image(gpt).format == "raw"


def test_the_first_bytes_say_what_a_vm_starts_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = {
        "qcow2": make_image(tmp_path / "a.qcow2"),
        "raw": make_raw(tmp_path / "a.raw"),
    }
    with monkeypatch.context() as no_program:
        no_program.setattr(disk, "inspect_image", None)
        for form, path in images.items():
            assert find_start_format(path) == form
    with pytest.raises(BadImage, match="format vmdk; a VM starts from qcow2 or raw"):
        find_start_format(make_image(tmp_path / "a.vmdk", "vmdk"))
    with pytest.raises(BadImage, match="cannot be used as a disk image"):
        find_start_format(tmp_path / "absent")
    (tmp_path / "text").write_text("hello\n" * 500)
    with pytest.raises(BadImage, match="got text"):
        find_start_format(tmp_path / "text")


def test_an_image_that_is_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadImage):
        find_start_format(tmp_path / "pipe")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"\x7fELF" + bytes(2000), "a program (ELF)"),
        (b"\x1f\x8b" + bytes(2000), "a gzip archive"),
        (b"hello\n" * 500, "text"),
        (bytes(2048), "nothing but zeros"),
        (b"\x01\x02" * 1000, "data"),
    ],
)
def test_what_is_no_disk_is_named(tmp_path: Path, content: bytes, found: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(BadImage) as caught:
        inspect_image(path)
    assert f"got {found} of {len(content)} bytes" in caught.value.message


def test_an_absent_image_is_an_answer(tmp_path: Path) -> None:
    with pytest.raises(BadImage, match="No such file"):
        inspect_image(tmp_path / "absent")


def test_a_format_that_no_vm_starts_from_is_to_be_imported(tmp_path: Path) -> None:
    image = inspect_image(make_image(tmp_path / "a.vmdk", "vmdk"))
    with pytest.raises(BadImage) as caught:
        check_startable(tmp_path / "a.vmdk", image)
    assert "gpupool vm image import" in caught.value.hint
    convert_image(tmp_path / "a.vmdk", tmp_path / "b.qcow2")
    assert inspect_image(tmp_path / "b.qcow2").format == "qcow2"


def test_an_overlay_names_its_image_and_is_made_once(tmp_path: Path) -> None:
    image = make_image(tmp_path / "base.qcow2")
    overlay = tmp_path / "disk.qcow2"
    make_overlay(overlay, image, "qcow2", Account())
    first = overlay.stat()
    (tmp_path / "disk.qcow2.new").write_text("of a start that was killed")
    make_overlay(overlay, image, "qcow2", Account())
    assert overlay.stat().st_ino == first.st_ino
    assert inspect_image(overlay).backing == str(image)


def test_a_part_that_a_kill_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "disk.qcow2.new").write_text("of a start that was killed")
    make_overlay(tmp_path / "disk.qcow2", make_raw(tmp_path / "raw"), "raw", Account())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["disk.qcow2", "raw"]


def test_the_format_of_an_image_is_never_guessed_from_its_content(tmp_path: Path) -> None:
    # A tenant could write a qcow2 header with a path of root's into a raw disk.
    raw = make_raw(tmp_path / "raw")
    make_overlay(tmp_path / "disk.qcow2", raw, "raw", Account())
    command = ["qemu-img", "info", "--output=json", tmp_path / "disk.qcow2"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert found["backing-filename-format"] == "raw"


@pytest.mark.root
def test_an_image_that_the_vms_account_cannot_read_is_refused(tmp_path: Path) -> None:
    image = make_image(tmp_path / "secret.qcow2")
    image.chmod(0o600)
    with pytest.raises(BadImage, match="Permission denied"):
        inspect_image(image, Account(65534, 65534))
    with pytest.raises(BadImage):
        make_overlay(tmp_path / "disk.qcow2", image, "qcow2", Account(65534, 65534))
    assert not (tmp_path / "disk.qcow2").exists()


def test_a_missing_program_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_args, **_more: None)
    with pytest.raises(VmRejection) as caught:
        find_program("qemu-system-x86_64", "qemu-system-x86")
    assert "apt-get install qemu-system-x86" in caught.value.hint


def test_an_image_is_described_with_its_size() -> None:
    assert disk.describe_image(DiskImage("qcow2", 8 << 30, 0)) == "qcow2, disk of 8192 MiB"
    assert os.path.basename(disk.QEMU_IMG) == "qemu-img"


def test_a_file_that_has_its_data_elsewhere_does_not_stand_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.qcow2"
    options = f"data_file={tmp_path}/data,data_file_raw=on"
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-o", options, path, str(SIZE)], check=True
    )
    assert inspect_image(path).backing == f"{tmp_path}/data"
