"""The instants of a cron expression by the clocks of a time zone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from gpupool.base.errors import BadSchedule
from gpupool.base.units import NANOS_PER_SECOND

#: Fields of an expression: minute, hour, day, month, day of the week.
_FIELDS: Final = 5
#: Instants that are counted one by one; more were missed than any person looks at.
_COUNTED: Final = 10_000


@dataclass(frozen=True)
class DueInstants:
    """The instants from one on that have come."""

    #: The last of them.
    last_ns: int
    #: How many came before it.
    earlier: int
    #: The first one that has not come.
    next_ns: int


@dataclass(frozen=True)
class CronRule:
    """A cron expression and the time zone whose clocks it is about.

    Where a clock is set back, an instant of a fixed hour comes once; where it is set forward over
    one, it comes right after.
    """

    expression: str
    time_zone: str

    def check(self, now_ns: int) -> None:
        """Raise BadSchedule for an expression that never comes, or a zone that is not known."""
        if len(self.expression.split()) != _FIELDS:
            count = len(self.expression.split())
            raise BadSchedule(
                f"--cron {self.expression!r}: got {count} fields, expected 5",
                hint="write minute, hour, day, month and weekday:  --cron '0 2 * * *'",
                fields=[{"field": "cron", "problem": f"got {count} fields, expected 5"}],
            )
        field = "time_zone"
        try:
            ZoneInfo(self.time_zone)
            field = "cron"
            self.find_next(now_ns)
        except (CronSimError, KeyError, ValueError, OSError) as error:
            raise BadSchedule(
                f"--cron {self.expression!r} in time zone {self.time_zone!r} is not understood: "
                f"{error}",
                hint="write it like  --cron '30 2 * * 1-5' --tz Europe/Berlin",
                fields=[{"field": field, "problem": str(error)}],
            ) from None
        except StopIteration:
            raise BadSchedule(
                f"--cron {self.expression!r} has no instant in the next 50 years",
                hint="look at its day and month",
                fields=[{"field": "cron", "problem": "no instant in the next 50 years"}],
            ) from None

    def find_next(self, after_ns: int) -> int:
        """Find the first instant after a time, in ns."""
        # In an hour that comes for the second time, CronSim begins with the instant of the first.
        return next(at_ns for at_ns in self._walk(after_ns) if at_ns > after_ns)

    def _walk(self, from_ns: int, *, reverse: bool = False) -> Iterator[int]:
        zone = ZoneInfo(self.time_zone)
        start = datetime.fromtimestamp(from_ns // NANOS_PER_SECOND, UTC).astimezone(zone)
        for found in CronSim(self.expression, start, reverse):
            yield int(found.timestamp()) * NANOS_PER_SECOND

    def list_next(self, after_ns: int, count: int) -> list[int]:
        """List the first instants after a time, in ns. Raises BadSchedule."""
        self.check(after_ns)
        found = list[int]()
        for _ in range(count):
            try:
                after_ns = self.find_next(after_ns)
            except StopIteration:
                break  # A leap day of a weekday may come once in 50 years.
            found.append(after_ns)
        return found

    def list_due(self, first_ns: int, now_ns: int) -> DueInstants:
        """Find the last instant up to now, from one on that has come."""
        last_ns = first_ns
        earlier = 0
        next_ns = self.find_next(first_ns)
        while next_ns <= now_ns and earlier < _COUNTED:
            last_ns = next_ns
            earlier += 1
            next_ns = self.find_next(next_ns)
        if next_ns <= now_ns:
            next_ns = self.find_next(now_ns)
            last_ns = next(at_ns for at_ns in self._walk(next_ns, reverse=True) if at_ns <= now_ns)
        return DueInstants(last_ns, earlier, next_ns)
