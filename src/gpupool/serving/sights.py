"""What a look at a service has read, and what follows from it alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpupool.allocations.services.keyed_jobs import describe_lost_right
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.tenant import Principal, UserRole
from gpupool.serving.rows import Row
from gpupool.serving.scaling import LoadMeasure, Recommendation, ScalingRule
from gpupool.wire.serving.services import ServiceRule


@dataclass(frozen=True)
class ServiceSight:
    """A service as one look has read it; `agents` are those of the jobs that hold cards."""

    service: Row
    replicas: Sequence[Row]
    agents: Mapping[str, str] = field(default_factory=dict)

    @property
    def rule(self) -> ServiceRule:
        return ServiceRule.model_validate(self.service.rule)

    def list_states(self, *states: str) -> list[Row]:
        return [one for one in self.replicas if one.state in states]


@dataclass(frozen=True)
class ReplicaHealth:
    """What the checks of a replica found: `fault` is why it is not healthy, empty if it is."""

    fault: str
    failures: int


@dataclass(frozen=True)
class ServiceFacts:
    """What only the running server knows of a service.

    Attributes:
        measure: the load.
        waiting: requests that wait for a first replica.
        history: what earlier loads needed.
        health: by number, of the replicas that were checked.
        requests: by number, requests under way in it.
    """

    measure: LoadMeasure
    waiting: int = 0
    history: Sequence[Recommendation] = ()
    health: Mapping[int, ReplicaHealth] = field(default_factory=dict)
    requests: Mapping[int, int] = field(default_factory=dict)


def make_rule(rule: ServiceRule) -> ScalingRule:
    """Return the rule of decisions."""
    return ScalingRule(
        rule.min_replicas,
        rule.max_replicas,
        rule.effective_target,
        rule.up_seconds * NANOS_PER_SECOND,
        rule.down_seconds * NANOS_PER_SECOND,
    )


def is_drain_over(rule: ServiceRule, replica: Row, now_ns: int) -> bool:
    """Whether the time for the requests of a replica that ends is over."""
    if replica.drain_ns is None:
        return True
    return bool(now_ns - replica.drain_ns >= rule.drain_seconds * NANOS_PER_SECOND)


def make_key(service: Row, replica: Row) -> str:
    """Return the key under which the job of a replica is submitted."""
    return f"service/{service.public_id}/{replica.number}"


def make_owner(service: Row) -> Principal:
    """Return the owner of a service, which submits its jobs."""
    return Principal(
        service.user_id,
        service.user,
        service.tenant_id,
        service.tenant,
        UserRole(service.role),
        project=service.default_project,
    )


def count_wanted(service: Row) -> int:
    """Return how many replicas there should be: none once the service is removed or its owner may
    run no jobs.
    """
    if service.state != "active" or describe_lost_right(service):
        return 0
    return int(service.desired)
