"""Months and quarters in a named time zone, as whole hours of the books. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gpupool.base.errors import BadOption
from gpupool.metering.books import HOUR_S

PeriodKind = Literal["month", "quarter"]
PERIOD_KINDS: tuple[str, ...] = get_args(PeriodKind)
#: Months of one period.
_LENGTH = {"month": 1, "quarter": 3}
_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])")


@dataclass(frozen=True)
class Period:
    """A stretch of whole hours, with the name that people give it."""

    name: str
    start_s: int
    end_s: int


def parse_zone(name: str) -> ZoneInfo:
    """Parse the name of a time zone whose days begin at whole hours of UTC.

    Raises:
        BadOption: there is no such zone, or it is off by a part of an hour.

    >>> parse_zone("Asia/Shanghai").key
    'Asia/Shanghai'
    """
    # A path would be opened by the library: only names go on.
    plain = re.fullmatch(r"[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*", name)
    try:
        zone = ZoneInfo(name) if plain and len(name) <= 63 else None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zone = None
    if zone is None:
        raise BadOption(
            f"unknown time zone {name[:63]!r}",
            hint="name it as the tz database does: UTC, Asia/Shanghai, Europe/Berlin",
        )
    # Both halves of a year: summer time moves some zones by half an hour.
    for month in (1, 7):
        offset = datetime(2026, month, 1, tzinfo=zone).utcoffset()
        seconds = 0 if offset is None else int(offset.total_seconds())
        if seconds % HOUR_S:
            raise BadOption(
                f"days of {name} begin {seconds % HOUR_S // 60} minutes after whole hours of UTC; "
                "the books are kept by whole hours",
                hint="name a zone of whole hours, as UTC or Asia/Shanghai",
            )
    return zone


def find_month(name: str, zone: ZoneInfo) -> Period:
    """Find a month by its name. Raises BadOption.

    >>> find_month("2026-11", ZoneInfo("UTC")).end_s - find_month("2026-11", ZoneInfo("UTC")).start_s
    2592000
    """
    found = _MONTH.fullmatch(name)
    if found is None or not 1971 <= int(found[1]) <= 9998:
        raise BadOption(f"{name[:20]!r} is no month", hint="write it as 2026-11")
    return _build_period(int(found[1]), int(found[2]), 1, zone)


def find_period(second: int, kind: str, zone: ZoneInfo) -> Period:
    """Find the month or quarter around an instant.

    >>> find_period(1_795_000_000, "quarter", ZoneInfo("UTC")).name
    '2026-Q4'
    """
    local = datetime.fromtimestamp(second, zone)
    length = _LENGTH[kind]
    first = (local.month - 1) // length * length + 1
    return _build_period(local.year, first, length, zone)


def _build_period(year: int, month: int, length: int, zone: ZoneInfo) -> Period:
    name = f"{year:04}-{month:02}" if length == 1 else f"{year:04}-Q{(month + 2) // 3}"
    after = month + length
    end = (year + 1, after - 12) if after > 12 else (year, after)
    return Period(name, _begin_month(year, month, zone), _begin_month(*end, zone))


def _begin_month(year: int, month: int, zone: ZoneInfo) -> int:
    return int(datetime(year, month, 1, tzinfo=zone).timestamp())
