"""The books as a report reads them: ranges, groups and names."""

from __future__ import annotations

import pytest

from gpupool.metering import reading
from gpupool.metering.books import RollupMarks
from gpupool.metering.reading import ReportQuery
from tests.support.metering_books import (
    Pool,
    report,
    rows,
    shared_card,
)


def test_grouping_by_nothing_is_one_row_of_each_kind(pool: Pool) -> None:
    shared_card(pool)
    assert rows(report(pool), "card_milliseconds") == [
        ("tenant", 50_000),
        ("idle", 190_000),
        ("overhead", 0),
        ("unmanaged", 0),
    ]


def test_by_job_names_the_job_and_its_owners(any_pool: Pool) -> None:
    shared_card(any_pool)
    assert rows(report(any_pool, "job"), "tenant", "project", "user", "job", "job_name")[:2] == [
        ("tenant", "vision", "default", "ada", "j-0000000001", "job-1"),
        ("tenant", "nlp", "default", "cyd", "j-0000000002", "job-2"),
    ]


def test_a_part_of_an_interval_counts_as_the_part_that_is_asked_for(any_pool: Pool) -> None:
    shared_card(any_pool)
    answer = report(any_pool, "tenant", since=50, until=70)
    assert rows(answer, "tenant", "card_milliseconds")[:2] == [
        ("tenant", "vision", 6000),
        ("tenant", "nlp", 5000),
    ]
    assert answer.capacity_card_milliseconds == 40_000


@pytest.mark.parametrize(
    ("by", "columns"),
    [
        ((), ()),
        (("card",), ()),
        (("user", "tenant"), ("tenant_id", "user_id")),
        (("user", "project"), ("tenant_id", "project_id", "user_id")),
        (("job",), ("tenant_id", "project_id", "user_id", "job_id")),
    ],
)
def test_key_columns_are_in_one_order_whatever_the_words(
    by: tuple[str, ...], columns: tuple[str, ...]
) -> None:
    assert ReportQuery(0, 1, by, RollupMarks()).key_columns == columns


def test_names_of_more_ids_than_one_statement_takes_are_read(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_IDS_AT_ONCE", 2)
    for number in range(5):
        pool.grant(number % 3, 0, 100, 1)
    pool.time.forward(10)
    answer = report(pool, "job")
    assert {row.job for row in answer.rows if row.job} == {f"j-{n:010d}" for n in range(1, 6)}
