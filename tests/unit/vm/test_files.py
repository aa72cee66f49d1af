"""The files of a VM: who may reach them, what is kept, and what is no record."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from gpupool.base.errors import DamagedRecord, StateNewer
from gpupool.vm.files import VERSION, VmFiles, VmRecord, list_vms

UID = os.geteuid()
GID = os.getegid()


def make_record(**facts: object) -> VmRecord:
    whole = {
        "job": "j-1", "name": "dev", "cpus": 2, "ram_bytes": 1 << 30, "image": "/i.qcow2",
        "kernel": None, "initrd": None, "append": "", "seeded": False, "devices": (),
        "bar_bytes": (), "simulated": True, "accelerator": "tcg", "emulated_why": "no node",
        "mac": "52:54:00:00:00:01", "identity": "j-1", **facts,
    }  # fmt: skip
    return VmRecord(**whole)  # type: ignore[arg-type]  # the table above has every field


@pytest.fixture
def files(tmp_path: Path) -> VmFiles:
    made = VmFiles(tmp_path / "vms", "j-1")
    made.make_directories(UID, GID)
    return made


def test_a_record_is_read_back_as_it_was_written(files: VmFiles) -> None:
    record = make_record(devices=("0000:01:00.0",), bar_bytes=(16, 256))
    files.write_record(record, UID, GID)
    assert files.read_record() == record
    assert files.record.stat().st_mode & 0o777 == 0o400


def test_only_the_vms_account_lists_its_directory(files: VmFiles) -> None:
    files.make_directories(UID, GID)  # idempotent
    assert files.run.stat().st_mode & 0o777 == 0o700
    assert files.directory.stat().st_mode & 0o777 == 0o711
    assert files.directory.parent.stat().st_mode & 0o777 == 0o711


def test_a_vm_without_a_directory_has_no_record(tmp_path: Path) -> None:
    absent = VmFiles(tmp_path, "j-2")
    assert absent.read_record() is None
    assert not absent.has_disk()
    assert not absent.is_kept()
    absent.remove()


def test_a_disk_is_kept_only_of_a_vm_that_was_started(files: VmFiles) -> None:
    files.disk.write_bytes(b"disk")
    assert not files.is_kept()
    files.write_record(make_record(), UID, GID)
    assert files.is_kept()
    files.disk.unlink()
    assert not files.is_kept()


def test_remove_leaves_nothing_and_may_be_repeated(files: VmFiles) -> None:
    files.disk.write_bytes(b"disk")
    files.write_record(make_record(), UID, GID)
    files.remove()
    files.remove()
    assert list(list_vms(files.directory.parent)) == []


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": 1}', '{"version": 1, "x": 2}'])
def test_a_damaged_record_says_where_the_disk_is(files: VmFiles, content: str) -> None:
    files.record.write_text(content)
    with pytest.raises(DamagedRecord) as caught:
        files.read_record()
    assert "disk" in caught.value.hint


def test_a_newer_record_is_not_guessed_at(files: VmFiles) -> None:
    files.record.write_text(json.dumps({"version": VERSION + 1, **asdict(make_record())}))
    with pytest.raises(StateNewer):
        files.read_record()


def test_a_record_of_version_1_is_one_of_a_vm_that_boots_by_bios(files: VmFiles) -> None:
    entry = asdict(make_record())
    del entry["firmware_code"]
    files.record.write_text(json.dumps({"version": 1, **entry}))
    assert files.read_record() == make_record(firmware_code="")


def test_a_taken_disk_brings_its_variables_and_leaves_the_old_ones_until_it_is_moved(
    files: VmFiles,
) -> None:
    files.disk.write_bytes(b"disk")
    files.variables.write_bytes(b"boot entries")
    later = VmFiles(files.directory.parent, "j-2")
    later.make_directories(UID, GID)
    later.variables.write_bytes(b"its own")
    later.take_over(files)
    assert later.variables.read_bytes() == b"its own"
    later.disk.rename(files.disk)
    later.variables.unlink()
    for _ in range(2):
        later.take_over(files)
        assert later.variables.read_bytes() == b"boot entries"
        assert files.variables.exists()
        assert later.has_disk()


@pytest.mark.parametrize("job", ["", ".", "..", "../x", "a/b", "a\0"])
def test_an_id_leads_out_of_no_directory(tmp_path: Path, job: str) -> None:
    with pytest.raises(ValueError, match="not a job id"):
        VmFiles(tmp_path, job)
