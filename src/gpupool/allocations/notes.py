"""What a transaction changed, for the copy in memory: absolute values with their generation, so their order is free."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.held import Held
from gpupool.model.numa import NumaPart
from gpupool.model.partition import Placement


@dataclass(frozen=True)
class CardNote:
    uuid: str
    used_milli: int
    used_bytes: int
    generation: int
    pieces: tuple[Placement, ...] = ()
    """Of a card in partition mode, what is cut of it."""


@dataclass(frozen=True)
class HostNote:
    """What is held of a node's processors and main memory."""

    node: str
    used_cpu_milli: int
    used_bytes: int
    generation: int
    numa: tuple[NumaPart, ...] = ()
    """Of it, by NUMA node."""


@dataclass(frozen=True)
class Granted:
    """`jobs` got seats; rows of `tenants` are as they are now."""

    jobs: tuple[str, ...] = ()
    cards: tuple[CardNote, ...] = ()
    tenants: tuple[sa.Row[Any], ...] = ()
    hosts: tuple[HostNote, ...] = ()
    held: tuple[Held, ...] = ()
    """Jobs that hold seats from now on, or others than before."""
    returned: tuple[str, ...] = ()
    """Jobs that hold nothing any more."""
    made: tuple[str, ...] = ()
    """Members of arrays, by reference, that have become jobs."""
