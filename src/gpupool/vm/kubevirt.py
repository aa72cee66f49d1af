"""Describe a VM as a VirtualMachine of KubeVirt. Pure.

A cluster names cards by a resource that its administrator permits (`permittedHostDevices`), and
images by a claim for a volume. Both are parameters here: a VM of one machine knows neither.
"""

from __future__ import annotations

from typing import Any

from gpupool.model.vm import MIB
from gpupool.vm.files import VmRecord


def build_virtual_machine(record: VmRecord, *, resource: str, volume_claim: str) -> dict[str, Any]:
    """Build the manifest (kubevirt.io/v1).

    Args:
        record: The VM.
        resource: Name of the cards' resource, as `nvidia.com/GH100_H200`.
        volume_claim: Name of the PersistentVolumeClaim that has the disk.
    """
    gpus: list[dict[str, Any]] = []
    for number, _ in enumerate(_list_cards(record)):
        gpus.append({"name": f"gpu{number}", "deviceName": resource})
    devices: dict[str, Any] = {
        "disks": [{"name": "disk0", "disk": {"bus": "virtio"}}] if record.image else [],
        "interfaces": [{"name": "default", "macAddress": record.mac, "masquerade": {}}],
        "rng": {},
    }
    if gpus:
        devices["gpus"] = gpus
    domain: dict[str, Any] = {
        "machine": {"type": "q35"},
        "cpu": {"cores": record.cpus},
        "memory": {"guest": f"{record.ram_bytes // MIB}Mi"},
        "devices": devices,
    }
    if record.firmware_code:
        # Secure Boot needs system management mode, which this VM does not have either.
        domain["firmware"] = {"bootloader": {"efi": {"secureBoot": False}}}
    volumes: list[dict[str, Any]] = []
    if record.image:
        volumes.append({"name": "disk0", "persistentVolumeClaim": {"claimName": volume_claim}})
    spec = {
        "domain": domain,
        "networks": [{"name": "default", "pod": {}}],
        "volumes": volumes,
    }
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": record.name.lower().replace("_", "-").replace(".", "-")},
        "spec": {"runStrategy": "Manual", "template": {"spec": spec}},
    }


def _list_cards(record: VmRecord) -> list[str]:
    """Return one name for each card: the functions of one card are one device of a cluster."""
    return list(dict.fromkeys(device.partition(".")[0] for device in record.devices))
