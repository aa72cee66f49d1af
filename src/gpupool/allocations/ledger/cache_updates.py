"""Change records of a transaction, which the cache of the ledger applies after the commit.

They carry absolute values with their generation, so their order does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.ledger.running_jobs import SeatHolder
from gpupool.model.numa import NumaPart
from gpupool.model.partition import PartitionSlot


@dataclass(frozen=True)
class CardUpdate:
    """What is allocated of one card."""

    uuid: str
    used_milli: int
    used_bytes: int
    #: The cache ignores an update that is older than the generation it has.
    generation: int
    #: The partitions that are cut of the card; empty for a card in another mode.
    pieces: tuple[PartitionSlot, ...] = ()


@dataclass(frozen=True)
class HostUpdate:
    """What is allocated of a node's processors and main memory."""

    node: str
    used_cpu_milli: int
    used_bytes: int
    generation: int
    #: The part of both amounts that is pinned to NUMA nodes.
    numa: tuple[NumaPart, ...] = ()


@dataclass(frozen=True)
class LedgerChange:
    """Everything that one transaction changed, for the cache."""

    #: Public ids of the jobs that got seats.
    jobs: tuple[str, ...] = ()
    cards: tuple[CardUpdate, ...] = ()
    #: Rows of `tenants` as the transaction left them.
    tenants: tuple[sa.Row[Any], ...] = ()
    hosts: tuple[HostUpdate, ...] = ()
    #: Jobs whose seats are new or changed: grants and resizes.
    held: tuple[SeatHolder, ...] = ()
    #: Jobs that hold nothing any more.
    returned: tuple[str, ...] = ()
    #: Members of arrays, by reference, that have become jobs.
    made: tuple[str, ...] = ()
