"""Prepares an allocation by its mechanism and then by its layers, and undoes both in reverse.

A mechanism cuts the card; each layer adds to what is prepared so far. Callers use this module and
not the mechanism's own verbs, so that no layer is forgotten. Every function is idempotent.
"""

from __future__ import annotations

from pathlib import Path

from gpupool.mechanisms.contract import (
    AllocationView,
    EnforcementLevels,
    Mechanism,
    NotYet,
    PreparedAllocation,
)
from gpupool.mechanisms.registry import LAYERS


def prepare_allocation(
    mechanism: Mechanism, view: AllocationView, state_dir: Path
) -> PreparedAllocation | NotYet:
    """Prepare the mechanism, then each layer that serves the allocation.

    Raises:
        StaleGeneration: a younger generation is on record.
        RequestRejection: the mechanism cannot serve the allocation.
    """
    prepared = mechanism.prepare(view, state_dir)
    for layer in LAYERS:
        if isinstance(prepared, NotYet):
            return prepared
        if not layer.explain_absence(view):
            prepared = layer.prepare(view, prepared, state_dir)
    return prepared


def unprepare_allocation(
    mechanism: Mechanism, allocation: str, generation: int, state_dir: Path
) -> None:
    """Undo the layers from the last to the first, then the mechanism.

    Raises:
        StaleGeneration: a younger generation is on record; then nothing changes.
    """
    for layer in reversed(LAYERS):
        layer.unprepare(allocation, generation, state_dir)
    mechanism.unprepare(allocation, generation, state_dir)


def resize_allocation(mechanism: Mechanism, view: AllocationView, state_dir: Path) -> None:
    """Apply other sizes to the running job: the mechanism first, then the layers."""
    mechanism.resize(view, state_dir)
    for layer in LAYERS:
        layer.resize(view, state_dir)


def read_enforcement_levels(
    mechanism: Mechanism, allocation: str, state_dir: Path
) -> EnforcementLevels:
    """Return the level of each dimension, with what the layers add."""
    levels = mechanism.read_levels(allocation, state_dir)
    for layer in LAYERS:
        levels = layer.read_enforcement(allocation, levels, state_dir)
    return levels


def list_recorded_layers(allocation: str, state_dir: Path) -> list[str]:
    """Return the names of the layers that were added to an allocation, in their order."""
    return [layer.name for layer in LAYERS if layer.is_recorded(allocation, state_dir)]
