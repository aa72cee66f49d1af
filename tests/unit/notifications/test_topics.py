"""Which occurrences a subscription hears of."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from gpupool.notifications.topics import (
    OWN_TOPICS,
    Occurrence,
    Scope,
    Topic,
    allows_topic,
    is_within,
    list_kinds,
    list_topics,
)
from gpupool.terminal.parser import build_parser
from gpupool.wire.notifications import TopicName


def occur(kind: str, tenant: int | None = 1, user: int | None = 7, **data: Any) -> Occurrence:
    return Occurrence("event/1", kind, "j-1", data, 0, tenant, user)


@pytest.mark.parametrize(
    ("occurrence", "topics"),
    [
        (occur("job.ended", state="done"), [Topic.JOB_ENDED]),
        (occur("job.ended", state="stopped"), [Topic.JOB_ENDED]),
        (occur("job.ended", state="failed"), [Topic.JOB_ENDED, Topic.JOB_FAILED]),
        (occur("job.ended", state="lost"), [Topic.JOB_ENDED, Topic.JOB_FAILED]),
        (occur("device.health", health="failed"), [Topic.CARD_FAILED]),
        (occur("device.health", health="ok"), []),
        (occur("job-waiting"), [Topic.JOB_WAITING]),
        (occur("job.submitted"), []),
        (occur("job.placed"), [Topic.JOB_PLACED]),
        (occur("job.running"), [Topic.JOB_STARTED]),
        (occur("job.retried"), [Topic.JOB_RETRIED]),
        (occur("job.moved"), [Topic.JOB_MOVED]),
        (occur("job.handed-over"), [Topic.JOB_HANDED_OVER]),
        (occur("job.promise-moved"), [Topic.PROMISE_MOVED]),
        (occur("schedule.paused"), [Topic.SCHEDULE_PAUSED]),
        (occur("schedule.run", outcome="refused"), [Topic.SCHEDULE_FAILED]),
        (occur("schedule.run", outcome="missed"), [Topic.SCHEDULE_FAILED]),
        (occur("schedule.run", outcome="submitted"), []),
        (occur("schedule.run", outcome="skipped"), []),
        (occur("token-expiring"), [Topic.TOKEN_EXPIRING]),
        (occur("reservation-begins"), [Topic.RESERVATION_BEGINS]),
    ],
)
def test_an_event_is_about_its_topics(occurrence: Occurrence, topics: list[Topic]) -> None:
    assert list_topics(occurrence) == topics


def test_a_scope_has_the_topics_that_belong_to_it() -> None:
    assert {one for one in Topic if allows_topic(Scope.MINE, one)} == OWN_TOPICS
    assert not allows_topic(Scope.TENANT, Topic.NODE_SILENT)
    assert allows_topic(Scope.TENANT, Topic.BUDGET_CROSSED)
    assert all(allows_topic(Scope.POOL, one) for one in Topic)


@pytest.mark.parametrize(
    ("scope", "tenant", "user", "expected"),
    [
        (Scope.MINE, 1, 7, True),
        (Scope.MINE, 1, 8, False),
        (Scope.MINE, 2, 7, False),  # a job of one's past in another tenant
        (Scope.TENANT, 1, 8, True),
        (Scope.TENANT, 2, 7, False),
        (Scope.POOL, 2, 8, True),
    ],
)
def test_a_subscription_hears_of_what_is_in_its_scope(
    scope: Scope, tenant: int, user: int, expected: bool
) -> None:
    assert is_within(scope, tenant, user, occur("job.ended")) is expected


def test_only_events_of_the_wanted_topics_are_read() -> None:
    assert list_kinds(["job-failed", "job-waiting"]) == ["job.ended"]
    assert list_kinds(["schedule-failed", "card-failed"]) == ["device.health", "schedule.run"]
    assert list_kinds([]) == []


def test_the_wire_the_command_line_and_the_rules_have_the_same_topics() -> None:
    assert {str(topic) for topic in Topic} == {*get_args(TopicName)}
    verbs = build_parser("notify").children
    assert verbs is not None
    options = next(one for one in verbs.choices["add"]._actions if one.dest == "on")
    assert {*str(options.help).partition(";")[0].split(", ")} == {str(topic) for topic in Topic}


def test_an_event_of_the_pool_is_in_no_tenants_scope() -> None:
    assert not is_within(Scope.TENANT, 1, 7, occur("node.silent", tenant=None, user=None))
