"""Write a replay down as the event log that the pool would have written (`eventlog` reads it)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from gpupool.model.claim import Rejection, Shape
from gpupool.model.quota import Quota
from gpupool.scheduling.snapshot.plan import Eviction, JobPlacement
from gpupool.simulation.replay.world import SimulatedJob, SimulatedPool
from gpupool.simulation.traces.trace import TraceNode


class EventLogRecorder:
    """A watcher that keeps the events of a replay as the pool would have logged them."""

    def __init__(
        self, nodes: Sequence[TraceNode], quotas: Mapping[str, Quota], weights: Mapping[str, int]
    ) -> None:
        self._events: list[dict[str, Any]] = []
        for node in nodes:
            for index, (model, size) in enumerate(node.cards):
                data = {"model": model, "memory_bytes": size, "state": "adopted"}
                self._write_event(0, "device.added", f"{node.name}:{index}", None, data)
        for name, quota in quotas.items():
            limits = {**asdict(quota), "weight": weights.get(name, 1)}
            self._write_event(0, "tenant.created", name, name, {"quota": limits})

    def format_lines(self) -> Iterator[str]:
        return (json.dumps(event) for event in self._events)

    def list_placements(self) -> list[tuple[int, str, str, tuple[str, ...]]]:
        """Return (instant, job, node, cards) of every placement, in order."""
        placements: list[tuple[int, str, str, tuple[str, ...]]] = []
        for event in self._events:
            if event["kind"] == "job.placed":
                data = event["data"]
                placements.append(
                    (event["at_ns"], data["name"], data["node"], tuple(data["cards"]))
                )
        return placements

    def on_clock_advance(self, world: SimulatedPool, before_ns: int, now_ns: int) -> None:
        pass

    def on_arrival(
        self, jobs: Sequence[SimulatedJob], refused: Rejection | None, now_ns: int
    ) -> None:
        if refused is not None:  # a pool writes nothing of what it does not take in
            return
        for role, members in _group_by_role(jobs).items():
            first = members[0]
            data = {
                "name": role,
                "count": len(members),
                "share": str(first.shape),
                "shape": _describe_shape(first.shape),
                "priority": first.key.priority,
                "preemptible": first.preemptible,
                **({"gang": first.gang.id} if first.gang else {}),
                **({"max_seconds": first.key.seconds} if first.key.seconds else {}),
            }
            self._write_event(now_ns, "job.submitted", first.id, first.key.tenant, data)

    def on_start(self, job: SimulatedJob, placement: JobPlacement, now_ns: int) -> None:
        cards = [seat.device for seat in placement.seats]
        data = {"name": job.id, "node": placement.node, "cards": cards}
        self._write_event(now_ns, "job.placed", job.id, job.key.tenant, data)

    def on_end(self, job: SimulatedJob, now_ns: int) -> None:
        self._write_event(
            now_ns, "job.ended", job.id, job.key.tenant, {"name": job.id, "state": "done"}
        )

    def on_eviction(self, job: SimulatedJob, eviction: Eviction, now_ns: int) -> None:
        data = {"name": job.id, "reason": eviction.why}
        self._write_event(now_ns, "job.requeued", job.id, job.key.tenant, data)

    def _write_event(
        self, at_ns: int, kind: str, subject: str, tenant: str | None, data: Mapping[str, Any]
    ) -> None:
        seq = len(self._events) + 1
        event = {
            "seq": seq,
            "at_ns": at_ns,
            "kind": kind,
            "subject": subject,
            "tenant": tenant,
            "data": dict(data),
        }
        self._events.append(event)


def _describe_shape(shape: Shape) -> dict[str, Any]:
    """Describe a shape as a pool's log does; what is not given is left out."""
    fields = {**asdict(shape), "needs": shape.needs.write()}
    del fields["names_sharing"]
    # A claim without a card has 0 for these.
    always = ("gpu_milli", "count")
    return {name: value for name, value in fields.items() if value or name in always}


def _group_by_role(jobs: Sequence[SimulatedJob]) -> dict[str, list[SimulatedJob]]:
    """Group the members by the name under which they were submitted."""
    if jobs[0].gang is None:
        return {job.id: [job] for job in jobs}
    role_of = jobs[0].gang.map_roles()
    roles: dict[str, list[SimulatedJob]] = {}
    for job in jobs:
        roles.setdefault(role_of[job.id].name, []).append(job)
    return roles
