"""The start of a VM on its node: its files, its account, what it is refused, what stays."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpupool.agent.supervisor.job_spec import JobSpec, ResourceLimit
from gpupool.agent.vm import host
from gpupool.agent.vm.host import VmHost
from gpupool.base.errors import BadImage, VmRejection
from gpupool.mechanisms.contract import (
    AllocationView,
    FenceLevel,
    GrantedDevice,
    HostKind,
    JobSeat,
    PciFunction,
    PreparedAllocation,
)
from gpupool.model.device import Device
from gpupool.model.vm import GIB, MIB, VmSpec
from gpupool.vm.accelerator import AcceleratorChoice
from gpupool.vm.files import VmFiles

JOB = "j-1"
#: The account of a tenant in a pool of root.
TENANT = 65534
SMALL = VmSpec(cpus=1, ram_bytes=64 * MIB)
needs_qemu = pytest.mark.skipif(
    shutil.which("qemu-img") is None, reason="no QEMU: apt-get install qemu-system-x86 qemu-utils"
)


def make_view(*, simulated: bool = True, uid: int | None = None) -> AllocationView:
    device = Device("GPU-1", 0, "nvidia", "NVIDIA H200", "H200", 141 << 30, simulated=simulated)
    seat = JobSeat(uid=os.geteuid(), gid=os.getegid()) if uid is None else JobSeat("/r", uid, uid)
    granted = GrantedDevice(device, 1000, device.memory_bytes)
    return AllocationView(
        "p", "a-1", 1, JOB, "default", "fixed", (granted,), (device,), seat, host=HostKind.VM
    )


def make_prepared(**more: Any) -> PreparedAllocation:
    return PreparedAllocation({}, (), (), Path("/share"), FenceLevel.NONE, **more)


def make_spec(uid: int | None = None) -> JobSpec:
    return JobSpec(
        JOB,
        ("gpupool:vm",),
        "/",
        {"LD_PRELOAD": "x"},
        uid,
        uid,
        limits={"core": ResourceLimit(0, 0)},
    )


@pytest.fixture
def vms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> VmHost:
    monkeypatch.setattr(host, "choose_accelerator", lambda *_: AcceleratorChoice("tcg", "a test"))
    return VmHost(tmp_path / "vms", tmp_path, lambda _step: None)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    made = tmp_path / "image.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", made, "1M"], check=True)
    return made


def files_of(tmp_path: Path) -> VmFiles:
    return VmFiles(tmp_path / "vms", JOB)


@needs_qemu
def test_a_start_makes_the_files_and_replaces_only_the_command(
    vms: VmHost, image: Path, tmp_path: Path
) -> None:
    vm = replace(SMALL, image=str(image))
    spec, note = vms.make_spec("dev", vm, make_view(), make_prepared(), make_spec())
    files = files_of(tmp_path)
    record = files.read_record()
    assert record is not None
    assert (record.name, record.devices, record.simulated) == ("dev", (), True)
    assert files.is_kept()
    assert spec.arguments[4] == "qemu-system-x86_64"
    assert spec.directory == str(files.run)
    assert "LD_PRELOAD" not in spec.environment
    assert spec.limits == {"core": ResourceLimit(0, 0)}
    assert note == (
        "the VM is emulated, which is slow: a test; "
        "its cards are simulated: they are held, but a guest cannot see them"
    )


@needs_qemu
def test_a_repeated_start_keeps_the_disk(vms: VmHost, image: Path, tmp_path: Path) -> None:
    vm = replace(SMALL, image=str(image))
    first = vms.make_spec("dev", vm, make_view(), make_prepared(), make_spec())
    number = files_of(tmp_path).disk.stat().st_ino
    image.unlink()  # the disk is not made anew, so the image is not looked at
    assert vms.make_spec("dev", vm, make_view(), make_prepared(), make_spec()) == first
    assert files_of(tmp_path).disk.stat().st_ino == number


@needs_qemu
@pytest.mark.root
def test_a_tenants_vm_belongs_to_its_account(image: Path, tmp_path: Path, vms: VmHost) -> None:
    image.chmod(0o644)
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(folder.stat().st_mode | 0o755)
    vm = replace(SMALL, image=str(image))
    spec, _ = vms.make_spec("dev", vm, make_view(uid=TENANT), make_prepared(), make_spec(TENANT))
    files = files_of(tmp_path)
    assert (spec.uid, spec.umask) == (TENANT, 0o077)
    for path in (files.run, files.disk, files.record):
        assert path.stat().st_uid == TENANT
    assert files.directory.stat().st_uid == 0


@needs_qemu
@pytest.mark.root
def test_an_image_that_only_root_reads_starts_no_tenants_vm(
    image: Path, tmp_path: Path, vms: VmHost
) -> None:
    image.chmod(0o600)
    vm = replace(SMALL, image=str(image))
    with pytest.raises(BadImage):
        vms.make_spec("dev", vm, make_view(uid=TENANT), make_prepared(), make_spec(TENANT))
    vms.remove_unused(JOB)
    assert not files_of(tmp_path).directory.exists()


@needs_qemu
def test_memory_of_a_vm_with_a_card_may_be_pinned(vms: VmHost) -> None:
    function = PciFunction("0000:01:00.0", 7, "vfio-pci", (256 * GIB,))
    prepared = make_prepared(pci=(function,))
    vm = replace(SMALL, kernel="/vmlinuz")
    spec, note = vms.make_spec("dev", vm, make_view(simulated=False), prepared, make_spec())
    pinned = 64 * MIB + GIB
    assert spec.limits["memlock"] == ResourceLimit(pinned, pinned)
    assert "vfio-pci,host=0000:01:00.0,bus=port0,rombar=0" in spec.arguments
    assert "simulated" not in note


@needs_qemu
@pytest.mark.root
def test_with_hardware_virtualization_the_account_gets_the_nodes_group(
    vms: VmHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    node = tmp_path / "kvm"
    node.touch()
    os.chown(node, 0, 4242)
    monkeypatch.setattr(host, "KVM_NODE", node)
    monkeypatch.setattr(host, "choose_accelerator", lambda *_: AcceleratorChoice("kvm"))
    vm = replace(SMALL, kernel="/vmlinuz")
    spec, _ = vms.make_spec("dev", vm, make_view(uid=TENANT), make_prepared(), make_spec(TENANT))
    assert spec.groups == (4242,)


def test_a_node_without_qemu_names_its_package(
    vms: VmHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_args, **_more: None)
    with pytest.raises(VmRejection) as caught:
        vms.make_spec("dev", SMALL, make_view(), make_prepared(), make_spec())
    assert "apt-get install qemu-system-x86" in caught.value.hint
    assert not (tmp_path / "vms").exists()


@needs_qemu
@pytest.mark.parametrize(
    ("step", "is_kept"),
    [("vm-directory-made", False), ("vm-disk-made", False), ("vm-recorded", True)],
)
def test_what_a_failed_start_left_is_removed_and_a_started_disk_is_not(
    image: Path, tmp_path: Path, vms: VmHost, step: str, is_kept: bool
) -> None:
    vms = VmHost(tmp_path / "vms", tmp_path, make_failure(step))
    vm = replace(SMALL, image=str(image))
    with pytest.raises(InterruptedError):
        vms.make_spec("dev", vm, make_view(), make_prepared(), make_spec())
    vms.remove_all_unused([JOB])
    assert files_of(tmp_path).directory.exists()  # its job lives
    vms.remove_all_unused([])
    assert files_of(tmp_path).directory.exists() is is_kept


def make_failure(step: str) -> Callable[[str], None]:
    def fail(reached: str) -> None:
        if reached == step:
            raise InterruptedError(step)

    return fail


@needs_qemu
def test_a_vm_goes_on_with_the_disk_and_the_seed_of_an_ended_one(
    vms: VmHost, image: Path, tmp_path: Path
) -> None:
    first = replace(SMALL, image=str(image))
    vms.make_spec("dev", first, make_view(), make_prepared(), make_spec())
    old = files_of(tmp_path)
    old.seed.write_bytes(b"seed")
    number = old.disk.stat().st_ino
    again = replace(first, continues=JOB, identity="j-0", has_old_seed=True)
    view = replace(make_view(), job="j-2")
    for _ in range(2):
        vms.make_spec("dev", again, view, make_prepared(), make_spec())
    new = VmFiles(tmp_path / "vms", "j-2")
    record = new.read_record()
    assert record is not None
    assert (new.disk.stat().st_ino, new.seed.read_bytes()) == (number, b"seed")
    assert record.identity == "j-0"
    assert not old.directory.exists()
    assert new.is_kept()


@needs_qemu
@pytest.mark.root
def test_the_disk_of_another_account_is_not_taken(vms: VmHost, image: Path, tmp_path: Path) -> None:
    vm = replace(SMALL, image=str(image))
    vms.make_spec("dev", vm, make_view(), make_prepared(), make_spec())
    again = replace(vm, continues=JOB)
    view = replace(make_view(uid=TENANT), job="j-2")
    with pytest.raises(VmRejection, match="no disk of a VM j-1 of account 65534"):
        vms.make_spec("dev", again, view, make_prepared(), make_spec(TENANT))
    assert files_of(tmp_path).is_kept()


def test_the_power_button_of_a_job_that_is_no_vm_is_not_there(vms: VmHost) -> None:
    assert vms.power_down(JOB) is False


def test_the_power_button_is_not_pressed_through_a_link_to_another_vm(
    vms: VmHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = files_of(tmp_path)
    files.make_directories(os.geteuid(), os.getegid())
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as other:
        other.bind("other")
        other.listen()
        other.setblocking(False)
        files.monitor.symlink_to(tmp_path / "other")
        os.chown(files.run, TENANT, TENANT) if os.geteuid() == 0 else pytest.skip("needs uid 0")
        assert vms.power_down(JOB) is False
        client, _ = other.accept()
        with client:
            assert client.recv(1) == b""  # nothing was sent
