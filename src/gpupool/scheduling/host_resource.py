"""Which resource of a host a worth counts beside its cards: processors, or main memory where that is scarcer.

A worth has one dimension for the host. The filter always checks both. Where claims run out of main memory while
processors are plenty, a worth by processors sees nothing of what is lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.base.units import MIB
from gpupool.model.claim import Shape
from gpupool.scheduling.free import Free
from gpupool.scheduling.snapshot import Cards, Ints


@dataclass(frozen=True)
class HostResource:
    """Amounts are in the resource's own unit; `grain` of them is the finest that a worth tells apart."""

    name: str
    grain: int

    def of_shape(self, shape: Shape) -> int:
        """What the whole claim asks for of its host."""
        return shape.cpu_milli if self is PROCESSORS else shape.host_bytes

    def of_hosts(self, cards: Cards) -> Ints | None:
        """What every node has of it in all; None where that is not known."""
        if cards.hosts is None:
            return None
        return cards.hosts.cpu_milli if self is PROCESSORS else cards.hosts.memory_bytes

    def free_of(self, free: Free) -> Ints:
        """What is free of it on every node: the column itself, which changes in place."""
        return free.cpu_milli if self is PROCESSORS else free.host_bytes


PROCESSORS = HostResource("processors", 4)
"""In milli-cores; free ones are rounded down to the grain, asked ones up."""

MAIN_MEMORY = HostResource("main memory", 16 * MIB)
"""In bytes; a grain is about as small a part of a host as four milli-cores are."""
