"""Which occurrences a subscription hears of."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.notifications.topics import (
    JOB_TOPICS,
    Occurrence,
    Scope,
    Topic,
    allows_topic,
    is_within,
    list_topics,
)


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
        (occur("job.placed"), []),
    ],
)
def test_an_event_is_about_its_topics(occurrence: Occurrence, topics: list[Topic]) -> None:
    assert list_topics(occurrence) == topics


def test_a_scope_has_the_topics_that_belong_to_it() -> None:
    assert {one for one in Topic if allows_topic(Scope.MINE, one)} == JOB_TOPICS
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


def test_an_event_of_the_pool_is_in_no_tenants_scope() -> None:
    assert not is_within(Scope.TENANT, 1, 7, occur("node.silent", tenant=None, user=None))
