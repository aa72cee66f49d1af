"""The service of metering: whose rows a caller sees, and when old rows are folded."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadDuration, BadOption, UnknownTenant
from gpupool.metering.tables import usage_hours
from gpupool.model.tenant import UserRole
from tests.support.metering_books import (
    DAY,
    Pool,
    granted,
    principal,
    report,
    rows,
    shared_card,
)


@pytest.mark.parametrize("role", [UserRole.TENANT_ADMIN, UserRole.VIEWER])
def test_a_tenant_sees_its_own_rows_only_and_all_of_its_names(
    any_pool: Pool, role: UserRole
) -> None:
    shared_card(any_pool)
    answer = report(any_pool, "user", who=principal(0, role))
    assert rows(answer, "tenant", "user", "card_milliseconds") == [
        ("tenant", "vision", "ada", 30_000)
    ]
    assert answer.capacity_card_milliseconds == 30_000
    assert answer.closes
    assert "one tenant's part of the books" in answer.rule


def test_a_user_is_named_and_the_rest_of_its_tenant_is_one_row(any_pool: Pool) -> None:
    for person in (0, 1, 1, 2):
        any_pool.grant(person, 0, 100, 1)
    any_pool.time.forward(10)
    by_user = report(any_pool, "user", who=principal(0))
    assert rows(by_user, "user", "card_milliseconds") == [
        ("tenant", "others", 2000),
        ("tenant", "ada", 1000),
    ]
    by_job = report(any_pool, "job", who=principal(0))
    assert rows(by_job, "user", "job", "card_milliseconds") == [
        ("tenant", "others", None, 2000),
        ("tenant", "ada", "j-0000000001", 1000),
    ]
    assert rows(report(any_pool, "tenant", who=principal(0)), "card_milliseconds") == [
        ("tenant", 3000)
    ]


def test_another_tenant_is_as_unknown_as_a_missing_one(any_pool: Pool) -> None:
    for name in ("nlp", "nobody", "a\x00b"):
        with pytest.raises(UnknownTenant):
            report(any_pool, "tenant", tenant=name, who=principal(0))
    with pytest.raises(UnknownTenant):
        report(any_pool, "tenant", tenant="a\x00b")


def test_an_admin_can_ask_for_one_tenant(any_pool: Pool) -> None:
    shared_card(any_pool)
    answer = report(any_pool, "tenant", tenant="nlp")
    assert rows(answer, "tenant", "card_milliseconds") == [("tenant", "nlp", 20_000)]
    assert answer.capacity_card_milliseconds == 20_000


def test_a_range_that_ends_before_it_begins_is_refused(pool: Pool) -> None:
    with pytest.raises(BadDuration, match=r"would end .* before it begins"):
        report(pool, "tenant", since=10, until=5)


def test_a_range_in_the_future_is_refused(pool: Pool) -> None:
    with pytest.raises(BadDuration, match="would begin in the future"):
        report(pool, "tenant", since=1000, until=2000)


def test_an_unknown_grouping_is_refused_with_the_known_ones(pool: Pool) -> None:
    with pytest.raises(BadOption, match="cannot report by 'colour'"):
        report(pool, "colour")


def test_heartbeats_fold_a_little_at_a_time_and_then_not_for_an_hour(pool: Pool) -> None:
    granted(pool)
    pool.metering.record_samples([])
    pool.time.forward(30 * DAY)
    pool.metering.record_samples([])
    hours = pool.count(usage_hours)
    assert 0 < hours <= 28 * 24
    while not pool.metering.fold_old_rows():
        pass
    pool.time.forward(1800)
    assert pool.metering.fold_old_rows()
    assert pool.count(usage_hours) == 28 * 24
