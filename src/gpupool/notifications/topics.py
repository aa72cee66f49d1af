"""What a subscription may be about, and which events of the log are about it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final


class Topic(StrEnum):
    JOB_ENDED = "job-ended"
    JOB_FAILED = "job-failed"
    JOB_PLACED = "job-placed"
    JOB_STARTED = "job-started"
    JOB_REQUEUED = "job-requeued"
    #: An attempt failed, and another one follows.
    JOB_RETRIED = "job-retried"
    #: A move for the sake of larger free space is over.
    JOB_MOVED = "job-moved"
    #: The job of a user that left has another owner.
    JOB_HANDED_OVER = "job-handed-over"
    #: The promised start of a job is another than was told last.
    PROMISE_MOVED = "promise-moved"
    #: Of no event: the sender looks how long jobs wait.
    JOB_WAITING = "job-waiting"
    #: An idle policy warned of, or took, something of a job.
    JOB_IDLE = "job-idle"
    SCHEDULE_PAUSED = "schedule-paused"
    #: An instant of a schedule passed without its job.
    SCHEDULE_FAILED = "schedule-failed"
    #: Of no event: the sender looks when tokens of service accounts expire.
    TOKEN_EXPIRING = "token-expiring"
    #: An advice policy changed the share of a running job, or gave it back.
    JOB_ADVISED = "job-advised"
    BUDGET_CROSSED = "budget-crossed"
    CARD_FAILED = "card-failed"
    NODE_SILENT = "node-silent"
    RESERVATION_ENDED = "reservation-ended"
    #: Of no event: the sender looks when reservations begin.
    RESERVATION_BEGINS = "reservation-begins"


class Scope(StrEnum):
    """Whose events a subscription is about."""

    MINE = "mine"
    TENANT = "tenant"
    POOL = "pool"


#: Topics of single jobs.
JOB_TOPICS: Final = frozenset(
    {
        Topic.JOB_ENDED,
        Topic.JOB_FAILED,
        Topic.JOB_PLACED,
        Topic.JOB_STARTED,
        Topic.JOB_REQUEUED,
        Topic.JOB_RETRIED,
        Topic.JOB_MOVED,
        Topic.JOB_HANDED_OVER,
        Topic.JOB_WAITING,
        Topic.JOB_IDLE,
        Topic.PROMISE_MOVED,
        Topic.JOB_ADVISED,
    }
)
SCHEDULE_TOPICS: Final = frozenset({Topic.SCHEDULE_PAUSED, Topic.SCHEDULE_FAILED})
#: Topics of what a user has: the scope `mine` has no others.
OWN_TOPICS: Final = JOB_TOPICS | SCHEDULE_TOPICS | {Topic.TOKEN_EXPIRING}
#: Topics of no event, each the kind of its occurrences.
LOOKED_TOPICS: Final = frozenset(
    {Topic.JOB_WAITING, Topic.TOKEN_EXPIRING, Topic.RESERVATION_BEGINS}
)
#: Topics of the pool's machines, which belong to no tenant.
POOL_TOPICS: Final = frozenset({Topic.CARD_FAILED, Topic.NODE_SILENT})

_BY_KIND: Final[Mapping[str, tuple[Topic, ...]]] = {
    "job.ended": (Topic.JOB_ENDED, Topic.JOB_FAILED),
    "job.placed": (Topic.JOB_PLACED,),
    "job.running": (Topic.JOB_STARTED,),
    "job.requeued": (Topic.JOB_REQUEUED,),
    "job.retried": (Topic.JOB_RETRIED,),
    "job.moved": (Topic.JOB_MOVED,),
    "job.handed-over": (Topic.JOB_HANDED_OVER,),
    "schedule.handed-over": (Topic.JOB_HANDED_OVER,),
    "reservation.handed-over": (Topic.JOB_HANDED_OVER,),
    "job.promise-moved": (Topic.PROMISE_MOVED,),
    "schedule.paused": (Topic.SCHEDULE_PAUSED,),
    "schedule.run": (Topic.SCHEDULE_FAILED,),
    "job.idle-warned": (Topic.JOB_IDLE,),
    "job.idle-shrunk": (Topic.JOB_IDLE,),
    "job.idle-suspended": (Topic.JOB_IDLE,),
    "job.idle-stopped": (Topic.JOB_IDLE,),
    "job.idle-return-waits": (Topic.JOB_IDLE,),
    "job.advice-applied": (Topic.JOB_ADVISED,),
    "job.advice-proposed": (Topic.JOB_ADVISED,),
    "job.advice-returned": (Topic.JOB_ADVISED,),
    "job.advice-return-waits": (Topic.JOB_ADVISED,),
    "budget.crossed": (Topic.BUDGET_CROSSED,),
    "device.health": (Topic.CARD_FAILED,),
    "node.silent": (Topic.NODE_SILENT,),
    "reservation.ended": (Topic.RESERVATION_ENDED,),
}
#: Those of single jobs, whose users hear of them.
JOB_KINDS: Final = frozenset(
    kind for kind, topics in _BY_KIND.items() if kind.startswith("job.") and JOB_TOPICS & {*topics}
)
#: Those of what became another user's, which their data name.
HANDOVER_KINDS: Final = frozenset(
    kind for kind, topics in _BY_KIND.items() if Topic.JOB_HANDED_OVER in topics
)
#: Those of schedules, whose users hear of them.
SCHEDULE_KINDS: Final = frozenset(
    kind for kind, topics in _BY_KIND.items() if SCHEDULE_TOPICS & {*topics}
)
#: Outcomes of an instant at which a schedule meant to submit and did not; `skipped` is its rule.
_UNMET: Final = frozenset({"missed", "refused"})
#: States of a job that did not come to its own end.
_FAILURES: Final = frozenset({"failed", "lost"})


@dataclass(frozen=True)
class Occurrence:
    """Something that people may want to hear of.

    Attributes:
        cause: Its identity, as `event/7`: one subscription hears of it once.
        tenant_id: Whose it is; None: the pool's.
        user_id: Whose job, schedule or token it is about; None: it is about none.
    """

    cause: str
    kind: str
    subject: str
    data: Mapping[str, Any]
    at_ns: int
    tenant_id: int | None
    user_id: int | None = None


def list_kinds(topics: Iterable[str]) -> list[str]:
    """List the kinds of events that some of the topics are about."""
    wanted = set(topics)
    return sorted(kind for kind, about in _BY_KIND.items() if wanted.intersection(about))


def list_topics(occurrence: Occurrence) -> list[Topic]:
    """List the topics that an occurrence is about."""
    if occurrence.kind in LOOKED_TOPICS:
        return [Topic(occurrence.kind)]
    return [topic for topic in _BY_KIND.get(occurrence.kind, ()) if _is_about(topic, occurrence)]


def _is_about(topic: Topic, occurrence: Occurrence) -> bool:
    if topic is Topic.JOB_FAILED:
        return occurrence.data.get("state") in _FAILURES
    if topic is Topic.SCHEDULE_FAILED:
        return occurrence.data.get("outcome") in _UNMET
    if topic is Topic.CARD_FAILED:
        return occurrence.data.get("health") == "failed"
    if occurrence.kind == "job.advice-proposed":
        # The submission of a new job tells what is proposed for it.
        return bool(occurrence.data.get("is_running"))
    return True


def allows_topic(scope: Scope, topic: Topic) -> bool:
    """Whether a subscription of that scope may have that topic."""
    if scope is Scope.MINE:
        return topic in OWN_TOPICS
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
