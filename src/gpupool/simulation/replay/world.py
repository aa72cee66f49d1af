"""Keep the state of a simulated pool: cards, queue and running jobs, as a ledger would keep them.

The pool gives the scheduler the same snapshot that a real pool gives, and applies its plans. Its
caller (`replay`, `studies`) brings the time; nothing here decides where a job runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from gpupool.base.units import NANOS_PER_SECOND, WHOLE
from gpupool.model.claim import Shape
from gpupool.model.gang import Gang
from gpupool.model.partition import PartitionSlot
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.quota.usage_decay import DecayedUsage, compute_dominant_micro
from gpupool.scheduling.snapshot.cards import CardTable, HostColumns, PartitionLayout
from gpupool.scheduling.snapshot.claims import ClassKey, RunningJob, WaitingClass
from gpupool.scheduling.snapshot.columns import Ints
from gpupool.scheduling.snapshot.plan import JobPlacement
from gpupool.scheduling.snapshot.running_jobs_log import RunningJobsRegister
from gpupool.scheduling.snapshot.snapshot import Snapshot
from gpupool.simulation.traces.trace import TraceNode

#: Jobs of one class that a snapshot names: as many as one plan places, as in a real pool. Beyond
#: them only the number counts, so a queue of a million jobs costs a cycle no more than 64.
HEADS = 64


@dataclass
class SimulatedJob:
    """One job that waits or runs.

    `left_ns` is what it still has to run, None for a job whose end is unknown (in a forecast, a
    job without a limit). `starts` counts its starts, so that an end on the replay's heap that
    belongs to an earlier start is recognised and dropped.
    """

    id: str
    key: ClassKey
    shape: Shape
    submitted_ns: int
    left_ns: int | None
    gang: Gang | None = None
    preemptible: bool = False
    #: Its wait is one of those that are measured; of a gang only the first member's is.
    counts: bool = True
    run: RunningJob | None = None
    node: int = -1
    starts: int = 0


class SimulatedPool:
    """A pool that begins as `snapshot`, with `jobs` by id for the jobs that run in it.

    Jobs that wait come by `enqueue_jobs`, those of the snapshot too.
    """

    def __init__(
        self, snapshot: Snapshot, jobs: Mapping[str, SimulatedJob] | None = None, now_ns: int = 0
    ) -> None:
        self.first = snapshot
        cards = snapshot.cards
        # Copies: the pool writes into its columns, and the caller's snapshot may be played again
        # with another change or policy.
        hosts = cards.hosts and replace(
            cards.hosts,
            free_cpu_milli=cards.hosts.free_cpu_milli.copy(),
            free_memory_bytes=cards.hosts.free_memory_bytes.copy(),
            numa=cards.hosts.numa and cards.hosts.numa.copy(),
        )
        self._cuts = dict(cards.layouts)
        self.cards = replace(
            cards,
            free_milli=cards.free_milli.copy(),
            free_bytes=cards.free_bytes.copy(),
            generation=cards.generation.copy(),
            hosts=hosts or None,
            layouts=self._cuts,
        )
        self.tenants = dict(snapshot.tenants)
        self.running: dict[str, SimulatedJob] = dict(jobs or {})
        self._runs = RunningJobsRegister()
        for job in self.running.values():
            if job.run is not None:
                self._runs.put_job(job.run)
        self.generation = snapshot.generation
        #: Of the last plan.
        self.promised = snapshot.previous_starts
        self._memory_bytes = int(cards.memory_bytes.sum())
        self._usage = DecayedUsage()
        past = {name: float(view.past) for name, view in self.tenants.items()}
        self._usage.start(past, now_ns / NANOS_PER_SECOND)
        for name in self.tenants:
            self._record_usage_rate(name, now_ns)
        self._row = {uuid: row for row, uuid in enumerate(cards.uuids)}
        self._node = {name: number for number, name in enumerate(cards.nodes)}
        self._queue: dict[ClassKey, dict[str, SimulatedJob]] = {}
        self._waits: dict[str, SimulatedJob] = {}
        self._waiting: dict[ClassKey, WaitingClass] = {}

    @property
    def waiting_count(self) -> int:
        return len(self._waits)

    def list_waiting(self) -> Iterable[SimulatedJob]:
        """Return every job that waits, in the order in which they were enqueued."""
        return self._waits.values()

    def take_snapshot(self, now_ns: int) -> Snapshot:
        """Return the scheduler's input at that instant; later changes do not reach it."""
        cards = replace(
            self.cards,
            free_milli=self.cards.free_milli.copy(),
            free_bytes=self.cards.free_bytes.copy(),
            generation=self.cards.generation.copy(),
            layouts=dict(self._cuts),
            owners=self._runs.list_card_owners(),
        )
        # A class is built again only after its queue changed: most cycles change a few of many.
        waiting: list[WaitingClass] = []
        for key, queue in self._queue.items():
            if key not in self._waiting:
                self._waiting[key] = _build_waiting_class(key, queue)
            waiting.append(self._waiting[key])
        seconds = now_ns / NANOS_PER_SECOND
        tenants = dict(self.tenants)
        for name, view in self.tenants.items():
            tenants[name] = replace(view, past=self._usage.get_past_use(name, seconds))
        return replace(
            self.first,
            generation=self.generation,
            cards=cards,
            tenants=tenants,
            waiting=tuple(waiting),
            running=self._runs.get_view(),
            previous_starts=self.promised,
        )

    # --- what happens --------------------------------------------------------------------

    def enqueue_jobs(self, jobs: Iterable[SimulatedJob], *, again: bool = False) -> None:
        """Add jobs to the queue.

        With `again` the jobs were evicted: they go before the other jobs of their class.
        """
        for job in jobs:
            if again:
                # `pop` also moves the class behind the others of the snapshot.
                queue = self._queue.pop(job.key, {})
                self._queue[job.key] = {job.id: job, **queue}
            else:
                self._queue.setdefault(job.key, {})[job.id] = job
            self._waits[job.id] = job
            self._waiting.pop(job.key, None)

    def place_job(self, placement: JobPlacement, now_ns: int) -> SimulatedJob:
        """Apply one placement: the job leaves the queue and holds its seats. Return the job."""
        job = self._dequeue_job(placement.job)
        key = job.key
        rows: list[int] = []
        slots: list[PartitionSlot] = []
        for seat in placement.seats:
            rows.append(self._row[seat.device])
            if seat.partition is not None:
                slots.append(seat.partition)
        # The scheduler learns the limit, never the true run: `left_ns` stays with the replay.
        limit_ns = None if key.seconds is None else key.seconds * NANOS_PER_SECOND
        job.run = RunningJob(
            job=job.id,
            tenant=key.tenant,
            priority=key.priority,
            rows=tuple(rows),
            milli=tuple(seat.gpu_milli for seat in placement.seats),
            sizes=tuple(seat.memory_bytes for seat in placement.seats),
            shape=job.shape,
            started_ns=now_ns,
            ends_ns=None if limit_ns is None else now_ns + limit_ns,
            preemptible=job.preemptible,
            gang=key.gang,
            reservation=key.reservation,
            slots=tuple(slots),
            numa=placement.numa,
            **_describe_gang_role(job),
        )
        job.node = self._node[placement.node]
        job.starts += 1
        self.running[job.id] = job
        self._runs.put_job(job.run)
        self._apply_usage(job, 1, now_ns)
        return job

    def release_job(self, job_id: str, now_ns: int) -> SimulatedJob:
        """Take back the job's seats and return the job; it neither waits nor runs afterwards."""
        job = self.running.pop(job_id)
        self._runs.remove_job(job_id)
        self._apply_usage(job, -1, now_ns)
        job.run = None
        return job

    def _dequeue_job(self, job_id: str) -> SimulatedJob:
        job = self._waits.pop(job_id)
        queue = self._queue[job.key]
        del queue[job_id]
        self._waiting.pop(job.key, None)
        if not queue:
            del self._queue[job.key]
        return job

    def _apply_usage(self, job: SimulatedJob, sign: int, now_ns: int) -> None:
        """Add what the job holds to every column, or with `sign` -1 take it away."""
        run = job.run
        assert run is not None
        for row, milli, size in zip(run.rows, run.milli, run.sizes, strict=True):
            self.cards.free_milli[row] -= sign * milli
            self.cards.free_bytes[row] -= sign * size
            # The planning state finds changed cards by their generation, as in a real pool.
            self.cards.generation[row] += 1
        # A job has a slot on each of its cards, or none at all.
        for row, slot in zip(run.rows, run.slots, strict=True) if run.slots else ():
            layout = self._cuts[row]
            self._cuts[row] = layout.with_slot(slot) if sign > 0 else layout.without_slot(slot)
        if self.cards.hosts is not None:
            self.cards.hosts.free_cpu_milli[job.node] -= sign * run.shape.cpu_milli
            self.cards.hosts.free_memory_bytes[job.node] -= sign * run.shape.host_bytes
            if self.cards.hosts.numa is not None:
                self.cards.hosts.numa.add_usage(job.node, run.numa, sign)
        more = ResourceAmount(sign * sum(run.milli), sign * sum(run.sizes))
        view = self.tenants[run.tenant]
        self.tenants[run.tenant] = replace(view, held=view.held + more)
        self._record_usage_rate(run.tenant, now_ns)
        self.generation += 1

    def _record_usage_rate(self, tenant: str, now_ns: int) -> None:
        """Record from when the tenant uses how much, for the decaying usage of fair share."""
        rate = compute_dominant_micro(
            self.tenants[tenant].held, len(self.cards), self._memory_bytes
        )
        self._usage.set_rate(tenant, rate, now_ns / NANOS_PER_SECOND)


def _describe_gang_role(job: SimulatedJob) -> dict[str, Any]:
    """Return the fields of a gang's member: its role, and how many of the role the gang needs."""
    if job.gang is None:
        return {}
    role = job.gang.map_roles()[job.id]
    return {"role": role.name, "role_minimum": role.minimum}


def _build_waiting_class(key: ClassKey, queue: Mapping[str, SimulatedJob]) -> WaitingClass:
    # A gang is placed as a whole, so its snapshot names every member.
    heads = tuple(queue) if key.gang else tuple(islice(queue, HEADS))
    ages = tuple(queue[head].submitted_ns for head in heads)
    return WaitingClass.build(key, heads, len(queue), ages, queue[heads[0]].gang)


def build_card_table(nodes: Sequence[TraceNode]) -> CardTable:
    """Build the scheduler's columns of these nodes, everything free.

    Cards are named `node:index`.
    """
    uuids: list[str] = []
    # Models are numbered in the order in which they come, which a policy's ties depend on.
    model_numbers: dict[str, int] = {}
    models: list[int] = []
    node_numbers: list[int] = []
    sizes: list[int] = []
    layouts: dict[int, PartitionLayout] = {}
    for number, node in enumerate(nodes):
        for index, (model, size) in enumerate(node.cards):
            if index in node.profiles:
                layouts[len(uuids)] = PartitionLayout(node.profiles[index])
            uuids.append(f"{node.name}:{index}")
            models.append(model_numbers.setdefault(model, len(model_numbers)))
            node_numbers.append(number)
            sizes.append(size)
    memory_bytes = _build_column(sizes)
    return CardTable(
        uuids=tuple(uuids),
        models=tuple(model_numbers),
        nodes=tuple(node.name for node in nodes),
        node_labels=tuple(dict(node.labels) for node in nodes),
        model=_build_column(models),
        node=_build_column(node_numbers),
        status=np.zeros(len(uuids), dtype=np.int64),
        memory_bytes=memory_bytes,
        free_milli=np.full(len(uuids), WHOLE, dtype=np.int64),
        free_bytes=memory_bytes.copy(),
        generation=np.ones(len(uuids), dtype=np.int64),
        hosts=_build_host_columns(nodes),
        layouts=layouts,
    )


def _build_host_columns(nodes: Sequence[TraceNode]) -> HostColumns | None:
    """Build the columns of processors and main memory, where every node says what it has of both.

    A column has no value for "unknown": one node without figures turns the check off for all.
    """
    cpu_milli: list[int] = []
    memory_bytes: list[int] = []
    for node in nodes:
        if node.cpu_milli is None or node.host_bytes is None:
            return None
        cpu_milli.append(node.cpu_milli)
        memory_bytes.append(node.host_bytes)
    cpu = _build_column(cpu_milli)
    memory = _build_column(memory_bytes)
    return HostColumns(cpu, memory, cpu.copy(), memory.copy())


def _build_column(values: Iterable[int]) -> Ints:
    return np.fromiter(values, dtype=np.int64)
