"""Routes of reports and live usage, below /api/v1. Thin: parse, ask the service, answer."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Depends, Query, Request

from gpupool.api.late_routes import Router
from gpupool.base.errors import BadDuration
from gpupool.base.units import NANOS_PER_SECOND, parse_since
from gpupool.fleet.service import FleetService
from gpupool.metering.prices import parse_prices
from gpupool.metering.service import LIVE_LIMIT, MeteringService
from gpupool.model.tenant import Permission, Principal
from gpupool.tenancy.access import require_caller
from gpupool.wire.report import LiveOut, ReportOut

router = Router(tags=["metering"])

DEFAULT_SINCE = "24h"
_NS_HIGHEST = 253_402_300_799 * NANOS_PER_SECOND  # the last second of the year 9999


def get_metering(request: Request) -> MeteringService:
    metering: MeteringService = request.app.state.metering
    return metering


def get_fleet(request: Request) -> FleetService:
    fleet: FleetService = request.app.state.fleet
    return fleet


Service = Annotated[MeteringService, Depends(get_metering)]
Cards = Annotated[FleetService, Depends(get_fleet)]
Reader = Annotated[Principal, Depends(require_caller(Permission.READ))]
Instant = Annotated[str | None, Query(max_length=64)]


@router.get("/report")
def get_report(
    metering: Service,
    caller: Reader,
    since: Annotated[
        str,
        Query(
            max_length=64,
            description="2h (ago), 2026-11, 2026-11-20, an ISO time, or nanoseconds since 1970",
        ),
    ] = DEFAULT_SINCE,
    until: Annotated[str, Query(max_length=64, description="the same, or now")] = "now",
    by: Annotated[
        list[str] | None,
        Query(
            max_length=5,
            description="tenant, project, user, job, card; repeated or with commas; default tenant",
        ),
    ] = None,
    tenant: Annotated[
        str | None, Query(max_length=63, description="only this tenant's rows")
    ] = None,
    price: Annotated[
        list[str] | None,
        Query(max_length=100, description="MODEL:PRICE per card and hour; * is every other model"),
    ] = None,
    cpu_price: Annotated[
        str | None, Query(max_length=32, description="per processor and hour")
    ] = None,
    memory_price: Annotated[
        str | None, Query(max_length=32, description="per GiB of main memory and hour")
    ] = None,
    rule: Annotated[
        str, Query(max_length=32, description="max, compute-only or memory-only")
    ] = "max",
    currency: Annotated[str | None, Query(max_length=8, pattern=r"^[A-Za-z]+$")] = None,
) -> ReportOut:
    """What each tenant held, and what became of the rest. The rows add up to the capacity exactly."""
    prices = parse_prices(price or [], rule, currency, cpu=cpu_price, memory=memory_price)
    words: list[str] = []
    for text in by or ["tenant"]:
        words += filter(None, text.split(","))
    now_ns = metering.read_now_ns()
    since_ns = parse_instant_ns(since, now_ns)
    until_ns = parse_instant_ns(until, now_ns)
    return metering.make_report(caller, since_ns, until_ns, words, tenant=tenant, prices=prices)


@router.get("/usage")
def get_usage(
    metering: Service,
    fleet: Cards,
    caller: Reader,
    limit: Annotated[int, Query(ge=1, le=1000)] = LIVE_LIMIT,
) -> LiveOut:
    """What is held and used now. An admin sees the pool, others their tenant and the cards it is
    on."""
    return metering.read_usage(caller, fleet.get_usage, limit)


def parse_instant_ns(text: str, now_ns: int) -> int:
    """Parse a point in time as people or programs write it to nanoseconds since 1970.

    Raises:
        BadDuration: for no point in time, or one before 1970 or after 9999.

    >>> parse_instant_ns("1m", 3_600_000_000_000), parse_instant_ns("now", 7)
    (3540000000000, 7)
    >>> parse_instant_ns("1970-01-01T00:00:01Z", 7)
    1000000000
    """
    text = text.strip()
    if text == "now":
        return now_ns
    if re.fullmatch(r"[0-9]{10,}", text):
        return _check_instant(text, int(text))
    try:
        instant = parse_since(text, datetime.fromtimestamp(now_ns // NANOS_PER_SECOND, UTC))
    except OverflowError:
        raise _refuse_instant(text) from None
    return _check_instant(
        text, int(instant.timestamp()) * NANOS_PER_SECOND + instant.microsecond * 1000
    )


def _check_instant(text: str, instant: int) -> int:
    if not 0 <= instant <= _NS_HIGHEST:
        raise _refuse_instant(text)
    return instant


def _refuse_instant(text: str) -> BadDuration:
    return BadDuration(
        f"{text!r} is no time between 1970 and 9999", hint="write it like 2h, 2026-11 or 2026-11-20"
    )
