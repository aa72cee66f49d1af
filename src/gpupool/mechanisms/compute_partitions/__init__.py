"""Compute partitions of AMD cards: one card shows as many agents as its mode says.

A mode of the card and no mechanism: the card stays one card of the pool, and a job gets all its agents.
"""

from gpupool.mechanisms.compute_partitions.mode_switch import (
    ComputePartitionSwitch,
    MemoryPartitionSwitch,
)

__all__ = ["ComputePartitionSwitch", "MemoryPartitionSwitch"]
