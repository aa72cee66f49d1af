"""Describe a VM as a domain of libvirt. Pure.

Devices have `managed='no'`: the pool takes a card from its driver, and libvirt must not give it
back. The format is libvirt's (libvirt.org/formatdomain.html).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from gpupool.model.vm import USUAL_HOLE_BYTES, find_hole_bytes
from gpupool.vm.argv import make_uuid
from gpupool.vm.files import VmFiles, VmRecord

_KIB = 1024


def format_domain(record: VmRecord, files: VmFiles) -> str:
    """Return the domain as XML, with a line break at the end."""
    kind = "kvm" if record.accelerator == "kvm" else "qemu"
    domain = ElementTree.Element("domain", {"type": kind})
    _add(domain, "name", text=record.name)
    _add(domain, "uuid", text=str(make_uuid(record.identity)))
    _add(domain, "memory", {"unit": "KiB", "dumpCore": "off"}, text=str(record.ram_bytes // _KIB))
    _add(_add(domain, "memoryBacking"), "nosharepages")
    _add(domain, "vcpu", {"placement": "static"}, text=str(record.cpus))
    _add_boot(domain, record, files)
    features = _add(domain, "features")
    _add(features, "acpi")
    _add(features, "apic")
    # `maximum` is what QEMU calls `max` (libvirt 7.1).
    _add(domain, "cpu", {"mode": "host-passthrough" if kind == "kvm" else "maximum"})
    _add_devices(domain, record, files)
    ElementTree.indent(domain)
    return ElementTree.tostring(domain, encoding="unicode") + "\n"


def _add_boot(domain: ElementTree.Element, record: VmRecord, files: VmFiles) -> None:
    system = _add(domain, "os")
    _add(system, "type", {"arch": "x86_64", "machine": "q35"}, text="hvm")
    if record.firmware_code:
        flash = {"readonly": "yes", "type": "pflash"}
        _add(system, "loader", flash, text=record.firmware_code)
        _add(system, "nvram", text=str(files.variables.absolute()))
    if record.kernel is None:
        _add(system, "boot", {"dev": "hd"})
        return
    _add(system, "kernel", text=record.kernel)
    if record.initrd is not None:
        _add(system, "initrd", text=record.initrd)
    if record.append:
        _add(system, "cmdline", text=record.append)


def _add_devices(domain: ElementTree.Element, record: VmRecord, files: VmFiles) -> None:
    devices = _add(domain, "devices")
    if record.image is not None:
        _add_disk(devices, files.disk, "qcow2", "vda", read_only=False)
    if record.seeded:
        _add_disk(devices, files.seed, "raw", "vdb", read_only=True)
    root = _add(devices, "controller", {"type": "pci", "index": "0", "model": "pcie-root"})
    hole = find_hole_bytes(record.bar_bytes)
    if hole > USUAL_HOLE_BYTES:
        _add(root, "pcihole64", {"unit": "KiB"}, text=str(hole // _KIB))
    if record.tap:
        _add_tap(devices, record)
    network = _add(devices, "interface", {"type": "user"})
    _add(network, "mac", {"address": record.mac})
    _add(network, "model", {"type": "virtio"})
    serial = _add(devices, "serial", {"type": "pty"})
    _add(serial, "target", {"port": "0"})
    _add(devices, "controller", {"type": "usb", "model": "none"})
    _add(devices, "memballoon", {"model": "none"})
    random = _add(devices, "rng", {"model": "virtio"})
    _add(random, "backend", {"model": "random"}, text="/dev/urandom")
    for device in record.devices:
        _add_host_device(devices, device)


def _add_tap(devices: ElementTree.Element, record: VmRecord) -> None:
    """Add the interface in the tenant's network: the pool makes its tap and plugs it in."""
    interface = _add(devices, "interface", {"type": "ethernet"})
    _add(interface, "target", {"dev": record.tap, "managed": "no"})
    _add(interface, "mac", {"address": record.network_mac})
    _add(interface, "model", {"type": "virtio"})
    _add(interface, "mtu", {"size": str(record.mtu)})


def _add_disk(
    devices: ElementTree.Element, path: Path, form: str, target: str, *, read_only: bool
) -> None:
    disk = _add(devices, "disk", {"type": "file", "device": "disk"})
    _add(disk, "driver", {"name": "qemu", "type": form})
    _add(disk, "source", {"file": str(path.absolute())})
    _add(disk, "target", {"dev": target, "bus": "virtio"})
    if read_only:
        _add(disk, "readonly")


def _add_host_device(devices: ElementTree.Element, device: str) -> None:
    """Add a PCI function (`0000:01:00.0`) or a mediated device (a uuid)."""
    common = {"mode": "subsystem", "managed": "no"}
    if ":" not in device:
        found = _add(devices, "hostdev", {**common, "type": "mdev", "model": "vfio-pci"})
        _add(_add(found, "source"), "address", {"uuid": device})
        return
    domain, bus, rest = device.split(":")
    slot, _, function = rest.partition(".")
    address = {"domain": domain, "bus": bus, "slot": slot, "function": function}
    found = _add(devices, "hostdev", {**common, "type": "pci"})
    _add(found, "driver", {"name": "vfio"})
    source = _add(found, "source")
    _add(source, "address", {name: f"0x{value}" for name, value in address.items()})
    _add(found, "rom", {"bar": "off"})


def _add(
    parent: ElementTree.Element,
    tag: str,
    attributes: Mapping[str, str] | None = None,
    *,
    text: str | None = None,
) -> ElementTree.Element:
    made = ElementTree.SubElement(parent, tag, dict(attributes or {}))
    made.text = text
    return made
