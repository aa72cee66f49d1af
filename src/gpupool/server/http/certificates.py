"""Checks how long the certificate of the server holds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from gpupool.base.certificate_dates import read_validity
from gpupool.base.health import Check, CheckFinding, fail, warn, well

#: Days before its end from which on it is said.
SOON_DAYS: Final = 14


def certificate_check(path: Path, now_ns: Callable[[], int]) -> Check:
    """Make the check that the certificate that is loaded now holds.

    Reads the file once: a renewed one counts after a restart.
    """
    begin, end = read_validity(path.read_text(encoding="ascii", errors="replace"))

    def look() -> CheckFinding:
        now = datetime.fromtimestamp(now_ns() / 1e9, UTC)
        following = f"renew {path}, then  gpupool restart"
        if now >= end:
            return fail(f"{path} expired at {end:%Y-%m-%dT%H:%M:%SZ}: clients refuse it", following)
        if now < begin:
            said = f"{path} does not hold before {begin:%Y-%m-%dT%H:%M:%SZ}: clients refuse it"
            return fail(said, "set the clock right (NTP)")
        days = (end - now).days
        said = f"{path} holds until {end:%Y-%m-%d}, {days} days"
        return warn(said, following) if days < SOON_DAYS else well(said)

    return look
