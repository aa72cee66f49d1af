"""Translates entries of ledgers into the scheduler's running jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.kubernetes.resources.gang import is_future_member, job_name
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState, GpuNode
from gpupool.kubernetes.resources.pod import Pod
from gpupool.model.claim import Shape
from gpupool.model.gang import MEMBER
from gpupool.scheduling import RunningJob


class RunningJobs:
    """Running jobs by node, so that a change of one node leaves the others as they are."""

    def __init__(self) -> None:
        self._by_node: dict[str, list[RunningJob]] = {}
        self._rows: dict[str, Mapping[str, int]] = {}
        #: By node and entry, what was made of it: mostly one entry of many is another.
        self._made: dict[str, dict[tuple[str, str], _ReadEntry]] = {}

    def note_ledger(self, node: GpuNode, pods: Mapping[str, Pod], rows: Mapping[str, int]) -> None:
        """Read the node's entries. `rows` are the positions of its cards in the columns."""
        # With other rows every running job names other cards, so nothing can be kept.
        before = self._made.get(node.name, {}) if self._rows.get(node.name) == rows else {}
        made = {}
        for entry in node.entries:
            made[entry.key] = _as_before(before.get(entry.key), entry, pods.get(entry.uid), rows)
        self._rows[node.name] = rows
        self._made[node.name] = made
        running = []
        for one in made.values():
            if one.running is not None:
                running.append(one.running)
        self._by_node[node.name] = running

    def keep_only(self, nodes: Iterable[str]) -> None:
        """Forget all other nodes."""
        kept = set(nodes)
        for known in (self._by_node, self._rows, self._made):
            for name in known.keys() - kept:
                del known[name]

    def all_jobs(self) -> tuple[RunningJob, ...]:
        """All running jobs, in the order of the nodes' names."""
        jobs = []
        for name in sorted(self._by_node):
            for one in self._by_node[name]:
                jobs.append(one)
        return tuple(jobs)


class _ReadEntry(NamedTuple):
    entry: Entry
    pod: Pod | None
    running: RunningJob | None


def _as_before(
    before: _ReadEntry | None, entry: Entry, pod: Pod | None, rows: Mapping[str, int]
) -> _ReadEntry:
    if before is not None and before.pod is pod and before.entry == entry:
        return before
    return _ReadEntry(entry, pod, _build_running_job(entry, pod, rows))


def _build_running_job(entry: Entry, pod: Pod | None, rows: Mapping[str, int]) -> RunningJob | None:
    """None for an entry with a card that its node does not report: its capacity cannot be
    used."""
    if any(seat.device not in rows for seat in entry.seats):
        return None
    started = (pod.started_ns or pod.created_ns) if pod else 0
    limit = pod.max_seconds if pod else None
    job = job_name(entry.uid, entry.container)
    ends = _ends_by_itself(entry, pod)
    alone = pod is not None and len(pod.asks) == 1 and pod.gang == entry.gang
    return RunningJob(
        job=job,
        tenant=entry.tenant,
        priority=entry.priority,
        rows=tuple(rows[seat.device] for seat in entry.seats),
        milli=tuple(seat.gpu_milli for seat in entry.seats),
        sizes=tuple(seat.memory_bytes for seat in entry.seats),
        shape=_find_shape(entry, pod),
        started_ns=started,
        ends_ns=None if limit is None else started + limit * NANOS_PER_SECOND,
        preemptible=pod is not None and pod.preemptible and not (ends or entry.leaving_for),
        gang=entry.gang,
        # Seats that drain without a beneficiary become free by themselves. The job then is its own
        # beneficiary, so that no other job is evicted to free what comes back anyway.
        beneficiary=entry.leaving_for or (job if ends else ""),
        reservation=entry.reservation or None,
        # Without a role the gang is evicted as a whole. So is one whose pods have several claims,
        # which leave together, and a member that does not exist cannot be counted on.
        role=MEMBER if alone and entry.gang else "",
        role_minimum=pod.gang_minimum if alone and entry.gang and pod is not None else None,
        slots=tuple(seat.partition for seat in entry.seats if seat.partition is not None),
    )


def _ends_by_itself(entry: Entry, pod: Pod | None) -> bool:
    """Whether its seats come back by themselves; those of a member to come are kept."""
    return entry.state is EntryState.DRAINING or (
        not is_future_member(entry.uid) if pod is None else pod.deleting
    )


def _find_shape(entry: Entry, pod: Pod | None) -> Shape:
    """Return the shape that the pod requested; without a pod, the shape of its seats."""
    if pod is not None:
        for number, ask in enumerate(pod.asks):
            if ask.container == entry.container:
                return pod.shape(number)
    seat = entry.seats[0]
    milli = seat.gpu_milli or 1
    if seat.partition is not None:
        return Shape(milli, None, len(entry.seats), profile=seat.partition.profile)
    return Shape(milli, seat.memory_bytes, len(entry.seats), sharing=entry.sharing)
