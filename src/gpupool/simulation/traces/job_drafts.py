"""Jobs of an event log while it is read, before the trace has them as arrivals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupool.model.claim import CardSelector, Shape, SharingKind, TopologyConstraint
from gpupool.model.isolation.claim_needs import read_needs
from gpupool.simulation.traces.trace import JobArrival


@dataclass
class JobDraft:
    """A job while the log is read."""

    name: str
    at_ns: int
    shape: Shape
    tenant: str
    priority: int
    limit_seconds: int | None
    members: int = 1
    gang: str = ""
    preemptible: bool = False
    placed_ns: int | None = None
    run_ns: int | None = None

    def build_arrival(self, end_ns: int) -> JobArrival | None:
        """Return the arrival, None for a job that was never placed; `end_ns` ends the log."""
        if self.run_ns is None and self.placed_ns is None:
            return None
        run_ns = self.run_ns if self.run_ns is not None else end_ns - (self.placed_ns or 0)
        return JobArrival(
            job=self.name,
            at_ns=self.at_ns,
            shape=self.shape,
            run_ns=max(1, run_ns),
            tenant=self.tenant,
            priority=self.priority,
            limit_seconds=self.limit_seconds,
            gang=self.gang,
            members=self.members,
            preemptible=self.preemptible,
        )


@dataclass
class JobArray:
    """A submission of many equal jobs.

    A member becomes a draft at its first placement, as the pool itself creates it then: an array
    of a million would otherwise fill the memory.
    """

    data: Mapping[str, Any]
    at_ns: int
    count: int
    #: By index.
    members: dict[str, JobDraft] = field(default_factory=dict)

    def has_index(self, index: str) -> bool:
        # `int` would take ` 7` and digits of other scripts, which are no names of members.
        return index.isascii() and index.isdigit() and int(index) < self.count


def parse_shape(data: Mapping[str, Any]) -> Shape:
    """Build the shape that a submission's event describes; absent fields are those of `Shape`.

    Raises:
        KeyError, TypeError, ValueError: for fields that are no part of a shape.
    """
    given = dict(data)
    within = given.pop("within", None)
    sharing = SharingKind(given.pop("sharing", SharingKind.FIXED))
    labels: list[tuple[str, str]] = []
    for key, value in given.pop("labels", ()):
        labels.append((str(key), str(value)))
    # JSON has lists where a shape has tuples: equal shapes must be equal keys of a dict.
    selector: dict[str, Any] = {}
    for key, value in (given.pop("selector", None) or {}).items():
        selector[key] = tuple(map(str, value)) if isinstance(value, list) else value
    needs = read_needs(given.pop("needs", None))
    return Shape(
        **given,
        labels=tuple(labels),
        sharing=sharing,
        within=TopologyConstraint(**within) if within else TopologyConstraint(),
        selector=CardSelector(**selector),
        needs=needs,
    )
