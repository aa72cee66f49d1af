"""Routes of reports and live usage, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request

from gpupool.base.errors import BadDuration
from gpupool.base.units import parse_since
from gpupool.fleet.service import Fleet
from gpupool.metering.prices import parse_prices
from gpupool.metering.service import LIVE_LIMIT, Metering
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.access import require
from gpupool.wire.report import LiveOut, ReportOut

router = APIRouter(tags=["metering"])

DEFAULT_SINCE = "24h"
_NS_HIGHEST = 253_402_300_799 * 10**9  # the last second of the year 9999


def service(request: Request) -> Metering:
    metering: Metering = request.app.state.metering
    return metering


def cards(request: Request) -> Fleet:
    fleet: Fleet = request.app.state.fleet
    return fleet


Service = Annotated[Metering, Depends(service)]
Cards = Annotated[Fleet, Depends(cards)]
Reader = Annotated[Principal, Depends(require(Permission.READ))]
Instant = Annotated[str | None, Query(max_length=64)]


@router.get("/report")
def get_report(
    metering: Service,
    caller: Reader,
    since: Annotated[
        str, Query(max_length=64, description="2h (ago), 2026-11, 2026-11-20, an ISO time, or nanoseconds since 1970")
    ] = DEFAULT_SINCE,
    until: Annotated[str, Query(max_length=64, description="the same, or now")] = "now",
    by: Annotated[
        list[str] | None,
        Query(max_length=5, description="tenant, project, user, job, card; repeated or with commas; default tenant"),
    ] = None,
    tenant: Annotated[str | None, Query(max_length=63, description="only this tenant's rows")] = None,
    price: Annotated[
        list[str] | None, Query(max_length=100, description="MODEL:PRICE per card and hour; * is every other model")
    ] = None,
    rule: Annotated[str, Query(max_length=32, description="max, compute-only or memory-only")] = "max",
    currency: Annotated[str | None, Query(max_length=8, pattern=r"^[A-Za-z]+$")] = None,
) -> ReportOut:
    """Who held what, and what became of the rest. The rows add up to the capacity exactly."""
    prices = parse_prices(price or [], rule, currency)
    words = [word for text in by or ["tenant"] for word in text.split(",") if word]
    now_ns = metering.now_ns()
    since_ns, until_ns = instant_ns(since, now_ns), instant_ns(until, now_ns)
    return metering.report(caller, since_ns, until_ns, words, tenant=tenant, prices=prices)


@router.get("/usage")
def get_usage(
    metering: Service,
    fleet: Cards,
    caller: Reader,
    limit: Annotated[int, Query(ge=1, le=1000)] = LIVE_LIMIT,
) -> LiveOut:
    """What is held and used now. An admin sees the pool, others their tenant and the cards it is on."""
    return metering.usage(caller, fleet.usage, limit)


def instant_ns(text: str, now_ns: int) -> int:
    """Nanoseconds since 1970 of a point in time as people or programs write it. Raises BadDuration.

    >>> instant_ns("1m", 3_600_000_000_000), instant_ns("now", 7), instant_ns("1970-01-01T00:00:01Z", 7)
    (3540000000000, 7, 1000000000)
    """
    text = text.strip()
    if text == "now":
        return now_ns
    if re.fullmatch(r"[0-9]{10,}", text):
        return _bounded(text, int(text))
    try:
        instant = parse_since(text, datetime.fromtimestamp(now_ns // 10**9, UTC))
    except OverflowError:
        raise _no_time(text) from None
    return _bounded(text, int(instant.timestamp()) * 10**9 + instant.microsecond * 1000)


def _bounded(text: str, instant: int) -> int:
    if not 0 <= instant <= _NS_HIGHEST:
        raise _no_time(text)
    return instant


def _no_time(text: str) -> BadDuration:
    return BadDuration(f"{text!r} is no time between 1970 and 9999", hint="write it like 2h, 2026-11 or 2026-11-20")
