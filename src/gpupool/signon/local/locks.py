"""For how long wrong passwords in a row lock a login."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.errors import LoginLocked
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.signon.tables import passwords
from gpupool.store.database import WriteTransaction

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


def count_failure(write: WriteTransaction, row: sa.Row[Any]) -> None:
    """Count a wrong password of an account, and lock it where there are too many.

    Args:
        row: of the account, with the name and tenant of its user, read in this transaction.
    """
    failures = row.failures + 1
    locked = write.now_ns + lock_seconds(failures) * NANOS_PER_SECOND
    values = {"failures": failures, "locked_until_ns": locked}
    write.execute(passwords.update().where(passwords.c.user_id == row.user_id).values(**values))
    if failures >= FREE_FAILURES:
        data = {"failures": failures, "seconds": lock_seconds(failures)}
        write.event("user.locked", row.name, tenant_id=row.tenant_id, data=data)
