"""Labels of nodes and of claims that wait, which keep claims on nodes of their tenant's planes.

The labels of claims are in no row: what a tenant demands may change while its claims wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import sqlalchemy as sa

from gpupool.allocations.cache.pending_jobs import QueueEntry
from gpupool.model.claim import NETWORK_LABEL, Shape
from gpupool.model.gang import Gang, GangGroup, GangRole
from gpupool.network.planes.node_gate import NodeGate, read_gate
from gpupool.scheduling import RunningJob, WaitingClass

Label = tuple[str, str]


class PlaneLabels:
    """What the cache knows of planes. Its state is one value, which is replaced as a whole."""

    def __init__(self) -> None:
        self._gate = NodeGate()

    def load(self, connection: sa.Connection) -> None:
        """Read which nodes are ready for which tenant."""
        self._gate = read_gate(connection)

    def has_changed(self, connection: sa.Connection) -> bool:
        """Whether other nodes are ready than when it was last read."""
        return read_gate(connection) != self._gate

    @property
    def is_used(self) -> bool:
        """Whether planes decide anything in this pool."""
        return self._gate.is_used

    @property
    def has_guests(self) -> bool:
        """Whether the end of a job may change which nodes are ready."""
        return self._gate.has_guests

    @property
    def node_labels(self) -> Mapping[str, Mapping[str, str]]:
        """Labels of nodes, by name."""
        return self._gate.labels

    @property
    def needs(self) -> object:
        """What the labels of claims depend on; to be compared."""
        return self._gate.needs

    def restrict_entry(self, entry: QueueEntry) -> QueueEntry:
        """Return an entry of the queue that fits only on nodes that its tenant may get."""
        labels = self._find_labels(entry.key.tenant, entry.key.shape)
        if not labels:
            return entry
        key = entry.key._replace(shape=_restrict_shape(entry.key.shape, labels))
        gang = None if entry.gang is None else _restrict_gang(entry.gang, labels)
        return replace(entry, key=key, gang=gang)

    def restrict_class(self, waiting: WaitingClass) -> WaitingClass:
        """Return a class that fits only on nodes that its tenant may get."""
        labels = self._find_labels(waiting.tenant, waiting.shape)
        if not labels:
            return waiting
        gang = None if waiting.gang is None else _restrict_gang(waiting.gang, labels)
        return replace(waiting, shape=_restrict_shape(waiting.shape, labels), gang=gang)

    def restrict_running(self, job: RunningJob) -> RunningJob:
        """Return a running job that may move only to nodes that its tenant may get."""
        labels = self._find_labels(job.tenant, job.shape)
        return replace(job, shape=_restrict_shape(job.shape, labels)) if labels else job

    def _find_labels(self, tenant: str, shape: Shape) -> tuple[Label, ...]:
        return self._gate.find_labels(tenant, has_network=NETWORK_LABEL in shape.labels)


def _restrict_shape(shape: Shape, labels: tuple[Label, ...]) -> Shape:
    return replace(shape, labels=tuple(sorted({*shape.labels, *labels})))


def _restrict_gang(gang: Gang, labels: tuple[Label, ...]) -> Gang:
    return Gang(gang.id, _restrict_group(gang.root, labels), gang.members)


def _restrict_group(group: GangGroup, labels: tuple[Label, ...]) -> GangGroup:
    parts = list[GangRole | GangGroup]()
    for part in group.parts:
        if isinstance(part, GangRole):
            parts.append(replace(part, shape=_restrict_shape(part.shape, labels)))
        else:
            parts.append(_restrict_group(part, labels))
    return replace(group, parts=tuple(parts))
