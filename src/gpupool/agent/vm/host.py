"""The VMs of one agent: the files and the command of a start, the power button, the removal."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpupool.agent.network.namespaces import name_interface
from gpupool.agent.supervisor.host_limits import read_memory_bytes
from gpupool.agent.supervisor.job_spec import TAP_DESCRIPTOR, JobSpec, ResourceLimit
from gpupool.agent.vm.checks import check_hand_over, check_host_size
from gpupool.base.errors import VmRejection, VmUnreachable
from gpupool.mechanisms.contract import AllocationView, PreparedAllocation
from gpupool.model.vm import GIB, VmFirmware, VmSpec
from gpupool.probes.numa import list_usable_cpus
from gpupool.vm.accelerator import KVM_NODE, AcceleratorChoice, choose_accelerator
from gpupool.vm.argv import QEMU, NetworkInterface, VmHardware, build_command, make_mac
from gpupool.vm.disk import Account, find_program, find_start_format, make_overlay
from gpupool.vm.files import VmFiles, VmRecord, list_vms
from gpupool.vm.firmware import find_firmware, make_variables
from gpupool.vm.qmp import power_down
from gpupool.vm.seed import build_seed_files, write_seed
from gpupool.wire.network.networks import PortWork

QEMU_PACKAGE: Final = "qemu-system-x86"
#: QEMU pins all of a guest's memory for VFIO, and some of its own.
_PINNED_EXTRA_BYTES: Final = GIB

log = logging.getLogger(__name__)


class VmHost:
    """The VMs below one directory. Thread-safe: every VM has files of its own."""

    def __init__(self, root: Path, state_dir: Path, reach_step: Callable[[str], None]) -> None:
        """Keep the places; nothing is made.

        Args:
            root: The directory `vms`.
            state_dir: The agent's directory.
            reach_step: Called at each of `jobs.faults.VM_STEPS`.
        """
        self._root = root
        self._state_dir = state_dir
        self._reach_step = reach_step

    def make_spec(
        self,
        name: str,
        vm: VmSpec,
        view: AllocationView,
        prepared: PreparedAllocation,
        spec: JobSpec,
        network: PortWork | None = None,
    ) -> tuple[JobSpec, str]:
        """Make the files of a VM, and the supervisor's description that starts it.

        Idempotent; blocks for some programs, and for the probe of `/dev/kvm` after a boot.

        Args:
            name: The job's name, which the guest gets as its host name.
            vm: The VM.
            view: The allocation.
            prepared: What its mechanism prepared.
            spec: The description of the job; its command and surroundings are replaced.
            network: Its port in a network of its tenant; the caller adds the tap.

        Returns:
            The description, and what a user should know of this VM, empty where there is nothing.

        Raises:
            VmRejection: This node cannot start it.
            BadImage: The image is none, or the VM's account cannot read it.
        """
        check_host_size(vm, len(list_usable_cpus()), read_memory_bytes() or 0)
        check_hand_over(view, prepared)
        qemu = find_program(QEMU, QEMU_PACKAGE)
        firmware = find_firmware() if vm.firmware is VmFirmware.UEFI else None
        account = (
            Account(view.seat.uid, view.seat.gid, spec.groups)
            if spec.uid is not None
            else Account()
        )
        files = VmFiles(self._root, view.job)
        files.make_directories(view.seat.uid, view.seat.gid)
        self._reach_step("vm-directory-made")
        if vm.image is not None and vm.continues is None:
            self._make_disk(files, Path(vm.image), account)
        self._reach_step("vm-disk-made")
        if vm.has_new_seed:
            mac = "" if network is None else network.mac
            has_ipv6 = network is not None and network.address6 is not None
            texts = build_seed_files(view.job, name, vm, mac, has_ipv6=has_ipv6)
            write_seed(files.seed, texts, view.seat.uid, view.seat.gid)
        self._reach_step("vm-seed-written")
        choice = choose_accelerator(self._state_dir, qemu)
        code = "" if firmware is None else str(firmware.code)
        hardware = VmHardware(
            choice.name,
            prepared.pci,
            prepared.mediated_devices,
            code,
            None if network is None else NetworkInterface(TAP_DESCRIPTOR, network.mac, network.mtu),
        )
        record = _make_record(name, vm, view, hardware, choice)
        if network is not None:
            record = replace(
                record,
                network_mac=network.mac,
                tap=name_interface(network.id),
                mtu=network.mtu,
            )
        files.write_record(record, view.seat.uid, view.seat.gid)
        self._reach_step("vm-recorded")
        if vm.continues is not None:
            self._take_over(files, vm.continues, view)
        if firmware is not None:
            make_variables(files.variables, firmware, account)
        self._reach_step("vm-disk-taken")
        command = build_command(view.job, name, vm, hardware)
        return _replace_command(spec, command, files, vm, hardware), _describe(record)

    def power_down(self, job: str) -> bool:
        """Press the power button of a job's guest. Blocks for the deadlines of QMP.

        Returns:
            False where the job is no VM or its QEMU does not answer.
        """
        files = VmFiles(self._root, job)
        try:
            # `run` was made for the VM's account in a directory of the agent's own.
            owner = files.run.lstat().st_uid
        except (FileNotFoundError, NotADirectoryError):
            return False
        try:
            power_down(files.monitor, uid=owner)
        except VmUnreachable as error:
            log.warning("job %s: %s", job, error.message)
            return False
        return True

    def remove_unused(self, job: str) -> None:
        """Remove the files of a VM that has ended, unless its disk is kept. Idempotent."""
        files = VmFiles(self._root, job)
        if files.directory.is_dir() and not files.is_kept():
            files.remove()

    def remove_all_unused(self, live: Collection[str]) -> None:
        """Remove the files of every VM that is not among `live` and has no disk to keep."""
        for files in list_vms(self._root):
            job = files.directory.name
            if job not in live:
                self.remove_unused(job)

    def _take_over(self, files: VmFiles, job: str, view: AllocationView) -> None:
        """Take the disk of an ended VM of the same account."""
        old = VmFiles(self._root, job)
        if files.has_disk():
            self.remove_unused(job)
            return
        owner = old.run.lstat().st_uid if old.run.exists() else None
        if owner != view.seat.uid or not old.has_disk():
            raise VmRejection(
                f"there is no disk of a VM {job} of account {view.seat.uid} on this node",
                hint="gpupool vm list",
            )
        files.take_over(old)
        self.remove_unused(job)

    def _make_disk(self, files: VmFiles, image: Path, account: Account) -> None:
        if files.has_disk():
            # A VM that starts again, or goes on after a crash: the disk has its work.
            return
        make_overlay(files.disk, image, find_start_format(image, account), account)


def _make_record(
    name: str,
    vm: VmSpec,
    view: AllocationView,
    hardware: VmHardware,
    choice: AcceleratorChoice,
) -> VmRecord:
    addresses = [function.address for function in hardware.functions]
    bars: list[int] = []
    for function in hardware.functions:
        bars += function.bar_bytes
    return VmRecord(
        job=view.job,
        name=name,
        cpus=vm.cpus,
        ram_bytes=vm.ram_bytes,
        image=vm.image,
        kernel=vm.kernel,
        initrd=vm.initrd,
        append=vm.append,
        seeded=vm.needs_seed,
        devices=(*addresses, *hardware.mediated_devices),
        bar_bytes=tuple(bars),
        simulated=any(grant.device.simulated for grant in view.granted),
        accelerator=choice.name,
        emulated_why=choice.why,
        mac=make_mac(vm.identity or view.job),
        identity=vm.identity or view.job,
        firmware_code=hardware.firmware_code,
    )


def _describe(record: VmRecord) -> str:
    texts: list[str] = []
    if record.emulated_why:
        texts.append(f"the VM is emulated, which is slow: {record.emulated_why}")
    if record.simulated:
        texts.append("its cards are simulated: they are held, but a guest cannot see them")
    return "; ".join(texts)


def _replace_command(
    spec: JobSpec, command: tuple[str, ...], files: VmFiles, vm: VmSpec, hardware: VmHardware
) -> JobSpec:
    limits = dict(spec.limits)
    if hardware.functions or hardware.mediated_devices:
        pinned = vm.ram_bytes + _PINNED_EXTRA_BYTES
        limits["memlock"] = ResourceLimit(pinned, pinned)
    groups = spec.groups
    if hardware.accelerator == "kvm" and spec.uid is not None:
        # Without root's rights QEMU opens the node by its group.
        groups = tuple(dict.fromkeys((*groups, os.stat(KVM_NODE).st_gid)))
    return replace(
        spec,
        arguments=command,
        directory=str(files.run.absolute()),
        environment={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"},
        unmounted_environment={},
        umask=0o077,
        groups=groups,
        limits=limits,
    )
