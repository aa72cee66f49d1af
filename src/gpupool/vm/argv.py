"""Turn a VM's specification into the command of QEMU. Pure.

Paths of the VM's own files are relative: the job's working directory is the VM's directory `run`. A
socket's path may have 107 bytes, and a state directory may be longer.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from gpupool.mechanisms.contract import PciFunction
from gpupool.model.vm import MIB, USUAL_HOLE_BYTES, VmSpec, find_hole_bytes
from gpupool.vm.files import CONSOLE, CONTROL, DISK, MONITOR, SEED, VARIABLES

QEMU: Final = "qemu-system-x86_64"
#: QEMU refuses 0 to 2 for `-add-fd`, so the log gets a number of its own before QEMU begins.
_LOG_DESCRIPTOR: Final = 3
_OPEN_LOG: Final = f'exec {_LOG_DESCRIPTOR}>&1; exec "$@"'
#: MiB of translated code. QEMU's own default grows with the guest's memory to 1 GiB, which the
#: memory limit of the job (`model.vm.OVERHEAD_BYTES`) does not hold.
_TRANSLATION_MIB: Final = 128
#: No tenant learns of another's memory by the time that a write to a merged page takes, and a crash of
#: QEMU writes no secrets of the guest into a file.
_SEPARATION: Final = "mem-merge=off,dump-guest-core=off"
#: The network of a VM in a tenant's network over which its host alone logs in.
DOOR: Final = "door0"
#: Link-local: no subnet of a network has it, nor a host that a guest asks for (RFC 3927).
_DOOR_PREFIX: Final = "net=169.254.255.0/24,host=169.254.255.2,dhcpstart=169.254.255.15"
_NAMESPACE: Final = uuid.UUID("1f0b3c1a-5b0e-5d59-9f5e-7a3c2f6f9a10")


@dataclass(frozen=True)
class NetworkInterface:
    """The interface of a VM in a network of its tenant.

    Attributes:
        tap: Descriptor at which QEMU finds the tap open.
        mac: The address of its port: the switch drops packets from another one.
        mtu: The largest packet inside the network, in bytes.
    """

    tap: int
    mac: str
    mtu: int


@dataclass(frozen=True)
class VmHardware:
    """What a VM gets beside what its user asks for.

    Attributes:
        accelerator: `kvm` or `tcg`.
        functions: PCI functions of the cards.
        mediated_devices: Uuids of mediated devices.
        firmware_code: Path of the UEFI firmware's code; empty for QEMU's own BIOS.
        interface: Its interface in a network; None: it is in none.
    """

    accelerator: str
    functions: tuple[PciFunction, ...] = ()
    mediated_devices: tuple[str, ...] = ()
    firmware_code: str = ""
    interface: NetworkInterface | None = None


def build_command(job: str, name: str, spec: VmSpec, hardware: VmHardware) -> tuple[str, ...]:
    """Build the command that the job supervisor runs: a shell that becomes QEMU.

    The serial console goes to a socket and, by QEMU itself, to standard output, which is the log.
    """
    return ("/bin/sh", "-c", _OPEN_LOG, "sh", *build_arguments(job, name, spec, hardware))


def build_arguments(job: str, name: str, spec: VmSpec, hardware: VmHardware) -> tuple[str, ...]:
    """Build the command of QEMU, with its program first."""
    arguments = [QEMU, "-name", f"guest={_quote(name)},process={_quote(name[:15])}"]
    identity = spec.identity or job
    arguments += ["-uuid", str(make_uuid(identity)), "-no-user-config", "-nodefaults"]
    arguments += ["-display", "none", "-rtc", "base=utc"]
    arguments += _list_machine(spec, hardware)
    arguments += _list_firmware(hardware)
    arguments += _list_sandbox()
    arguments += _list_sockets()
    arguments += _list_disks(spec)
    arguments += _list_networks(identity, hardware.interface)
    arguments += _list_boot(spec)
    arguments += _list_cards(hardware)
    return tuple(arguments)


def make_uuid(job: str) -> uuid.UUID:
    """Make the VM's UUID from its job: the same each time the VM starts."""
    return uuid.uuid5(_NAMESPACE, job)


def make_mac(job: str) -> str:
    """Make the address of the VM's network interface from its job, in QEMU's range 52:54:00."""
    tail = sha256(job.encode()).digest()[:3]
    return ":".join(("52", "54", "00", *(f"{byte:02x}" for byte in tail)))


def _list_machine(spec: VmSpec, hardware: VmHardware) -> Iterable[str]:
    is_fast = hardware.accelerator == "kvm"
    accelerator = "kvm" if is_fast else f"tcg,tb-size={_TRANSLATION_MIB}"
    # A large BAR needs as many address bits in the guest as the host has.
    processor = "host,host-phys-bits=on" if is_fast else "max"
    bars = [size for function in hardware.functions for size in function.bar_bytes]
    hole = find_hole_bytes(bars)
    flash = ",pflash0=firmware0,pflash1=firmware1" if hardware.firmware_code else ""
    machine = ["-machine", f"q35,{_SEPARATION}{flash}", "-accel", accelerator, "-cpu", processor]
    machine += ["-smp", str(spec.cpus), "-m", f"{spec.ram_bytes // MIB}M"]
    if hole > USUAL_HOLE_BYTES:
        machine += ["-global", f"q35-pcihost.pci-hole64-size={hole}"]
        # OVMF does not read the property but this file.
        size = f"name=opt/ovmf/X-PciMmio64Mb,string={hole // MIB}"
        machine += ["-fw_cfg", size]
    return machine


def _list_firmware(hardware: VmHardware) -> Sequence[str]:
    if not hardware.firmware_code:
        return ()
    code = f"driver=file,filename={_quote(hardware.firmware_code)},read-only=on"
    return (
        *("-blockdev", f"node-name=firmware0,{code}"),
        *("-blockdev", f"node-name=firmware1,driver=file,filename={VARIABLES}"),
    )


def _list_sandbox() -> Sequence[str]:
    denied = ("obsolete", "elevateprivileges", "spawn", "resourcecontrol")
    return ("-sandbox", ",".join(("on", *(f"{name}=deny" for name in denied))))


def _list_sockets() -> Sequence[str]:
    log = f"logfile=/dev/fdset/{_LOG_DESCRIPTOR},logappend=on"
    return (
        *("-add-fd", f"fd={_LOG_DESCRIPTOR},set={_LOG_DESCRIPTOR},opaque=log"),
        *("-qmp", f"unix:{MONITOR},server=on,wait=off"),
        *("-qmp", f"unix:{CONTROL},server=on,wait=off"),
        *("-chardev", f"socket,id=serial0,path={CONSOLE},server=on,wait=off,{log}"),
        *("-serial", "chardev:serial0"),
    )


def _list_disks(spec: VmSpec) -> Iterable[str]:
    disks: list[str] = []
    if spec.image is not None:
        file = f"file.driver=file,file.filename={DISK}"
        disks += ["-blockdev", f"driver=qcow2,node-name=disk0,discard=unmap,{file}"]
        disks += ["-device", "virtio-blk-pci,drive=disk0,id=virtio-disk0,bootindex=1"]
    if spec.needs_seed:
        file = f"file.driver=file,file.filename=../{SEED}"
        disks += ["-blockdev", f"driver=raw,node-name=seed0,read-only=on,{file}"]
        disks += ["-device", "virtio-blk-pci,drive=seed0,id=virtio-seed0"]
    return disks


def _list_networks(job: str, interface: NetworkInterface | None) -> Iterable[str]:
    arguments: list[str] = []
    if interface is None:
        # Port 0: the kernel chooses a free port, so that two VMs never want the same one.
        arguments += ["-netdev", "user,id=net0,hostfwd=tcp:127.0.0.1:0-:22"]
    else:
        arguments += ["-netdev", f"tap,id=lan0,fd={interface.tap}"]
        place = f"mac={interface.mac},host_mtu={interface.mtu}"
        arguments += ["-device", f"virtio-net-pci,netdev=lan0,{place},romfile="]
        # The guest reaches nothing over it; `vm ssh` opens a port for the moment of a log-in.
        # Its router would advertise a second default route of IPv6, which leads nowhere.
        arguments += ["-netdev", f"user,id={DOOR},restrict=on,ipv6=off,{_DOOR_PREFIX}"]
    netdev = "net0" if interface is None else DOOR
    # No boot ROM: it is of no use here, and loading it costs time.
    arguments += ["-device", f"virtio-net-pci,netdev={netdev},mac={make_mac(job)},romfile="]
    return (*arguments, "-device", "virtio-rng-pci")


def _list_boot(spec: VmSpec) -> Iterable[str]:
    if spec.kernel is None:
        return ()
    boot = ["-kernel", spec.kernel]
    if spec.initrd is not None:
        boot += ["-initrd", spec.initrd]
    if spec.append:
        boot += ["-append", spec.append]
    return boot


def _list_cards(hardware: VmHardware) -> Iterable[str]:
    """One root port for each card; the functions of one card (audio, USB) share its port."""
    cards: dict[str, list[PciFunction]] = {}
    for function in hardware.functions:
        cards.setdefault(function.address.rpartition(".")[0], []).append(function)
    arguments: list[str] = []
    port = 0
    for functions in cards.values():
        arguments += _list_port(port)
        for function in functions:
            arguments += ["-device", _format_function(port, function, len(functions) > 1)]
        port += 1
    for device in hardware.mediated_devices:
        arguments += _list_port(port)
        path = f"sysfsdev=/sys/bus/mdev/devices/{device}"
        arguments += ["-device", f"vfio-pci,{path},bus=port{port}"]
        port += 1
    return arguments


def _list_port(number: int) -> Sequence[str]:
    return ("-device", f"pcie-root-port,id=port{number},bus=pcie.0,chassis={number + 1}")


def _format_function(port: int, function: PciFunction, has_siblings: bool) -> str:
    slot = function.address.rpartition(".")[2]
    place = f",addr=0x0.{slot}" if has_siblings else ""
    if has_siblings and slot == "0":
        place += ",multifunction=on"
    return f"vfio-pci,host={function.address},bus=port{port}{place},rombar=0"


def _quote(text: str) -> str:
    """Double the commas: a comma ends an option of QEMU."""
    return text.replace(",", ",,")
