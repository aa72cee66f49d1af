"""The UEFI firmware of a host, and the variables of one VM."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpupool.base.errors import VmRejection
from gpupool.vm.disk import Account
from gpupool.vm.firmware import FirmwareFiles, find_firmware, make_variables

#: An account that is not root.
TENANT = 65534


def install(root: Path, code: str, variables: str) -> None:
    for name in (code, variables):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(name.encode())


def test_a_host_without_firmware_is_told_which_package_has_it(tmp_path: Path) -> None:
    with pytest.raises(VmRejection) as refused:
        find_firmware(tmp_path)
    assert "apt-get install ovmf" in (refused.value.hint or "")


def test_code_and_variables_are_of_one_pair(tmp_path: Path) -> None:
    install(tmp_path, "usr/share/OVMF/OVMF_CODE.fd", "usr/share/OVMF/OVMF_VARS.fd")
    # Code alone is no pair: its variables have another size.
    (tmp_path / "usr/share/OVMF/OVMF_CODE_4M.fd").touch()
    assert find_firmware(tmp_path).code.name == "OVMF_CODE.fd"
    install(tmp_path, "usr/share/OVMF/OVMF_CODE_4M.fd", "usr/share/OVMF/OVMF_VARS_4M.fd")
    found = find_firmware(tmp_path)
    assert (found.code.name, found.variables.name) == ("OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd")


def test_variables_are_copied_once(tmp_path: Path) -> None:
    files = FirmwareFiles(tmp_path / "code", tmp_path / "empty")
    files.variables.write_bytes(b"empty")
    target = tmp_path / "firmware.fd"
    make_variables(target, files, Account())
    assert target.read_bytes() == b"empty"
    target.write_bytes(b"with a boot entry")
    make_variables(target, files, Account())
    assert target.read_bytes() == b"with a boot entry"
    assert not list(tmp_path.glob("*.new"))


@pytest.mark.root
def test_variables_belong_to_the_vms_account_and_follow_no_link_of_it(tmp_path: Path) -> None:
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        folder.chmod(folder.stat().st_mode | 0o755)
    files = FirmwareFiles(tmp_path / "code", tmp_path / "empty")
    files.variables.write_bytes(b"empty")
    files.variables.chmod(0o644)
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    os.chown(run, TENANT, TENANT)
    secret = tmp_path / "secret"
    secret.write_bytes(b"of root")
    secret.chmod(0o600)
    (run / "firmware.fd.new").symlink_to(secret)
    make_variables(run / "firmware.fd", files, Account(TENANT, TENANT))
    made = (run / "firmware.fd").lstat()
    assert (made.st_uid, made.st_mode & 0o7777) == (TENANT, 0o600)
    assert secret.read_bytes() == b"of root"


def test_a_copy_that_fails_says_why(tmp_path: Path) -> None:
    files = FirmwareFiles(tmp_path / "code", tmp_path / "absent")
    with pytest.raises(VmRejection, match="absent could not be copied"):
        make_variables(tmp_path / "firmware.fd", files, Account())
    assert list(tmp_path.iterdir()) == []
