"""For how long wrong passwords in a row lock a login."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.errors import LoginLocked
from gpupool.base.units import NANOS_PER_SECOND

#: A person mistypes a password that often; a guesser needs more.
FREE_FAILURES: Final = 5
FIRST_LOCK_SECONDS: Final = 30
#: Longer, and a stranger could keep a person out.
LONGEST_LOCK_SECONDS: Final = 900


def lock_seconds(failures: int) -> int:
    """Return for how long so many failures in a row lock a login."""
    if failures < FREE_FAILURES:
        return 0
    # Ten doublings are beyond the longest.
    doubled = FIRST_LOCK_SECONDS << min(failures - FREE_FAILURES, 10)
    return min(LONGEST_LOCK_SECONDS, doubled)


def refuse_locked(row: sa.Row[Any], now_ns: int) -> None:
    """Raise LoginLocked while the lock of the account lasts."""
    left = row.locked_until_ns - now_ns
    if left > 0:
        seconds = -(-left // NANOS_PER_SECOND)
        raise LoginLocked(
            f"{row.failures} wrong passwords in a row: the login is locked for {seconds} s",
            hint="wait; on the pool's machine an admin gets in without a password",
            retry_after_seconds=seconds,
        )
