"""The ledger as the scheduler sees it, kept in memory and corrected after every commit.

The truth is in the database. The mirror only saves reading ten thousand cards and a
hundred thousand waiting jobs for each decision: whoever commits a change puts a note here,
and a plan made from a mirror that missed one is refused by the generations it names.
Notes carry absolute values with their generation, so their order does not matter.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import sqlalchemy as sa

from gpupool.allocations.tables import IS_LIVE, claims, jobs
from gpupool.base.units import WHOLE
from gpupool.fleet.tables import devices, nodes
from gpupool.model.claim import Shape, Sharing
from gpupool.model.device import DeviceState, Health
from gpupool.model.quota import Amount, Quota
from gpupool.scheduling.policies import DEFAULT
from gpupool.scheduling.snapshot import (
    CARD_STATUS,
    Cards,
    CardStatus,
    ClassKey,
    Snapshot,
    TenantView,
    Waiting,
)
from gpupool.tenancy.tables import tenants

HEADS = 64
"""Jobs of one class that a snapshot names: as many as one plan places."""


@dataclass(frozen=True)
class Queued:
    """A job that waits."""

    job: str
    key: ClassKey
    submitted_ns: int


@dataclass(frozen=True)
class CardNote:
    uuid: str
    used_milli: int
    used_bytes: int
    generation: int


class Mirror:
    """Thread-safe; every method takes microseconds to a few milliseconds and does no I/O but `load`."""

    def __init__(self, policy: str = DEFAULT) -> None:
        self.lock = threading.RLock()
        self.policy = policy
        self._queue: OrderedDict[ClassKey, OrderedDict[str, int]] = OrderedDict()
        self._key_of: dict[str, ClassKey] = {}
        self._tenants: dict[str, TenantView] = {}
        self._tenant_generation: dict[str, int] = {}
        self._cards: Cards | None = None
        self._index: dict[str, int] = {}
        self.generation = 0

    # --- reading the truth -------------------------------------------------------------

    def load(self, connection: sa.Connection) -> None:
        """Read everything: at start, and whenever a plan was found stale."""
        with self.lock:
            self.load_cards(connection)
            self.load_tenants(connection)
            self._queue.clear()
            self._key_of.clear()
            self.enqueue(_waiting_jobs(connection))

    def load_cards(self, connection: sa.Connection) -> None:
        rows = connection.execute(
            sa.select(devices, nodes.c.name.label("node"), nodes.c.labels)
            .join(nodes, nodes.c.id == devices.c.node_id)
            .order_by(nodes.c.id, devices.c.idx)
        ).all()
        with self.lock:
            self._cards = _columns(rows)
            self._index = {uuid: n for n, uuid in enumerate(self._cards.uuids)}

    def load_tenants(self, connection: sa.Connection) -> None:
        with self.lock:
            self._tenants.clear()
            self._tenant_generation.clear()
            for row in connection.execute(sa.select(tenants)):
                self.note_tenant(row)

    # --- notes after a commit ------------------------------------------------------------

    def enqueue(self, waiting: Iterable[Queued], *, again: bool = False) -> None:
        """Jobs that wait from now on; `again`: they had their turn once and go before those of their class."""
        with self.lock:
            for item in waiting:
                queue = self._queue.setdefault(item.key, OrderedDict())
                queue[item.job] = item.submitted_ns
                queue.move_to_end(item.job, last=not again)
                self._key_of[item.job] = item.key
            self.generation += 1

    def dequeue(self, gone: Iterable[str]) -> None:
        with self.lock:
            for job in gone:
                key = self._key_of.pop(job, None)
                if key is not None:
                    self._queue[key].pop(job, None)
                    if not self._queue[key]:
                        del self._queue[key]
            self.generation += 1

    def note_cards(self, notes: Iterable[CardNote]) -> None:
        with self.lock:
            for note in notes:
                at = self._index.get(note.uuid)
                if self._cards is not None and at is not None:
                    _note_card(self._cards, at, note)
            self.generation += 1

    def note_tenant(self, row: Any) -> None:
        """A row of `tenants` as it was just written."""
        with self.lock:
            if self._tenant_generation.get(row.name, 0) > row.generation:
                return
            self._tenant_generation[row.name] = row.generation
            self._tenants[row.name] = TenantView(quota_of(row), Amount(row.held_milli, row.held_memory_bytes))
            self.generation += 1

    # --- answers -------------------------------------------------------------------------

    def snapshot(self, extra: Waiting | None = None) -> Snapshot:
        """A frozen copy; `extra` is a claim that is not in the queue (yet)."""
        with self.lock:
            if self._cards is None:
                raise RuntimeError("the mirror was never loaded")
            cards = replace(
                self._cards,
                free_milli=self._cards.free_milli.copy(),
                free_bytes=self._cards.free_bytes.copy(),
                generation=self._cards.generation.copy(),
            )
            waiting = tuple(_as_waiting(key, jobs_) for key, jobs_ in self._queue.items())
            return Snapshot(
                self.generation, cards, dict(self._tenants), (*waiting, *([extra] if extra else [])), self.policy
            )

    def key_of(self, job: str) -> ClassKey | None:
        with self.lock:
            return self._key_of.get(job)

    def waiting_count(self) -> int:
        with self.lock:
            return len(self._key_of)

    def position(self, job: str) -> int:
        """How many jobs of its own class wait before it."""
        with self.lock:
            key = self._key_of.get(job)
            return 0 if key is None else next(n for n, other in enumerate(self._queue[key]) if other == job)


def _note_card(cards: Cards, at: int, note: CardNote) -> None:
    if cards.generation[at] < note.generation:
        cards.free_milli[at] = WHOLE - note.used_milli
        cards.free_bytes[at] = cards.memory_bytes[at] - note.used_bytes
        cards.generation[at] = note.generation


def quota_of(row: Any) -> Quota:
    return Quota(row.nominal_milli, row.borrowing_milli, row.nominal_memory_bytes, row.borrowing_memory_bytes)


def shape_of(row: Any) -> Shape:
    """The shape in a row of `claims`."""
    return Shape(
        row.gpu_milli, row.memory_bytes, row.cards, row.model, tuple(sorted(row.labels.items())), Sharing(row.sharing)
    )


def _as_waiting(key: ClassKey, queue: Mapping[str, int]) -> Waiting:
    heads = tuple(islice(queue, HEADS))
    ages = tuple(queue[job] for job in heads)
    return waiting_of(key, heads, len(queue), ages)


def waiting_of(key: ClassKey, heads: tuple[str, ...], count: int, ages: tuple[int, ...]) -> Waiting:
    """A class of the queue as a snapshot has it; `ages` are when its heads were submitted, oldest first."""
    return Waiting(
        key.tenant,
        key.priority,
        key.shape,
        heads,
        count,
        ages[0],
        ages,
        seconds=key.seconds,
        reservation=key.reservation,
    )


def _waiting_jobs(connection: sa.Connection) -> list[Queued]:
    rows = connection.execute(
        sa.select(jobs.c.public_id.label("job"), claims, tenants.c.name.label("tenant"))
        .join(claims, claims.c.id == jobs.c.claim_id)
        .join(tenants, tenants.c.id == jobs.c.tenant_id)
        .where(jobs.c.state == "pending", IS_LIVE)
        .order_by(jobs.c.id)
    )
    return [Queued(row.job, ClassKey(row.tenant, row.priority, shape_of(row)), row.submitted_ns) for row in rows]


def _columns(rows: Iterable[Any]) -> Cards:
    rows = list(rows)
    models = tuple(dict.fromkeys(row.model for row in rows))
    names = tuple(dict.fromkeys(row.node for row in rows))
    labels = {row.node: row.labels for row in rows}
    model_at, node_at = ({name: n for n, name in enumerate(seq)} for seq in (models, names))

    def column(values: Iterable[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.fromiter(values, dtype=np.int64, count=len(rows))

    return Cards(
        uuids=tuple(row.uuid for row in rows),
        models=models,
        nodes=names,
        node_labels=tuple(labels[name] for name in names),
        model=column(model_at[row.model] for row in rows),
        node=column(node_at[row.node] for row in rows),
        status=column(CARD_STATUS.index(card_status(row.state, row.health)) for row in rows),
        memory_bytes=column(row.memory_bytes for row in rows),
        free_milli=column(WHOLE - row.used_milli for row in rows),
        free_bytes=column(row.memory_bytes - row.used_bytes for row in rows),
        generation=column(row.generation for row in rows),
    )


def card_status(state: str, health: str) -> CardStatus:
    """What a card's state and health mean for placing."""
    if state == DeviceState.DRAINING:
        return CardStatus.DRAINING
    if state == DeviceState.OBSERVED:
        return CardStatus.NOT_ADOPTED
    if state == DeviceState.LOST or health == Health.FAILED:
        return CardStatus.UNHEALTHY
    return CardStatus.OPEN
