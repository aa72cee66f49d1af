"""How long tokens live: the bounds of a one-time token, and of what a token makes."""

from __future__ import annotations

from typing import Final

from gpupool.base.errors import BadOption
from gpupool.base.units import NANOS_PER_SECOND, format_duration

#: A one-time token usually, and at most.
ONCE_SECONDS: Final = 600
ONCE_LONGEST_SECONDS: Final = 24 * 3600


def check_lifetime(seconds: int | None, bound_ns: int | None, now_ns: int) -> None:
    """Refuse a token that would outlive the one that makes it. Raises BadOption."""
    if seconds is None or bound_ns is None or now_ns + seconds * NANOS_PER_SECOND <= bound_ns:
        return
    left = max(0, bound_ns - now_ns) // NANOS_PER_SECOND
    raise BadOption(
        f"the token would live {format_duration(seconds)} and the one that makes it only "
        f"{format_duration(left)} more",
        hint="leave out --expires: it then ends with the token that made it",
        most_seconds=left,
    )


def choose_once_lifetime(seconds: int | None) -> int:
    """Return the seconds of a one-time token. Raises BadOption."""
    if seconds is not None and seconds > ONCE_LONGEST_SECONDS:
        raise BadOption(
            f"a one-time token lives at most {ONCE_LONGEST_SECONDS} s, not {seconds}",
            hint="leave it out",
        )
    return seconds or ONCE_SECONDS
