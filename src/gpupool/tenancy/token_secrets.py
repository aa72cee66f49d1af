"""The text of tokens and of sessions: making it, reading it, comparing it.

`gpp_<id>_<secret>` is a token, `gps_<id>_<secret>` the cookie of a session. The id finds the row,
the secret is 256 random bits of which only the SHA-256 is stored. Knows no database.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import NotLoggedIn
from gpupool.base.ids import new_id

Randomness = Callable[[int], bytes]
#: The id is one of `base.ids.new_id`; 64 hexadecimal digits are 256 bits.
_TOKEN = re.compile(r"gpp_(t-[0-9a-hjkmnp-tv-z]{10})_([0-9a-f]{64})")
_SESSION = re.compile(r"gps_(s-[0-9a-hjkmnp-tv-z]{10})_([0-9a-f]{64})")
#: The first letters of the text, by the letter that its id begins with.
_MARKS = {"t": "gpp", "s": "gps"}


@dataclass(frozen=True)
class TokenSecret:
    """A token, or the cookie of a session, as its bearer holds it."""

    id: str
    secret: str

    @property
    def text(self) -> str:
        return f"{_MARKS[self.id[0]]}_{self.id}_{self.secret}"

    @property
    def sha256(self) -> str:
        # One round without salt: 256 random bits cannot be guessed from a table.
        return hashlib.sha256(self.secret.encode()).hexdigest()


def new_secret(randomness: Randomness = secrets.token_bytes, kind: str = "t") -> TokenSecret:
    """Make the text of a token, or with the kind `s` that of a session."""
    return TokenSecret(new_id(kind, randomness), randomness(32).hex())


def parse_token(text: str) -> TokenSecret | None:
    """Return the token's two halves; None when it cannot be one of ours."""
    return _parse(_TOKEN, text)


def parse_session(text: str) -> TokenSecret | None:
    """Return the two halves of a session's cookie; None when it cannot be one of ours."""
    return _parse(_SESSION, text)


def _parse(expression: re.Pattern[str], text: str) -> TokenSecret | None:
    # A header may have 64 KiB; the expression sees only what could match.
    found = expression.fullmatch(text.strip()) if len(text) < 256 else None
    return TokenSecret(found.group(1), found.group(2)) if found else None


def is_same_secret(given: TokenSecret, stored_sha256: str) -> bool:
    """Return whether the secret is the stored one; takes as long wherever the two differ."""
    return hmac.compare_digest(given.sha256, stored_sha256)


def is_alive(row: sa.Row[Any], now_ns: int) -> bool:
    return row.revoked_ns is None and (row.expires_ns is None or row.expires_ns > now_ns)


def make_refused_token() -> NotLoggedIn:
    return NotLoggedIn(
        "the token is unknown, expired, revoked or its user is disabled",
        hint="ask an admin for a new one: gpupool token create --user NAME",
    )
