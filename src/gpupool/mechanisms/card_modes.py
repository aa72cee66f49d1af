"""Defines how a card is set up for a mode, and lists the modes that this node can set.

A switch belongs to the card and not to an allocation: the card is drained before it, and probed and
adopted after it. Every verb is idempotent, keeps a note of what was there before in
`<state>/modes/<uuid>.json`, and never blocks for a slow step: it answers `NotYet`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

from gpupool.base.errors import GpupoolError
from gpupool.mechanisms.compute_partitions import ComputePartitionSwitch, MemoryPartitionSwitch
from gpupool.mechanisms.contract import NotYet
from gpupool.mechanisms.mig.simulated_switch import MigSwitch
from gpupool.mechanisms.passthrough import PassthroughSwitch
from gpupool.mechanisms.sriov import SriovSwitch
from gpupool.mechanisms.vgpu import VgpuSwitch
from gpupool.model.device import (
    COMPUTE_PARTITION_MODES,
    MEMORY_PARTITION_MODES,
    CardMode,
    Device,
    ModeOffer,
)


class ModeSwitch(Protocol):
    """Sets cards up for one mode, and undoes that."""

    @property
    def mode(self) -> CardMode: ...

    def describe_offer(self, device: Device) -> ModeOffer | None:
        """Return what a switch to this mode needs; None for a card that never has the mode."""
        ...

    def list_steps(self, device: Device) -> tuple[str, ...]:
        """Return the steps from PLAIN to this mode, for people. Changes nothing."""
        ...

    def enter(self, device: Device, state_dir: Path) -> NotYet | None:
        """Bring a card that is free of jobs from PLAIN into this mode; None when it is in it.

        Raises RequestRejection where the card cannot be switched; then nothing has changed.
        """
        ...

    def leave(self, device: Device, state_dir: Path) -> NotYet | None:
        """Put back what was there before `enter`; None when the card is PLAIN again."""
        ...


#: By mode, in the order in which they are shown. PLAIN is what `leave` returns to.
SWITCHES: Mapping[CardMode, ModeSwitch] = MappingProxyType(
    {
        CardMode.MIG: MigSwitch(),
        CardMode.PASSTHROUGH: PassthroughSwitch(),
        CardMode.SRIOV: SriovSwitch(),
        CardMode.VGPU: VgpuSwitch(),
        **{mode: ComputePartitionSwitch(mode) for mode in COMPUTE_PARTITION_MODES},
        **{mode: MemoryPartitionSwitch(mode) for mode in MEMORY_PARTITION_MODES},
    }
)


def list_mode_offers(device: Device) -> tuple[ModeOffer, ...]:
    """Return what each switch of this node offers for a card."""
    offers = []
    for switch in SWITCHES.values():
        try:
            offer = switch.describe_offer(device)
        except (GpupoolError, OSError) as error:
            offer = ModeOffer(switch.mode, blocked_by=f"it could not be asked: {error}")
        if offer is not None:
            offers.append(offer)
    return tuple(offers)
