"""What services look like to their callers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpupool.allocations.services.keyed_jobs import describe_lost_right
from gpupool.model.tenant import Permission, Principal
from gpupool.serving.costs import ServiceHolding
from gpupool.serving.replicas import ENDED, LIVE, READY, STARTING, WANTED
from gpupool.serving.routing import RequestLoad
from gpupool.serving.rows import Row
from gpupool.serving.traffic import RecentRequests
from gpupool.wire.serving.services import ReplicaOut, ServiceOut, ServiceRecent, ServiceRule

#: Replicas that an explanation names.
_NAMED = 3


def can_change(service: Row, caller: Principal) -> bool:
    """Whether a caller may change a service of the caller's scope."""
    return service.user_id == caller.user_id or caller.has_permission(Permission.MANAGE_TENANT)


def describe_service(
    service: Row,
    replicas: Sequence[Row],
    load: RequestLoad,
    measured: float | None,
    caller: Principal,
    why: Callable[[str], str],
    *,
    recent: RecentRequests | None,
    holding: ServiceHolding,
    with_replicas: bool,
) -> ServiceOut:
    """Describe a service.

    Args:
        service: A row of `rows.SERVICE`.
        replicas: Its rows of `rows.REPLICA`.
        load: Requests under way.
        measured: The load by the service's measure; None: unknown.
        caller: For this user.
        why: Returns why a job waits.
        recent: Requests of the last minutes; None: there was none.
        holding: What its replicas hold.
        with_replicas: List them.
    """
    live = [one for one in replicas if one.state in LIVE]
    listed = list[ReplicaOut]()
    if with_replicas:
        for one in sorted(replicas, key=lambda row: -row.number):
            listed.append(_describe_replica(service, one, load, why))
    return ServiceOut(
        id=service.public_id,
        name=service.name,
        tenant=service.tenant,
        user=service.user,
        template=service.template,
        state=service.state,
        explain=explain(service, replicas, why),
        path=f"/services/{service.name}/",
        rule=ServiceRule.model_validate(service.rule),
        port=service.port,
        desired=0 if service.state == "deleting" else service.desired,
        ready=sum(one.state == READY for one in live),
        live=len(live),
        load=measured,
        waiting=load.count_waiting(service.id),
        recent=None if recent is None else _describe_recent(recent),
        gpu_milli=holding.gpu_milli,
        cost_per_hour_micro=holding.cost_micro,
        currency=holding.currency,
        command=service.body["launch"]["argv"] if can_change(service, caller) else [],
        replicas=listed,
        scaled_ns=service.scaled_ns,
        created_ns=service.created_ns,
    )


def _describe_recent(recent: RecentRequests) -> ServiceRecent:
    return ServiceRecent(
        seconds=round(recent.seconds),
        requests=recent.requests,
        errors=recent.errors,
        per_second=round(recent.requests / recent.seconds, 4),
        p50_seconds=_round(recent.p50_seconds),
        p95_seconds=_round(recent.p95_seconds),
    )


def _round(seconds: float | None) -> float | None:
    # Estimates from buckets: a millisecond is more than they know.
    return None if seconds is None else round(seconds, 3)


def _describe_replica(
    service: Row, replica: Row, load: RequestLoad, why: Callable[[str], str]
) -> ReplicaOut:
    return ReplicaOut(
        number=replica.number,
        state=replica.state,
        job=replica.job,
        job_state=replica.job_state,
        port=replica.port,
        requests=load.count_replica(service.id, replica.number),
        reason=replica.reason if replica.state == ENDED else _find_reason(service, replica, why),
        created_ns=replica.created_ns,
        ready_ns=replica.ready_ns,
        ended_ns=replica.ended_ns,
    )


def explain(service: Row, replicas: Sequence[Row], why: Callable[[str], str]) -> str:
    """Say how many replicas are healthy, and why the others are not."""
    if service.state == "deleting":
        left = sum(one.state != ENDED for one in replicas)
        return f"is removed once its replicas have ended: {left} left"
    ready = sum(one.state == READY for one in replicas)
    parts = [f"{ready} of {service.desired} healthy"]
    if service.desired == 0:
        parts = ["scaled to 0: the next request starts a replica"]
    away = describe_lost_right(service)
    if away:
        parts.append(away)
    others = [one for one in replicas if one.state in (WANTED, STARTING)]
    for one in others[:_NAMED]:
        parts.append(f"replica {one.number} {_find_reason(service, one, why)}")
    if len(others) > _NAMED:
        parts.append(f"and {len(others) - _NAMED} more")
    missing = service.desired - ready - len(others)
    if missing > 0 and service.failures and not away:
        last = max(one.number for one in replicas)
        reason = next(one.reason for one in replicas if one.number == last)
        parts.append(
            f"{missing} start after a pause: replica {last} failed soon after its start ({reason})"
        )
    return "; ".join(parts)


def _find_reason(service: Row, replica: Row, why: Callable[[str], str]) -> str:
    if replica.state == WANTED:
        return f"waits: {service.reason}" if service.reason else "is submitted next"
    if replica.state == STARTING and replica.job_state == "pending":
        return f"waits: {why(replica.job) or 'no room yet'}"
    if replica.state == STARTING:
        return f"is not healthy yet: {replica.reason or 'it is starting'}"
    return str(replica.reason)
