"""Stands for the driver of one simulated card when its MIG mode is switched.

It answers as NVIDIA's driver does: Hopper and newer cards change the mode at once, Ampere cards at
their next reset. It has no GPU instances, because the fence holds the partitions of simulated cards.

`python -m gpupool.mechanisms.mig.simulated_driver FOLDER CARD` is the reset of a simulated card.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from gpupool.mechanisms.mig.driver import (
    CallProblem,
    DriverCallError,
    GpuInstance,
    MigMode,
    Virtualization,
)
from gpupool.mechanisms.mig.simulated_modes import SimulatedModeStore
from gpupool.model.device import Device

#: The first compute capability that changes the MIG mode without a reset (Hopper).
RESETLESS_CAPABILITY = (9, 0)


class SimulatedMigDriver:
    """The driver's calls for one simulated card; `InstanceDriver` describes them.

    Args:
        device: the card as the last scan found it.
        store: where its mode is.
    """

    def __init__(self, device: Device, store: SimulatedModeStore) -> None:
        self._device = device
        self._store = store

    def close(self) -> None:
        """Do nothing: no library is open."""

    def list_cards(self) -> tuple[str, ...]:
        return (self._device.uuid,)

    def read_minor(self, card: str) -> int:
        raise _refuse_call("read_minor", f"simulated card {card} has no device node")

    def read_mode(self, card: str) -> MigMode | None:
        described = bool(self._device.partitioned)
        return self._store.read_mode(card) or MigMode(described, described)

    def set_mode(self, card: str, wanted: bool) -> CallProblem | None:
        current = wanted
        if not self.can_switch_without_reset(card):
            mode = self.read_mode(card)
            current = mode is not None and mode.current
        self._store.write_mode(card, MigMode(current, wanted))
        return None if current == wanted else CallProblem.RESET_REQUIRED

    def can_switch_without_reset(self, card: str) -> bool:
        return (self._device.compute_capability or (0, 0)) >= RESETLESS_CAPABILITY

    def read_virtualization(self, card: str) -> Virtualization:
        return Virtualization.NONE

    def list_instances(self, card: str) -> tuple[GpuInstance, ...]:
        return ()

    def create_instance(self, card: str, profile_id: int, start: int, size: int) -> int:
        raise _refuse_call("create_instance", f"{card} is simulated ({profile_id}@{start}:{size})")

    def create_compute(self, card: str, instance: int) -> int:
        raise _refuse_call("create_compute", f"{card} is simulated (GPU instance {instance})")

    def read_partition_uuid(self, card: str, instance: int, compute: int) -> str:
        raise _refuse_call("read_partition_uuid", f"{card} has no instance {instance}/{compute}")

    def destroy_compute(self, card: str, instance: int, compute: int) -> None:
        raise _refuse_call("destroy_compute", f"{card} has no instance {instance}/{compute}")

    def destroy_instance(self, card: str, instance: int) -> None:
        raise _refuse_call("destroy_instance", f"{card} has no instance {instance}")


def _refuse_call(call: str, text: str) -> DriverCallError:
    return DriverCallError(call, CallProblem.UNSUPPORTED, text)


def main(arguments: Sequence[str]) -> int:
    """Reset a simulated card, as `nvidia-smi --gpu-reset` does a real one."""
    SimulatedModeStore(Path(arguments[0])).reset_card(arguments[1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
