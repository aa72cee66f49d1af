"""Logins under way: what the pool must remember between a login's first step and its last.

Strangers make them, so they are few, short and hold no token; the oldest give way.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.units import NANOS_PER_SECOND
from gpupool.signon.tables import attempts
from gpupool.store.database import Store

#: A person finds the password in that time.
CODE_SECONDS: Final = 600
#: RFC 8628 leaves it to the provider; Keycloak and Entra ID give 10 to 15 minutes.
LONGEST_DEVICE_SECONDS: Final = 1800
#: More than people log in within ten minutes.
MOST: Final = 5000


@dataclass(frozen=True)
class LoginAttempt:
    """A login under way, by its secret `state` or handle."""

    provider_id: int
    kind: str
    nonce: str = ""
    verifier: str = ""
    device_code: str = ""
    browser_sha256: str = ""
    return_path: str = "/"
    interval_seconds: int = 0
    seconds: int = CODE_SECONDS


def hash_secret(text: str) -> str:
    """Return the SHA-256 of a random text; 256 random bits need no salt."""
    return hashlib.sha256(text.encode()).hexdigest()


def save_attempt(store: Store, secret: str, attempt: LoginAttempt) -> None:
    """Remember a login under its secret; forget those that ended, and the oldest beyond 5,000."""
    with store.write() as write:
        write.execute(attempts.delete().where(attempts.c.expires_ns <= write.now_ns))
        count = write.execute(sa.select(sa.func.count()).select_from(attempts)).scalar_one()
        if count >= MOST:
            oldest = sa.select(attempts.c.id).order_by(attempts.c.expires_ns)
            excess = write.execute(oldest.limit(count - MOST + 1)).scalars().all()
            write.execute(attempts.delete().where(attempts.c.id.in_(excess)))
        row: dict[str, Any] = {
            "id": hash_secret(secret),
            "provider_id": attempt.provider_id,
            "kind": attempt.kind,
            "nonce": attempt.nonce,
            "verifier": attempt.verifier,
            "device_code": attempt.device_code,
            "browser_sha256": attempt.browser_sha256,
            "return_path": attempt.return_path,
            "interval_ns": attempt.interval_seconds * NANOS_PER_SECOND,
            "polled_ns": write.now_ns,
            "expires_ns": write.now_ns + attempt.seconds * NANOS_PER_SECOND,
        }
        write.execute(attempts.insert().values(**row))


def take_attempt(store: Store, secret: str, kind: str) -> sa.Row[Any] | None:
    """Take a login out: it serves once. None where it is unknown, over or taken already."""
    mine = sa.and_(attempts.c.id == hash_secret(secret), attempts.c.kind == kind)
    with store.write() as write:
        row = write.execute(sa.select(attempts).where(mine)).one_or_none()
        if row is None or row.expires_ns <= write.now_ns:
            return None
        write.execute(attempts.delete().where(mine))
    return row


def begin_poll(store: Store, secret: str, kind: str) -> tuple[sa.Row[Any], bool] | None:
    """Return the login and whether the provider may be asked now.

    None where it is unknown or over.
    """
    mine = sa.and_(attempts.c.id == hash_secret(secret), attempts.c.kind == kind)
    with store.write() as write:
        row = write.execute(sa.select(attempts).where(mine)).one_or_none()
        if row is None or row.expires_ns <= write.now_ns:
            return None
        is_due = write.now_ns - row.polled_ns >= row.interval_ns
        if is_due:
            write.execute(attempts.update().where(mine).values(polled_ns=write.now_ns))
    return row, is_due


def slow_down(store: Store, secret: str) -> None:
    """Ask five seconds less often, as RFC 8628, 3.5 wants of a client that is too fast."""
    mine = attempts.c.id == hash_secret(secret)
    longer = attempts.c.interval_ns + 5 * NANOS_PER_SECOND
    with store.write() as write:
        write.execute(attempts.update().where(mine).values(interval_ns=longer))
