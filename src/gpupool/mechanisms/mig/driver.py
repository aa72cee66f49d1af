"""Defines the driver calls that partitions need, and what they answer.

`probes.nvml.instances` implements them on a real driver. Instances are named by number and never by
handle, because a handle is worth nothing in another process. Imports no driver.
"""

from __future__ import annotations

from typing import Protocol

from gpupool.probes.nvml.instance_calls import (
    CallProblem,
    DriverCallError,
    GpuInstance,
    MigMode,
    Virtualization,
)

__all__ = [
    "CallProblem",
    "DriverCallError",
    "GpuInstance",
    "InstanceDriver",
    "MigMode",
    "Virtualization",
]


class InstanceDriver(Protocol):
    """The driver's management calls. Safe for several threads; a card is named by its uuid.

    Every call raises DriverCallError where the driver refuses, and ServiceUnavailable where there
    is no driver.
    """

    def list_cards(self) -> tuple[str, ...]: ...

    def read_minor(self, card: str) -> int:
        """Return N of `/dev/nvidiaN`."""
        ...

    def read_mode(self, card: str) -> MigMode | None:
        """Return the mode; None for a card without MIG."""
        ...

    def set_mode(self, card: str, wanted: bool) -> CallProblem | None:
        """Ask for the mode; return why it is not active although the call succeeded."""
        ...

    def can_switch_without_reset(self, card: str) -> bool:
        """Return whether the card changes the mode while it is idle (Hopper and newer)."""
        ...

    def read_virtualization(self, card: str) -> Virtualization: ...

    def list_instances(self, card: str) -> tuple[GpuInstance, ...]:
        """Return all GPU instances of a card, also those without a compute instance."""
        ...

    def create_instance(self, card: str, profile_id: int, start: int, size: int) -> int:
        """Create a GPU instance in that slot and return its number."""
        ...

    def create_compute(self, card: str, instance: int) -> int:
        """Create the compute instance that fills a GPU instance and return its number."""
        ...

    def read_partition_uuid(self, card: str, instance: int, compute: int) -> str:
        """Return the uuid by which CUDA opens a compute instance: `MIG-…`."""
        ...

    def destroy_compute(self, card: str, instance: int, compute: int) -> None: ...

    def destroy_instance(self, card: str, instance: int) -> None: ...
