"""Routes of tenants and quotas: which generation a quota may replace, and what a caller sees."""

from __future__ import annotations

import pytest
from fastapi import Request, Response
from starlette.datastructures import State

from gpupool.base.errors import BadOption, StaleGeneration
from gpupool.tenancy.routes import get_quota, put_cohort, put_quota, whoami
from gpupool.wire.people import QuotaIn

from .conftest import House

TEN = QuotaIn(nominal_milli=10_000)


def put(house: House, if_match: str | None) -> str:
    response = Response()
    put_quota(house.tenancy, house.owner, "default", TEN, response, if_match)
    return response.headers["etag"]


def test_a_quota_is_put_with_the_etag_that_was_read(house: House) -> None:
    response = Response()
    get_quota(house.tenancy, house.owner, "default", response)
    read = response.headers["etag"]
    written = put(house, read)
    assert written != read
    with pytest.raises(StaleGeneration):
        put(house, read)
    assert put(house, f" {written} ") != written


@pytest.mark.parametrize("if_match", [None, "*", " * "])
def test_a_quota_is_put_whatever_it_is_where_no_generation_is_named(
    house: House, if_match: str | None
) -> None:
    assert put(house, None) != put(house, if_match)


@pytest.mark.parametrize("if_match", ["", 'W/"1"', "x", '"-1"', '"²"', '"' + "9" * 19 + '"'])
def test_an_etag_of_something_else_is_refused(house: House, if_match: str) -> None:
    with pytest.raises(BadOption, match="is no ETag of a quota"):
        put(house, if_match)
    with pytest.raises(BadOption, match="is no ETag of a quota"):
        put_cohort(house.tenancy, house.owner, "lab", TEN, Response(), if_match)


def test_whoami_says_the_callers_rights_and_its_tenants_quota(house: House) -> None:
    worker = house.user("worker", "blue", role="viewer")
    house.tenancy.put_quota(house.owner, "blue", TEN)
    app = type("App", (), {"state": State({"store": house.store})})()
    found = whoami(Request({"type": "http", "app": app}), house.tenancy, worker)
    assert (found.user, found.tenant, found.permissions) == ("worker", "blue", ["read"])
    assert (found.quota.nominal_milli, found.pool, found.unix_user) == (10_000, "p-test", None)
