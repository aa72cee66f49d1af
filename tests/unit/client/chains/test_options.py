"""Dependencies and retries as a person types them."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadDependency, BadRetry
from gpupool.client.chains.options import parse_dependencies, parse_retries


def test_jobs_are_named_with_commas_or_again() -> None:
    found = parse_dependencies(["prep,load:any", "sweep.1:fail"])
    assert [(one["job"], one["condition"]) for one in found] == [
        ("prep", "ok"),
        ("load", "any"),
        ("sweep.1", "fail"),
    ]


@pytest.mark.parametrize("text", ["", ":ok", "prep:done", "prep,,load", ",".join("a" * 65)])
def test_what_is_no_dependency_is_refused(text: str) -> None:
    with pytest.raises(BadDependency):
        parse_dependencies([text])


def test_a_pause_has_a_bound_that_is_no_shorter() -> None:
    assert parse_retries("3", None) == {"retries": 3}
    expected = {"retries": 3, "retry_first_seconds": 30, "retry_most_seconds": 1200}
    assert parse_retries("3", "30s:20m") == expected
    assert parse_retries(1, "20m")["retry_most_seconds"] == 1200


@pytest.mark.parametrize(
    ("retries", "backoff"),
    [("x", None), ("101", None), ("-1", None), (None, "30s"), ("1", "2m:30s")],
)
def test_what_is_no_rule_of_retries_is_refused(retries: str | None, backoff: str | None) -> None:
    with pytest.raises(BadRetry):
        parse_retries(retries, backoff)
