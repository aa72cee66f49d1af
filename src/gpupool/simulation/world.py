"""A pool that exists only as numbers: cards, queue and running jobs, as a ledger would keep them.

It gives the scheduler the same snapshot that a real pool gives it, and writes its plans down. Whoever drives it
(`replay`) brings the time; nothing here decides who gets what.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.model.claim import Shape
from gpupool.model.gang import Gang
from gpupool.model.quota import Amount
from gpupool.scheduling.runs import Register
from gpupool.scheduling.snapshot import (
    Cards,
    ClassKey,
    Cut,
    Hosts,
    Ints,
    Placement,
    Running,
    Snapshot,
    Waiting,
)
from gpupool.scheduling.usage import Usage, dominant_micro
from gpupool.simulation.trace import NS, Node

HEADS = 64
"""Jobs of one class that a snapshot names: as many as one plan places, as in a real pool."""


@dataclass
class Job:
    """One job that waits or runs. `left_ns` is what it still has to run, None for one whose end nobody knows."""

    id: str
    key: ClassKey
    shape: Shape
    submitted_ns: int
    left_ns: int | None
    gang: Gang | None = None
    preemptible: bool = False
    counts: bool = True
    """Its wait is one of those that are measured; of a gang only the first member's is."""
    run: Running | None = None
    node: int = -1
    starts: int = 0


class World:
    """Begins as `snapshot` is, with `jobs` by id for what runs in it; everything that waits comes by `enqueue`."""

    def __init__(self, snapshot: Snapshot, jobs: Mapping[str, Job] | None = None, now_ns: int = 0) -> None:
        self.first = snapshot
        cards = snapshot.cards
        hosts = cards.hosts and replace(
            cards.hosts,
            free_cpu_milli=cards.hosts.free_cpu_milli.copy(),
            free_memory_bytes=cards.hosts.free_memory_bytes.copy(),
            numa=cards.hosts.numa and cards.hosts.numa.copy(),
        )
        columns = (cards.free_milli.copy(), cards.free_bytes.copy(), cards.generation.copy())
        self._cuts = dict(cards.cuts)
        self.cards = replace(
            cards,
            free_milli=columns[0],
            free_bytes=columns[1],
            generation=columns[2],
            hosts=hosts or None,
            cuts=self._cuts,
        )
        self.tenants = dict(snapshot.tenants)
        self.running: dict[str, Job] = dict(jobs or {})
        self._runs = Register()
        for job in self.running.values():
            if job.run is not None:
                self._runs.put(job.run)
        self.generation = snapshot.generation
        self.promised = snapshot.promised
        """Of the last plan."""
        self._memory_bytes = int(cards.memory_bytes.sum())
        self._usage = Usage()
        self._usage.start({name: float(view.past) for name, view in self.tenants.items()}, now_ns / NS)
        for name in self.tenants:
            self._note_use(name, now_ns)
        self._row = {uuid: row for row, uuid in enumerate(cards.uuids)}
        self._node = {name: number for number, name in enumerate(cards.nodes)}
        self._queue: dict[ClassKey, dict[str, Job]] = {}
        self._waits: dict[str, Job] = {}
        self._waiting: dict[ClassKey, Waiting] = {}

    @property
    def waiting_count(self) -> int:
        return len(self._waits)

    def waiting(self) -> Iterable[Job]:
        """Every job that waits."""
        return self._waits.values()

    def snapshot(self, now_ns: int) -> Snapshot:
        """What the scheduler sees now."""
        cards = replace(
            self.cards,
            free_milli=self.cards.free_milli.copy(),
            free_bytes=self.cards.free_bytes.copy(),
            generation=self.cards.generation.copy(),
            cuts=dict(self._cuts),
        )
        for key in self._queue:
            if key not in self._waiting:
                self._waiting[key] = _as_waiting(key, self._queue[key])
        return replace(
            self.first,
            generation=self.generation,
            cards=cards,
            tenants={
                name: replace(view, past=self._usage.past(name, now_ns / NS)) for name, view in self.tenants.items()
            },
            waiting=tuple(self._waiting[key] for key in self._queue),
            running=self._runs.view(),
            promised=self.promised,
        )

    # --- what happens --------------------------------------------------------------------

    def enqueue(self, jobs: Iterable[Job], *, again: bool = False) -> None:
        """Jobs that wait from now on; `again`: they had their turn once and go before those of their class."""
        for job in jobs:
            queue = self._queue.pop(job.key, {}) if again else self._queue.setdefault(job.key, {})
            self._queue[job.key] = {job.id: job, **queue} if again else queue
            self._queue[job.key][job.id] = self._waits[job.id] = job
            self._waiting.pop(job.key, None)

    def place(self, placement: Placement, now_ns: int) -> Job:
        """Write one placement down: the job holds its seats and has left the queue."""
        job = self._leave(placement.job)
        key = job.key
        rows = np.array([self._row[seat.device] for seat in placement.seats], dtype=np.int64)
        sizes = tuple(seat.memory_bytes for seat in placement.seats)
        limit = key.seconds
        job.run = Running(
            job=job.id,
            tenant=key.tenant,
            priority=key.priority,
            rows=tuple(int(row) for row in rows),
            milli=tuple(seat.gpu_milli for seat in placement.seats),
            sizes=sizes,
            shape=job.shape,
            started_ns=now_ns,
            ends_ns=None if limit is None else now_ns + limit * NS,
            preemptible=job.preemptible,
            gang=key.gang,
            reservation=key.reservation,
            places=tuple(seat.partition for seat in placement.seats if seat.partition is not None),
            numa=placement.numa,
            **_place_in_gang(job),
        )
        job.node, job.starts = self._node[placement.node], job.starts + 1
        self.running[job.id] = job
        self._runs.put(job.run)
        self._hold(job, 1, now_ns)
        return job

    def give_back(self, job_id: str, now_ns: int) -> Job:
        """The job holds nothing any more; it neither waits nor runs."""
        job = self.running.pop(job_id)
        self._runs.drop(job_id)
        self._hold(job, -1, now_ns)
        job.run = None
        return job

    def _leave(self, job_id: str) -> Job:
        job = self._waits.pop(job_id)
        queue = self._queue[job.key]
        del queue[job_id]
        self._waiting.pop(job.key, None)
        if not queue:
            del self._queue[job.key]
        return job

    def _hold(self, job: Job, sign: int, now_ns: int) -> None:
        run = job.run
        assert run is not None
        for row, milli, size in zip(run.rows, run.milli, run.sizes, strict=True):
            self.cards.free_milli[row] -= sign * milli
            self.cards.free_bytes[row] -= sign * size
            self.cards.generation[row] += 1
        for row, piece in zip(run.rows, run.places, strict=True) if run.places else ():
            self._cuts[row] = self._cuts[row].plus(piece) if sign > 0 else self._cuts[row].minus(piece)
        if self.cards.hosts is not None:
            self.cards.hosts.free_cpu_milli[job.node] -= sign * run.shape.cpu_milli
            self.cards.hosts.free_memory_bytes[job.node] -= sign * run.shape.host_bytes
            if self.cards.hosts.numa is not None:
                self.cards.hosts.numa.hold(job.node, run.numa, sign)
        more = Amount(sign * sum(run.milli), sign * sum(run.sizes))
        view = self.tenants[run.tenant]
        self.tenants[run.tenant] = replace(view, held=view.held + more)
        self._note_use(run.tenant, now_ns)
        self.generation += 1

    def _note_use(self, tenant: str, now_ns: int) -> None:
        """The memory of the fair share, kept as a pool keeps it."""
        rate = dominant_micro(self.tenants[tenant].held, len(self.cards), self._memory_bytes)
        self._usage.hold(tenant, rate, now_ns / NS)


def _place_in_gang(job: Job) -> dict[str, Any]:
    """The role, and how many of it the gang needs."""
    if job.gang is None:
        return {}
    role = job.gang.role_of()[job.id]
    return {"role": role.name, "least": role.minimum}


def _as_waiting(key: ClassKey, queue: Mapping[str, Job]) -> Waiting:
    heads = tuple(queue) if key.gang else tuple(islice(queue, HEADS))
    ages = tuple(queue[head].submitted_ns for head in heads)
    return Waiting.of(key, heads, len(queue), ages, queue[heads[0]].gang)


def columns_of(nodes: Sequence[Node]) -> Cards:
    """The nodes as the scheduler's columns, everything free; cards are named `node:index`."""
    flat = [(number, index, *card) for number, node in enumerate(nodes) for index, card in enumerate(node.cards)]
    models = tuple(dict.fromkeys(model for _, _, model, _ in flat))
    place = {model: number for number, model in enumerate(models)}
    sizes = _column(size for *_, size in flat)
    return Cards(
        uuids=tuple(f"{nodes[number].name}:{index}" for number, index, _, _ in flat),
        models=models,
        nodes=tuple(node.name for node in nodes),
        node_labels=tuple(dict(node.labels) for node in nodes),
        model=_column(place[model] for _, _, model, _ in flat),
        node=_column(number for number, *_ in flat),
        status=np.zeros(len(flat), dtype=np.int64),
        memory_bytes=sizes,
        free_milli=np.full(len(flat), WHOLE, dtype=np.int64),
        free_bytes=sizes.copy(),
        generation=np.ones(len(flat), dtype=np.int64),
        hosts=_hosts(nodes),
        cuts={
            row: Cut(nodes[number].profiles[index])
            for row, (number, index, *_) in enumerate(flat)
            if index in nodes[number].profiles
        },
    )


def _hosts(nodes: Sequence[Node]) -> Hosts | None:
    """Processors and main memory, where every node says what it has of both."""
    if any(node.cpu_milli is None or node.host_bytes is None for node in nodes):
        return None
    cpu, memory = _column(node.cpu_milli or 0 for node in nodes), _column(node.host_bytes or 0 for node in nodes)
    return Hosts(cpu, memory, cpu.copy(), memory.copy())


def _column(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)
