"""What this node refuses of a VM before anything is made for it."""

from __future__ import annotations

from gpupool.base.errors import VmRejection
from gpupool.base.units import format_mib
from gpupool.mechanisms.contract import AllocationView, PreparedAllocation
from gpupool.model.vm import OVERHEAD_BYTES, VmSpec


def check_host_size(spec: VmSpec, processors: int, memory_bytes: int) -> None:
    """Raise VmRejection for a VM that is larger than this host.

    Args:
        spec: The VM.
        processors: Processors that this agent may use.
        memory_bytes: Main memory of the host; 0 where it is unknown.
    """
    if spec.cpus > processors:
        raise VmRejection(
            f"the VM has {spec.cpus} processors; this host has {processors}",
            hint=f"--cpus {processors} is the most here",
        )
    if memory_bytes and spec.host_bytes > memory_bytes:
        most = max(0, memory_bytes - OVERHEAD_BYTES)
        raise VmRejection(
            f"the VM has {format_mib(spec.ram_bytes)} of memory and its QEMU needs "
            f"{format_mib(OVERHEAD_BYTES)} more; this host has {format_mib(memory_bytes)}",
            hint=f"--ram {format_mib(most).replace(' ', '')} is the most here",
        )


def check_hand_over(view: AllocationView, prepared: PreparedAllocation) -> None:
    """Raise VmRejection where a real card would be held but no guest could see it."""
    real = [grant.device for grant in view.granted if not grant.device.simulated]
    if real and not prepared.pci and not prepared.mediated_devices:
        raise VmRejection(
            f"card {real[0].uuid} was not taken from its driver, so no VM can have it",
            hint="the node needs an IOMMU that is on, and the driver vfio-pci",
        )
