"""The host resource that a node value counts beside cards: processors or main memory.

A node value has one dimension for the host; the filter always checks both. Where claims run out of
main memory while processors are plenty, a value that counts processors would not see the loss.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.base.units import MIB
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.columns import Ints


@dataclass(frozen=True)
class HostResource:
    """One resource of hosts.

    Amounts are in its own unit. `grain` is the smallest amount that a value distinguishes.
    """

    name: str
    grain: int

    def get_asked(self, shape: Shape) -> int:
        """Return what the whole claim asks for of its host."""
        return shape.cpu_milli if self is PROCESSORS else shape.host_bytes

    def get_capacity(self, cards: CardTable) -> Ints | None:
        """Return the total amount on every node; None if it is unknown."""
        if cards.hosts is None:
            return None
        return cards.hosts.cpu_milli if self is PROCESSORS else cards.hosts.memory_bytes

    def get_free(self, free: FreeCapacity) -> Ints:
        """Return the free amount on every node: the column itself, which changes in place."""
        return free.cpu_milli if self is PROCESSORS else free.host_bytes


#: In milli-cores; free ones are rounded down to the grain, asked ones up.
PROCESSORS = HostResource("processors", 4)

#: In bytes; a grain is about as small a part of a host as four milli-cores are.
MAIN_MEMORY = HostResource("main memory", 16 * MIB)
