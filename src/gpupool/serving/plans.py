"""What a change of a service's rule would do to its replicas. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gpupool.allocations.services.keyed_jobs import describe_lost_right
from gpupool.serving.replicas import LIVE, ReplicaFact, choose_victims
from gpupool.serving.routing import RequestLoad
from gpupool.serving.rows import Row
from gpupool.wire.serving.services import ReplicaEnd, ServicePlanOut, ServiceRule


def bound_desired(rule: ServiceRule, desired: int) -> int:
    """Return the number of replicas within the bounds of a rule."""
    return min(rule.max_replicas, max(rule.min_replicas, desired))


def plan_change(
    service: Row, replicas: Sequence[Row], rule: ServiceRule, load: RequestLoad
) -> ServicePlanOut:
    """Say which replicas would start and end at once under another rule; the load decides later.

    Args:
        service: A row of `rows.SERVICE`.
        replicas: Its rows of `rows.REPLICA`.
        rule: What its rule would be.
        load: Requests under way.
    """
    desired = bound_desired(rule, service.desired)
    is_away = service.state != "active" or bool(describe_lost_right(service))
    wanted = 0 if is_away else desired
    live = {one.number: one for one in replicas if one.state in LIVE}
    facts = [ReplicaFact(one.number, one.state) for one in live.values()]
    ends = list[ReplicaEnd]()
    for number in choose_victims(facts, len(live) - wanted):
        requests = load.count_replica(service.id, number)
        ends.append(ReplicaEnd(number=number, job=live[number].job, requests=requests))
    return ServicePlanOut(
        rule=rule,
        desired_before=service.desired,
        desired=desired,
        starts=max(0, wanted - len(live)),
        ends=ends,
    )
