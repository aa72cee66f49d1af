"""What the scheduler sees and what it answers: a frozen snapshot in, a plan out.

Cards are columns (NumPy arrays of one length) so that ten thousand of them are one
operation; claims wait in classes of equal rank, tenant and shape, because equal shapes
get equal answers and a queue of a hundred thousand jobs has few of them.
Whoever builds a snapshot (a SQL ledger, Kubernetes objects, a trace) fills the same columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from gpupool.model.allocation import Seat
from gpupool.model.claim import Rejection, Shape
from gpupool.model.quota import Amount, Quota

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class CardStatus(StrEnum):
    """Whether a card can be given out at all; only OPEN ones can."""

    OPEN = "open"
    NOT_ADOPTED = "not adopted"
    DRAINING = "draining"
    UNHEALTHY = "unhealthy"


CARD_STATUS = tuple(CardStatus)
"""`Cards.status` holds indices into this."""


@dataclass(frozen=True)
class Cards:
    """Every card of the pool, one column per fact, in a stable order (node, then index)."""

    uuids: tuple[str, ...]
    models: tuple[str, ...]
    """Distinct canonical models; `model` holds indices into it."""
    nodes: tuple[str, ...]
    """Node names; `node` holds indices into it."""
    node_labels: tuple[Mapping[str, str], ...]
    model: Ints
    node: Ints
    status: Ints
    memory_bytes: Ints
    free_milli: Ints
    free_bytes: Ints
    generation: Ints
    """Of each card's row in the ledger: what a plan must name to be applied."""

    def __len__(self) -> int:
        return len(self.uuids)


@dataclass(frozen=True)
class TenantView:
    """A tenant's quota and what it holds now (added up over seats)."""

    quota: Quota
    held: Amount


@dataclass(frozen=True)
class Waiting:
    """Claims of one tenant, priority and shape, oldest first.

    `heads` are the oldest few (at most a batch), `count` says how many wait in all.
    """

    tenant: str
    priority: int
    shape: Shape
    heads: tuple[str, ...]
    """Job ids."""
    count: int
    oldest_ns: int
    heads_ns: tuple[int, ...] = ()
    """When each head was submitted; left out, every head is as old as the oldest."""

    @property
    def key(self) -> tuple[str, int, Shape]:
        return (self.tenant, self.priority, self.shape)


class Packing(StrEnum):
    BINPACK = "binpack"
    SPREAD = "spread"


@dataclass(frozen=True)
class Policy:
    """The rule of placement: how nodes are filled, and how cards of a node are."""

    nodes: Packing = Packing.BINPACK
    cards: Packing = Packing.BINPACK


@dataclass(frozen=True)
class Snapshot:
    generation: int
    cards: Cards
    tenants: Mapping[str, TenantView]
    waiting: tuple[Waiting, ...]
    policy: Policy = field(default_factory=Policy)


@dataclass(frozen=True)
class Placement:
    """One job gets these seats; `generations` are those of its cards' rows as they were read."""

    job: str
    node: str
    seats: tuple[Seat, ...]
    generations: tuple[int, ...]
    why: str
    """What decided it, in a few words, for `show` and `explain`."""


@dataclass(frozen=True)
class Effort:
    """What deciding cost, counted and so the same on every machine: for tests and metrics."""

    rows: int = 0
    """Cards looked at, every look counted."""
    classes: int = 0
    attempts: int = 0
    """Heads taken from the queue, placed or not."""


@dataclass(frozen=True)
class Plan:
    """What to write, naming the generation that was read, and why the rest waits."""

    generation: int
    placements: tuple[Placement, ...]
    rejections: Mapping[tuple[str, int, Shape], Rejection]
    """By `Waiting.key`, for every class of which something still waits."""
    effort: Effort = field(default_factory=Effort, compare=False)
