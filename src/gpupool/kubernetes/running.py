"""Entries of ledgers as the scheduler sees jobs that run: what each holds, since when, and whether it may be taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gpupool.kubernetes.gangs import expected, job_name
from gpupool.kubernetes.objects import Entry, EntryState, GpuNode
from gpupool.kubernetes.pods import Pod
from gpupool.model.claim import Shape
from gpupool.model.gang import MEMBER
from gpupool.scheduling.snapshot import Running

NS = 10**9


class RunningJobs:
    """By node, so that what changed on one is all that is read anew."""

    def __init__(self) -> None:
        self._by_node: dict[str, list[Running]] = {}
        self._rows: dict[str, Mapping[str, int]] = {}
        self._made: dict[str, dict[tuple[str, str], _Made]] = {}
        """By node and entry, what was made of it: mostly one entry of many is another."""

    def note(self, node: GpuNode, pods: Mapping[str, Pod], rows: Mapping[str, int]) -> None:
        """The node's entries as they are now; `rows` are its cards' places in the columns."""
        before = self._made.get(node.name, {}) if self._rows.get(node.name) == rows else {}
        made = {
            entry.key: _as_before(before.get(entry.key), entry, pods.get(entry.uid), rows) for entry in node.entries
        }
        self._rows[node.name] = rows
        self._made[node.name] = made
        self._by_node[node.name] = [one.running for one in made.values() if one.running is not None]

    def keep_only(self, nodes: Iterable[str]) -> None:
        """Forget every other node."""
        kept = set(nodes)
        for known in (self._by_node, self._rows, self._made):
            for name in known.keys() - kept:
                del known[name]

    def all(self) -> tuple[Running, ...]:
        """In the order of the nodes' names."""
        return tuple(one for name in sorted(self._by_node) for one in self._by_node[name])


class _Made(NamedTuple):
    entry: Entry
    pod: Pod | None
    running: Running | None


def _as_before(before: _Made | None, entry: Entry, pod: Pod | None, rows: Mapping[str, int]) -> _Made:
    if before is not None and before.pod is pod and before.entry == entry:
        return before
    return _Made(entry, pod, _running(entry, pod, rows))


def _running(entry: Entry, pod: Pod | None, rows: Mapping[str, int]) -> Running | None:
    """None for an entry whose card its node does not show: nothing of it can be given to anybody."""
    if any(seat.device not in rows for seat in entry.seats):
        return None
    started = (pod.started_ns or pod.created_ns) if pod else 0
    limit = pod.max_seconds if pod else None
    job, ends = job_name(entry.uid, entry.container), _ends(entry, pod)
    alone = pod is not None and len(pod.asks) == 1 and pod.gang == entry.gang
    return Running(
        job=job,
        tenant=entry.tenant,
        priority=entry.priority,
        rows=tuple(rows[seat.device] for seat in entry.seats),
        milli=tuple(seat.gpu_milli for seat in entry.seats),
        sizes=tuple(seat.memory_bytes for seat in entry.seats),
        shape=_shape(entry, pod),
        started_ns=started,
        ends_ns=None if limit is None else started + limit * NS,
        preemptible=pod is not None and pod.preemptible and not (ends or entry.leaving_for),
        gang=entry.gang,
        # who leaves for nobody frees its seats for everybody: nobody else has to leave for them
        leaving_for=entry.leaving_for or (job if ends else ""),
        reservation=entry.reservation or None,
        # a pod with several claims leaves whole, and a member to come cannot be counted on: then the gang does too
        role=MEMBER if alone and entry.gang else "",
        least=pod.gang_minimum if alone and entry.gang and pod is not None else None,
    )


def _ends(entry: Entry, pod: Pod | None) -> bool:
    """Whether its seats come back by themselves; those of a member to come are kept."""
    return entry.state is EntryState.DRAINING or (not expected(entry.uid) if pod is None else pod.deleting)


def _shape(entry: Entry, pod: Pod | None) -> Shape:
    """As it was asked; of a pod that is gone, as it is held."""
    for number, ask in enumerate(pod.asks if pod else ()):
        if pod is not None and ask.container == entry.container:
            return pod.shape(number)
    seat = entry.seats[0]
    return Shape(seat.gpu_milli or 1, seat.memory_bytes, len(entry.seats), sharing=entry.sharing)
