"""A replay written down as the pool would have logged it: what `eventlog` reads back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gpupool.model.claim import Rejection
from gpupool.model.quota import Quota
from gpupool.scheduling.snapshot import Eviction, Placement
from gpupool.simulation.trace import Node
from gpupool.simulation.world import Job, World


class Recorder:
    """A watcher that writes a replay down as the pool would have logged it; `lines` are ready for a file."""

    def __init__(self, nodes: Sequence[Node], quotas: Mapping[str, Quota], weights: Mapping[str, int]) -> None:
        self._events: list[dict[str, Any]] = []
        for node in nodes:
            for index, (model, size) in enumerate(node.cards):
                data = {"model": model, "memory_bytes": size, "state": "adopted"}
                self._write(0, "device.added", f"{node.name}:{index}", None, data)
        for name, quota in quotas.items():
            said = {**asdict(quota), "weight": weights.get(name, 1)}
            self._write(0, "tenant.created", name, name, {"quota": said})

    def lines(self) -> Iterator[str]:
        return (json.dumps(event) for event in self._events)

    def decisions(self) -> list[tuple[int, str, str, tuple[str, ...]]]:
        """(instant, job, node, cards) of every placement, in order."""
        placed = (event for event in self._events if event["kind"] == "job.placed")
        return [(one["at_ns"], one["data"]["name"], one["data"]["node"], tuple(one["data"]["cards"])) for one in placed]

    def moved(self, world: World, before_ns: int, now_ns: int) -> None:
        pass

    def came(self, jobs: Sequence[Job], refused: Rejection | None, now_ns: int) -> None:
        if refused is not None:  # a pool writes nothing of what it does not take in
            return
        for role, members in _roles(jobs).items():
            first = members[0]
            data = {
                "name": role,
                "count": len(members),
                "share": str(first.shape),
                "shape": {name: value for name, value in asdict(first.shape).items() if value},
                "priority": first.key.priority,
                "preemptible": first.preemptible,
                **({"gang": first.gang.id} if first.gang else {}),
                **({"max_seconds": first.key.seconds} if first.key.seconds else {}),
            }
            self._write(now_ns, "job.submitted", first.id, first.key.tenant, data)

    def started(self, job: Job, placement: Placement, now_ns: int) -> None:
        cards = [seat.device for seat in placement.seats]
        data = {"name": job.id, "node": placement.node, "cards": cards}
        self._write(now_ns, "job.placed", job.id, job.key.tenant, data)

    def ended(self, job: Job, now_ns: int) -> None:
        self._write(now_ns, "job.ended", job.id, job.key.tenant, {"name": job.id, "state": "done"})

    def evicted(self, job: Job, eviction: Eviction, now_ns: int) -> None:
        data = {"name": job.id, "reason": eviction.why}
        self._write(now_ns, "job.requeued", job.id, job.key.tenant, data)

    def _write(self, at_ns: int, kind: str, subject: str, tenant: str | None, data: Mapping[str, Any]) -> None:
        seq = len(self._events) + 1
        event = {"seq": seq, "at_ns": at_ns, "kind": kind, "subject": subject, "tenant": tenant, "data": dict(data)}
        self._events.append(event)


def _roles(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    """The members by the name under which they were submitted."""
    if jobs[0].gang is None:
        return {job.id: [job] for job in jobs}
    role_of = jobs[0].gang.role_of()
    roles: dict[str, list[Job]] = {}
    for job in jobs:
        roles.setdefault(role_of[job.id].name, []).append(job)
    return roles
