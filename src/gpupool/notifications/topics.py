"""What a subscription may be about, and which events of the log are about it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Topic(StrEnum):
    JOB_ENDED = "job-ended"
    JOB_FAILED = "job-failed"
    JOB_REQUEUED = "job-requeued"
    #: Of no event: the sender looks how long jobs wait.
    JOB_WAITING = "job-waiting"
    #: An idle policy warned of, or took, something of a job.
    JOB_IDLE = "job-idle"
    #: An advice policy changed the share of a running job, or gave it back.
    JOB_ADVISED = "job-advised"
    BUDGET_CROSSED = "budget-crossed"
    CARD_FAILED = "card-failed"
    NODE_SILENT = "node-silent"
    RESERVATION_ENDED = "reservation-ended"


class Scope(StrEnum):
    """Whose events a subscription is about."""

    MINE = "mine"
    TENANT = "tenant"
    POOL = "pool"


#: Topics of single jobs: the scope `mine` has no others.
JOB_TOPICS: Final = frozenset(
    {
        Topic.JOB_ENDED,
        Topic.JOB_FAILED,
        Topic.JOB_REQUEUED,
        Topic.JOB_WAITING,
        Topic.JOB_IDLE,
        Topic.JOB_ADVISED,
    }
)
#: Topics of the pool's machines, which belong to no tenant.
POOL_TOPICS: Final = frozenset({Topic.CARD_FAILED, Topic.NODE_SILENT})

_BY_KIND: Final[Mapping[str, tuple[Topic, ...]]] = {
    "job.ended": (Topic.JOB_ENDED, Topic.JOB_FAILED),
    "job.requeued": (Topic.JOB_REQUEUED,),
    "job.idle-warned": (Topic.JOB_IDLE,),
    "job.idle-shrunk": (Topic.JOB_IDLE,),
    "job.idle-suspended": (Topic.JOB_IDLE,),
    "job.idle-stopped": (Topic.JOB_IDLE,),
    "job.idle-return-waits": (Topic.JOB_IDLE,),
    "job.advice-applied": (Topic.JOB_ADVISED,),
    "job.advice-returned": (Topic.JOB_ADVISED,),
    "job.advice-return-waits": (Topic.JOB_ADVISED,),
    "budget.crossed": (Topic.BUDGET_CROSSED,),
    "device.health": (Topic.CARD_FAILED,),
    "node.silent": (Topic.NODE_SILENT,),
    "reservation.ended": (Topic.RESERVATION_ENDED,),
}
#: Kinds of events that some topic is about.
EVENT_KINDS: Final = frozenset(_BY_KIND)
#: Those of single jobs, whose users hear of them.
JOB_KINDS: Final = frozenset(kind for kind, topics in _BY_KIND.items() if JOB_TOPICS & {*topics})
#: States of a job that did not come to its own end.
_FAILURES: Final = frozenset({"failed", "lost"})


@dataclass(frozen=True)
class Occurrence:
    """Something that people may want to hear of.

    Attributes:
        cause: Its identity, as `event/7`: one subscription hears of it once.
        tenant_id: Whose it is; None: the pool's.
        user_id: Whose job it is about; None: it is about no job.
    """

    cause: str
    kind: str
    subject: str
    data: Mapping[str, Any]
    at_ns: int
    tenant_id: int | None
    user_id: int | None = None


def list_topics(occurrence: Occurrence) -> list[Topic]:
    """List the topics that an occurrence is about."""
    if occurrence.kind == Topic.JOB_WAITING:
        return [Topic.JOB_WAITING]
    return [topic for topic in _BY_KIND.get(occurrence.kind, ()) if _is_about(topic, occurrence)]


def _is_about(topic: Topic, occurrence: Occurrence) -> bool:
    if topic is Topic.JOB_FAILED:
        return occurrence.data.get("state") in _FAILURES
    if topic is Topic.CARD_FAILED:
        return occurrence.data.get("health") == "failed"
    return True


def allows_topic(scope: Scope, topic: Topic) -> bool:
    """Whether a subscription of that scope may have that topic."""
    if scope is Scope.MINE:
        return topic in JOB_TOPICS
    return scope is Scope.POOL or topic not in POOL_TOPICS


def is_within(scope: Scope, tenant_id: int, user_id: int, occurrence: Occurrence) -> bool:
    """Whether an occurrence belongs to a subscription's scope.

    Args:
        tenant_id, user_id: those of the subscription.
    """
    if scope is Scope.POOL:
        return True
    if occurrence.tenant_id != tenant_id:
        return False
    return scope is Scope.TENANT or occurrence.user_id == user_id
