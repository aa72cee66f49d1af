"""Changes of free capacity: what is undone by a rollback, and what caches read.

A cache keeps a cursor into the list of changed nodes.
"""

from __future__ import annotations

from typing import NamedTuple

from gpupool.model.partition import PartitionSlot
from gpupool.scheduling.filtering.numa_capacity import NumaDivision
from gpupool.scheduling.snapshot.columns import Ints


class ChangeCursor(NamedTuple):
    """The position up to which a cache has read the list of changed nodes."""

    epoch: int
    position: int


class ChangedNodes(NamedTuple):
    """The address of an array of changed nodes and its length, for the native library."""

    at: int
    number: int


#: Of a cache that knows nothing: everything has changed since.
NEVER_READ = ChangeCursor(-1, 0)

#: A row, a piece of it, and whether the piece is taken (or given back).
SlotChange = tuple[int, PartitionSlot, bool]

#: A row, and the numbers of its owners before and after.
OwnerChange = tuple[int, int, int]


class CapacityChange(NamedTuple):
    """One change that can be undone: the amounts added to each column, and the partition slots."""

    #: Several where it is cards alone that change.
    node: int | Ints
    rows: Ints
    milli: Ints | int
    sizes: Ints | int
    cpu_milli: int
    host_bytes: int
    slots: tuple[SlotChange, ...] = ()
    numa: NumaDivision | None = None
    owners: tuple[OwnerChange, ...] = ()


def invert_change(step: CapacityChange) -> CapacityChange:
    # Slots are not amounts: their sign is the flag "taken".
    recut = tuple((row, place, not taken) for row, place, taken in step.slots) if step.slots else ()
    numa = None if step.numa is None else -step.numa
    return CapacityChange(
        step.node,
        step.rows,
        -step.milli,
        -step.sizes,
        -step.cpu_milli,
        -step.host_bytes,
        recut,
        numa,
    )


def build_slot_changes(
    rows: Ints, places: tuple[PartitionSlot, ...], *, taken: bool
) -> tuple[SlotChange, ...]:
    return (
        tuple((int(row), place, taken) for row, place in zip(rows, places, strict=True))
        if places
        else ()
    )
