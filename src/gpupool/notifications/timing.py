"""When a message may be sent: quiet hours, digests, and the pauses between attempts. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from gpupool.base.errors import BadOption

NANOS: Final = 1_000_000_000
#: Seconds before each further attempt; after the last one a delivery is dead, 27 hours later.
RETRY_SECONDS: Final = (2, 10, 30, 120, 600, 1800, 3600, 7200, 14400, 28800, 43200)
_HOURS: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


@dataclass(frozen=True)
class QuietHours:
    """A part of each day, by the clocks of a time zone; it may pass midnight."""

    begin: time
    end: time
    zone: tzinfo

    def find_end(self, at_ns: int) -> int:
        """Return when the quiet hours end in which an instant lies; itself outside of them."""
        now = datetime.fromtimestamp(at_ns / NANOS, self.zone)
        if not self._contains(now.time()):
            return at_ns
        day = now.date()
        if self.end <= now.time():
            day += timedelta(days=1)
        end = datetime.combine(day, self.end, self.zone)
        return max(at_ns, round(end.timestamp()) * NANOS)

    def _contains(self, clock: time) -> bool:
        if self.begin < self.end:
            return self.begin <= clock < self.end
        return clock >= self.begin or clock < self.end


def parse_zone(name: str) -> tzinfo:
    """Find a time zone by its name in the tz database. Raises BadOption."""
    if name == "UTC":
        return UTC  # Also on a machine without that database.
    try:
        return ZoneInfo(name)
    # The name is a path for zoneinfo: a folder or a NUL are other errors than a missing file.
    except (KeyError, ValueError, OSError):
        raise BadOption(
            f"{name[:80]!r} is no time zone", hint="write it like Europe/Berlin, Asia/Shanghai, UTC"
        ) from None


def parse_quiet_hours(text: str, zone: str) -> QuietHours | None:
    """Parse `22:00-07:00`; an empty text is no quiet hours. Raises BadOption."""
    if not text:
        return None
    found = _HOURS.fullmatch(text)
    if found is None:
        raise BadOption(f"{text!r} are no quiet hours", hint="write them like 22:00-07:00")
    hours = [int(part) for part in found.groups()]
    begin = time(hours[0], hours[1])
    end = time(hours[2], hours[3])
    if begin == end:
        raise BadOption(f"{text!r} is a whole day", hint="quiet hours end before they begin again")
    return QuietHours(begin, end, parse_zone(zone))


def read_quiet_hours(text: str, zone: str) -> QuietHours | None:
    """Read quiet hours that were parsed before: by UTC, if this machine lacks their zone now.

    Its tz database may be another one than at the subscription; messages are sent all the same.
    """
    try:
        return parse_quiet_hours(text, zone)
    except BadOption:
        return parse_quiet_hours(text, "UTC")


def compute_due(at_ns: int, digest_s: int, quiet: QuietHours | None, now_ns: int = 0) -> int:
    """Return when the message about an occurrence is to be sent.

    A digest ends at a multiple of its length, so that all occurrences of one come together.

    Args:
        at_ns: When it happened.
        digest_s: The length of a digest; 0: none.
        quiet: None: it is sent at any time.
        now_ns: When it is found, which is later where no server ran meanwhile.
    """
    if digest_s:
        length = digest_s * NANOS
        at_ns = -(-at_ns // length) * length
    return at_ns if quiet is None else quiet.find_end(max(at_ns, now_ns))


def compute_retry(attempts: int, now_ns: int, quiet: QuietHours | None = None) -> int | None:
    """Return when to try once more after so many attempts, from 1; None: no more."""
    if attempts > len(RETRY_SECONDS):
        return None
    at_ns = now_ns + RETRY_SECONDS[attempts - 1] * NANOS
    return at_ns if quiet is None else quiet.find_end(at_ns)
