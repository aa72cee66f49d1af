"""The disk for cloud-init: its texts, and what a reader of the disk finds."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from gpupool.base.errors import VmRejection
from gpupool.model.vm import VmSpec
from gpupool.vm import seed
from gpupool.vm.argv import make_mac, make_uuid
from gpupool.vm.seed import build_seed_files, write_seed

JOB = "j-1"
KEY = "ssh-ed25519 AAAAC3Nza me@host"
#: Byte of the volume's label in the primary descriptor (ECMA-119, 8.4.6).
LABEL_AT = 16 * 2048 + 40


def test_keys_are_meta_data_so_that_user_data_stays_as_it_was_given() -> None:
    user_data = "#cloud-config\npackages: [htop]\n"
    files = build_seed_files(JOB, "dev", VmSpec(ssh_keys=(KEY,), cloud_init=user_data))
    meta = yaml.safe_load(files["meta-data"])
    assert meta == {
        "instance-id": str(make_uuid(JOB)), "local-hostname": "dev", "public-keys": [KEY],
    }  # fmt: skip
    assert files["user-data"] == user_data


def test_the_interface_is_found_by_its_address() -> None:
    files = build_seed_files(JOB, "dev", VmSpec())
    network = json.loads(files["network-config"])
    assert network["ethernets"]["net0"]["match"] == {"macaddress": make_mac(JOB)}
    assert yaml.safe_load(files["user-data"]) == {}


def test_both_interfaces_of_a_vm_in_a_network_ask_for_leases() -> None:
    files = build_seed_files(JOB, "dev", VmSpec(), "06:00:00:00:00:01")
    found = json.loads(files["network-config"])["ethernets"]
    assert found["lan0"] == {"match": {"macaddress": "06:00:00:00:00:01"}, "dhcp4": True}
    assert found["net0"] == {"match": {"macaddress": make_mac(JOB)}, "dhcp4": True}


def test_a_vm_in_a_network_with_ipv6_asks_for_both_leases_there_alone() -> None:
    files = build_seed_files(JOB, "dev", VmSpec(), "06:00:00:00:00:01", has_ipv6=True)
    found = json.loads(files["network-config"])["ethernets"]
    assert (found["lan0"]["dhcp4"], found["lan0"]["dhcp6"]) == (True, True)
    assert "dhcp6" not in found["net0"]


@pytest.mark.skipif(shutil.which("isoinfo") is None, reason="apt-get install genisoimage")
def test_the_disk_has_the_label_and_the_names_that_cloud_init_looks_for(tmp_path: Path) -> None:
    files = build_seed_files(JOB, "dev", VmSpec(ssh_keys=(KEY,)))
    path = tmp_path / "seed.iso"
    for _ in range(2):
        write_seed(path, files, os.geteuid(), os.getegid())
    assert path.read_bytes()[LABEL_AT : LABEL_AT + 32].rstrip() == b"cidata"
    for name, text in files.items():
        command = ["isoinfo", "-i", path, "-R", "-x", f"/{name}"]
        assert subprocess.run(command, check=True, capture_output=True).stdout.decode() == text
    assert path.stat().st_mode & 0o777 == 0o400
    assert [entry.name for entry in tmp_path.iterdir()] == ["seed.iso"]


def test_a_host_without_the_program_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seed.shutil, "which", lambda _name: None)
    with pytest.raises(VmRejection) as caught:
        seed.find_seed_program()
    assert "apt-get install genisoimage" in caught.value.hint


def test_a_program_that_fails_is_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seed, "find_seed_program", lambda: "/bin/false")
    with pytest.raises(VmRejection, match="could not write the seed"):
        write_seed(tmp_path / "seed.iso", {"user-data": ""}, os.geteuid(), os.getegid())
    assert list(tmp_path.iterdir()) == []
