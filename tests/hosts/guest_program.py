"""Runs inside the guest: gpupool's own code on the real files of a real kernel.

Prints one line of JSON for each check, `{"check": NAME, ...facts}`; the test compares them. Any exception
ends it with a traceback, which the test shows.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import random
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

from gpupool.base.errors import RequestRejection, StillInUse
from gpupool.mechanisms.contract import (
    AllocationView,
    GrantedDevice,
    HostKind,
    NotYet,
    PreparedAllocation,
)
from gpupool.mechanisms.passthrough import PassthroughMechanism, PassthroughSwitch
from gpupool.mechanisms.pci.operations import main as run_plan_file
from gpupool.mechanisms.pci.steps import PlanRunner
from gpupool.mechanisms.pci.sysfs import PciTree
from gpupool.mechanisms.pci.tools import OperationTools
from gpupool.mechanisms.pci.writer import SysfsWriter
from gpupool.mechanisms.slow_step import StepResult
from gpupool.mechanisms.sriov import SriovMechanism, SriovSwitch
from gpupool.model.device import CardMode, Device

PCI = Path("/sys/bus/pci/devices")
STATE = Path("/tmp/state")
CRASHED = 77
#: linux/vfio.h
VFIO_GET_API_VERSION = 0x3B64
VFIO_SET_IOMMU = 0x3B66
VFIO_GROUP_GET_STATUS = 0x3B67
VFIO_GROUP_SET_CONTAINER = 0x3B68
VFIO_GROUP_GET_DEVICE_FD = 0x3B6A
VFIO_DEVICE_GET_REGION_INFO = 0x3B6C
VFIO_TYPE1_IOMMU = 1


class KillingWriter(SysfsWriter):
    """Ends the process before or after a write: point 2n is before write n, 2n + 1 after it."""

    def __init__(self, point: int) -> None:
        super().__init__()
        self.point = point
        self.points = 0

    def write(self, path: Path, text: str) -> None:
        self.pass_point()
        super().write(path, text)
        self.pass_point()

    def pass_point(self) -> None:
        if self.points == self.point:
            os._exit(CRASHED)
        self.points += 1


class InlineRunner(PlanRunner):
    """Runs plans at once and in this process: a new interpreter takes seconds here."""

    def __init__(self, point: int = -1) -> None:
        self.point = point

    def _start(self, folder, name, module, reason, needs_release):  # type: ignore[no-untyped-def]
        lines = []
        tools = OperationTools(PciTree(), KillingWriter(self.point))
        return StepResult(run_plan_file(module[1:], tools, lines.append), "\n".join(lines))


def say(check: str, **facts: object) -> None:
    print(json.dumps({"check": check, "seconds": round(time.monotonic(), 1), **facts}), flush=True)


def find_function(vendor_device: str) -> str:
    for entry in sorted(PCI.iterdir()):
        ids = [(entry / name).read_text().strip()[2:] for name in ("vendor", "device")]
        if ":".join(ids) == vendor_device:
            return entry.name
    raise LookupError(vendor_device)


def make_device(address: str, uuid: str, **labels: str) -> Device:
    return Device(uuid, 0, "test", "test", "TEST", 1 << 30, address, labels=labels)


def make_view(device: Device, allocation: str = "al-1", generation: int = 5, **grant: int):  # type: ignore[no-untyped-def]
    sizes = {"gpu_milli": 1000, "memory_bytes": 1 << 30, **grant}
    granted = (GrantedDevice(device, **sizes),)
    return AllocationView(
        "pool",
        allocation,
        generation,
        "job",
        "team",
        "fixed",
        granted,
        (device,),
        host=HostKind.VM,
    )


def read_state(*addresses: str) -> dict[str, object]:
    """What the kernel itself says, without any code of gpupool."""
    found: dict[str, object] = {"nodes": sorted(os.listdir("/dev/vfio"))}
    for address in addresses:
        entry = PCI / address
        link = entry / "driver"
        driver = os.readlink(link).rsplit("/", 1)[1] if link.is_symlink() else None
        override = (entry / "driver_override").read_text()
        found[address] = [driver, override]
    return found


def wait_for(call):  # type: ignore[no-untyped-def]
    """Ask until a slow step has ended."""
    while True:
        try:
            answer = call()
        except StillInUse as pending:
            if "being" not in pending.message:
                raise
            answer = NotYet("", 0.1)
        if not isinstance(answer, NotYet):
            return answer
        time.sleep(0.1)


def open_device(group: int, address: str) -> tuple[int, int, int]:
    """Take a function as a virtual machine does, with the kernel's VFIO interface."""
    container = os.open("/dev/vfio/vfio", os.O_RDWR)
    assert fcntl.ioctl(container, VFIO_GET_API_VERSION) == 0
    node = os.open(f"/dev/vfio/{group}", os.O_RDWR)
    status = bytearray(struct.pack("II", 8, 0))
    fcntl.ioctl(node, VFIO_GROUP_GET_STATUS, status)
    assert struct.unpack("II", status)[1] & 1, "the group is not viable"
    fcntl.ioctl(node, VFIO_GROUP_SET_CONTAINER, struct.pack("i", container))
    fcntl.ioctl(container, VFIO_SET_IOMMU, VFIO_TYPE1_IOMMU)
    device = fcntl.ioctl(node, VFIO_GROUP_GET_DEVICE_FD, bytearray(address.encode() + b"\0"))
    return container, node, device


def read_region(device: int, index: int, offset: int) -> int:
    info = bytearray(struct.pack("IIIIQQ", 32, 0, index, 0, 0, 0))
    fcntl.ioctl(device, VFIO_DEVICE_GET_REGION_INFO, info)
    base = struct.unpack("IIIIQQ", info)[5]
    return int.from_bytes(os.pread(device, 4, base + offset), "little")


def check_handover(edu: str) -> None:
    """Prepare with the real slow step, drive the device through VFIO, release."""
    before = read_state(edu)
    device = make_device(edu, "edu", switchable="passthrough")
    mechanism = PassthroughMechanism()
    prepared = wait_for(lambda: mechanism.prepare(make_view(device), STATE))
    assert isinstance(prepared, PreparedAllocation)
    (function,) = prepared.pci
    say(
        "prepared",
        state=read_state(edu),
        group=function.iommu_group,
        driver=function.driver,
        bars=function.bar_bytes,
        nodes=prepared.allow_nodes,
        notes=prepared.notes,
        problem=mechanism.observe(STATE)["al-1"].problem,
    )
    container, node, opened = open_device(function.iommu_group or 0, edu)
    # Memory and bus mastering on, as a guest's firmware does; then edu's identification.
    info = bytearray(struct.pack("IIIIQQ", 32, 0, 7, 0, 0, 0))
    fcntl.ioctl(opened, VFIO_DEVICE_GET_REGION_INFO, info)
    os.pwrite(opened, b"\x06\x00", struct.unpack("IIIIQQ", info)[5] + 4)
    say("opened", id=hex(read_region(opened, 7, 0)), bar=hex(read_region(opened, 0, 0)))
    try:
        mechanism.unprepare("al-1", 5, STATE)
    except StillInUse as busy:
        say("in-use", message=busy.message, pid=os.getpid(), state=read_state(edu))
    for descriptor in (opened, node, container):
        os.close(descriptor)
    wait_for(lambda: mechanism.unprepare("al-1", 5, STATE))
    say("released", before=before, after=read_state(edu), left=os.listdir(STATE / "prepared"))


def check_refusals(edu: str, nvme: str) -> None:
    """A disk that the host uses stays with the host, and so does a card with an open node."""
    device = make_device(nvme, "nvme", switchable="passthrough")
    disk = PassthroughMechanism().explain_refusal(make_view(device))
    facts = {**make_device(edu, "edu", switchable="passthrough").__dict__}
    card = Device(**{**facts, "device_paths": ("/dev/zero",)})
    free = PassthroughMechanism().explain_refusal(make_view(card))
    with open("/dev/zero", "rb") as node:
        holder = subprocess.Popen(["/bin/busybox", "sleep", "600"], stdin=node)
    busy = PassthroughMechanism().explain_refusal(make_view(card))
    holder.kill()
    holder.wait()
    say("refused", disk=disk, free=free, busy=busy, pid=holder.pid)


def check_functions(nvme: str) -> str:
    """Create virtual functions, and see that their number cannot be changed in passing."""
    device = make_device(nvme, "nvme", **{"virtual-functions": "2"})
    switch = SriovSwitch()
    offer = switch.describe_offer(device)
    wait_for(lambda: switch.enter(device, STATE))
    virtual = sorted(os.readlink(link).rsplit("/", 1)[1] for link in (PCI / nvme).glob("virtfn*"))
    raw = 0
    try:
        (PCI / nvme / "sriov_numvfs").write_text("3")
    except OSError as refusal:
        raw = refusal.errno or 0
    more = make_device(nvme, "other", **{"virtual-functions": "3"})
    try:
        switch.enter(more, STATE)
        refusal_text = ""
    except RequestRejection as refusal_error:
        refusal_text = refusal_error.message
    say(
        "functions",
        offer=str(offer),
        virtual=virtual,
        drivers=[read_state(one)[one] for one in virtual],
        raw=errno.errorcode.get(raw),
        refusal=refusal_text,
    )
    return virtual[0]


def check_virtual_function(nvme: str) -> None:
    """Two allocations take two functions; a late release of the first leaves its next owner alone."""
    device = make_device(nvme, "nvme")
    device = Device(**{**device.__dict__, "mode": CardMode.SRIOV})
    mechanism = SriovMechanism(runner=InlineRunner())
    size = {"gpu_milli": 500, "memory_bytes": 512 << 20}
    first = mechanism.prepare(make_view(device, "al-1", 5, **size), STATE)
    second = mechanism.prepare(make_view(device, "al-2", 1, **size), STATE)
    full = mechanism.explain_refusal(make_view(device, "al-3", 1, **size))
    try:
        mechanism.prepare(make_view(device, "al-3", 1, **size), STATE)
        third = ""
    except RequestRejection as refusal:
        third = refusal.message
    mechanism.unprepare("al-1", 5, STATE)
    heir = mechanism.prepare(make_view(device, "al-4", 1, **size), STATE)
    mechanism.unprepare("al-1", 5, STATE)
    address = heir.pci[0].address
    say(
        "virtual",
        first=first.pci[0].address,
        second=second.pci[0].address,
        heir=address,
        full=full,
        third=third,
        state=read_state(address)[address],
        levels=str(heir.levels),
    )
    opened = open_device(heir.pci[0].iommu_group or 0, address)
    say("virtual-opened", id=hex(read_region(opened[2], 7, 0)))
    for descriptor in reversed(opened):
        os.close(descriptor)
    mechanism.unprepare("al-2", 1, STATE)
    mechanism.unprepare("al-4", 1, STATE)


def check_kills(edu: str, virtual: str, nvme: str) -> None:
    """End the process before and after each write; releasing then gives the state before."""
    cards = [
        (PassthroughMechanism, make_device(edu, "edu", switchable="passthrough"), edu, {}),
        (
            SriovMechanism,
            Device(**{**make_device(nvme, "nvme").__dict__, "mode": CardMode.SRIOV}),
            virtual,
            {"gpu_milli": 500, "memory_bytes": 512 << 20},
        ),
    ]
    for make, device, address, size in cards:
        before = read_state(address)
        kills = {"prepare": 0, "unprepare": 0}
        leaks = []
        for verb in kills:
            for point in range(100):
                view = make_view(device, **size)
                if verb == "unprepare":
                    make(runner=InlineRunner()).prepare(view, STATE)
                if not crash(make(runner=InlineRunner(point)), verb, view):
                    break
                kills[verb] += 1
                make(runner=InlineRunner()).unprepare("al-1", 5, STATE)
                if read_state(address) != before or os.listdir(STATE / "prepared"):
                    leaks.append([verb, point, read_state(address)])
            make(runner=InlineRunner()).unprepare("al-1", 5, STATE)
        say(
            "kills",
            mechanism=make.name,
            kills=kills,
            leaks=leaks,
            same=read_state(address) == before,
        )


def crash(mechanism, verb: str, view: AllocationView) -> bool:  # type: ignore[no-untyped-def]
    child = os.fork()
    if child == 0:
        if verb == "prepare":
            mechanism.prepare(view, STATE)
        else:
            mechanism.unprepare("al-1", 5, STATE)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, CRASHED), code
    return code == CRASHED


def check_random_kills(edu: str, rounds: int) -> None:
    """Kill with SIGKILL at a random moment of a loop of prepare and release."""
    before = read_state(edu)
    device = make_device(edu, "edu", switchable="passthrough")
    view = make_view(device)
    leaks = 0
    chance = random.Random(7)
    for _ in range(rounds):
        child = os.fork()
        if child == 0:
            mechanism = PassthroughMechanism(runner=InlineRunner())
            while True:
                mechanism.prepare(view, STATE)
                mechanism.unprepare("al-1", 5, STATE)
        time.sleep(chance.uniform(0.001, 0.06))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        PassthroughMechanism(runner=InlineRunner()).unprepare("al-1", 5, STATE)
        leaks += read_state(edu) != before or os.listdir(STATE / "prepared") != []
    say("random-kills", kills=rounds, leaks=leaks)


def check_switch(edu: str) -> None:
    """The card's mode: enter, hand over without any write, leave."""
    before = read_state(edu)
    device = make_device(edu, "edu")
    switch = PassthroughSwitch(runner=InlineRunner())
    switch.enter(device, STATE)
    inside = read_state(edu)
    entered = Device(**{**device.__dict__, "mode": CardMode.PASSTHROUGH})
    mechanism = PassthroughMechanism(runner=InlineRunner())
    mechanism.prepare(make_view(entered), STATE)
    mechanism.unprepare("al-1", 5, STATE)
    between = read_state(edu)
    switch.leave(entered, STATE)
    say(
        "switched",
        before=before,
        inside=inside,
        between=between,
        after=read_state(edu),
        left=os.listdir(STATE / "modes"),
    )


def run_checks() -> None:
    STATE.mkdir()
    Path("/dev/vfio").mkdir(exist_ok=True)
    edu = find_function("1234:11e8")
    nvme = os.path.realpath("/sys/class/nvme/nvme0/device").rsplit("/", 1)[1]
    say("started", edu=edu, nvme=nvme, state=read_state(edu, nvme))
    check_handover(edu)
    check_refusals(edu, nvme)
    virtual = check_functions(nvme)
    check_virtual_function(nvme)
    check_switch(edu)
    check_kills(edu, virtual, nvme)
    check_random_kills(edu, int(sys.argv[1]) if len(sys.argv) > 1 else 40)
    device = make_device(nvme, "nvme")
    wait_for(lambda: SriovSwitch(runner=InlineRunner()).leave(device, STATE))
    left = sorted(one.name for one in (PCI / nvme).glob("virtfn*"))
    say("finished", virtual=left, state=read_state(edu, nvme))


run_checks()
