"""Tokens: how callers without a Unix socket prove who they are.

`gpp_<id>_<secret>`: the id finds the row, the secret is 256 random bits of which only the
SHA-256 is kept. Kinds: `api` until revoked or expired, `once` for one login, `session` from
a login. Knows no HTTP.
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

from gpupool.base.errors import BadOption, NotFound, NotLoggedIn
from gpupool.base.ids import new_id
from gpupool.model.tenant import Permission, Principal
from gpupool.store.database import Store, Write
from gpupool.tenancy.tables import tenants, tokens, users
from gpupool.tenancy.users import find_user, may_manage
from gpupool.wire.common import Page
from gpupool.wire.people import LoginOut, TokenIn, TokenOut

Randomness = Callable[[int], bytes]
SESSION_SECONDS = 12 * 3600
ONCE_SECONDS, ONCE_LONGEST_SECONDS = 600, 24 * 3600
_TOKEN = re.compile(r"gpp_(t-[0-9a-hjkmnp-tv-z]{10})_([0-9a-f]{64})")


@dataclass(frozen=True)
class Secret:
    """A token as its bearer holds it."""

    id: str
    secret: str

    @property
    def text(self) -> str:
        return f"gpp_{self.id}_{self.secret}"

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.secret.encode()).hexdigest()


def new_secret(randomness: Randomness = secrets.token_bytes) -> Secret:
    return Secret(new_id("t", randomness), randomness(32).hex())


def parse(text: str) -> Secret | None:
    """The token's two halves; None when it cannot be one of ours."""
    found = _TOKEN.fullmatch(text.strip()) if len(text) < 256 else None
    return Secret(found.group(1), found.group(2)) if found else None


def matches(given: Secret, stored_sha256: str) -> bool:
    """Whether the secret is the stored one; takes as long wherever the two differ."""
    return hmac.compare_digest(given.sha256, stored_sha256)


def alive(row: sa.Row[Any], now_ns: int) -> bool:
    return row.revoked_ns is None and (row.expires_ns is None or row.expires_ns > now_ns)


class Tokens:
    """Making, listing, revoking and exchanging tokens."""

    def __init__(self, store: Store, randomness: Randomness = secrets.token_bytes) -> None:
        self._store, self._randomness = store, randomness

    def create(self, caller: Principal, given: TokenIn, *, once: bool = False) -> TokenOut:
        """A token for oneself, or by a tenant's admin for its users, or by an admin for anybody."""
        lifetime = _once_lifetime(given.expires_seconds) if once else given.expires_seconds
        with self._store.write() as write:
            user = find_user(write.connection, caller, given.user or caller.user)
            if user.id != caller.user_id:
                may_manage(caller, user)
            out = self._insert(write, user, "once" if once else "api", given.label, lifetime)
            write.event("token.created", out.id, tenant_id=user.tenant_id, data={"user": user.name, "kind": out.kind})
            write.answer_once(f"token {out.id}")
        return out

    def list(self, caller: Principal, after: str | None, limit: int, user: str | None = None) -> Page[TokenOut]:
        """One's own; for a tenant's admin its users', for an admin everybody's. Revoked ones are left out."""
        query = _query().where(tokens.c.revoked_ns.is_(None), _listed(caller)).order_by(tokens.c.id).limit(limit + 1)
        if after:
            query = query.where(tokens.c.id > after)
        if user:
            query = query.where(users.c.name == user)
        with self._store.read() as connection:
            rows = connection.execute(query).all()
        items = [_out(row) for row in rows[:limit]]
        return Page[TokenOut](items=items, next=items[-1].id if len(rows) > limit else None)

    def revoke(self, caller: Principal, token_id: str) -> None:
        """End a token now; ending an ended one changes nothing. Raises NotFound outside the caller's scope."""
        with self._store.write() as write:
            row = write.execute(_query().where(tokens.c.id == token_id, _listed(caller))).one_or_none()
            if row is None:
                raise NotFound(f"no token {token_id[:32]!r}", hint="gpupool token list")
            if row.user_id != caller.user_id:
                may_manage(caller, find_user(write.connection, caller, row.user))
            if row.revoked_ns is None:
                _revoke(write, tokens.c.id == token_id)
                write.event("token.revoked", token_id, tenant_id=row.tenant_id, data={"user": row.user})
            write.answer(204, None)

    def login(self, text: str) -> LoginOut:
        """Exchange an api or once token for a session. Raises NotLoggedIn. A once token is used up."""
        given = parse(text)
        if given is None:
            raise refused_token()
        with self._store.write() as write:
            row = write.execute(_query().where(tokens.c.id == given.id)).one_or_none()
            if row is None or not matches(given, row.secret_sha256) or not _may_log_in(row, write.now_ns):
                raise refused_token()
            if row.kind == "once":
                _revoke(write, tokens.c.id == given.id)
            user = write.execute(_users_with_tenant().where(users.c.id == row.user_id)).one()
            out = self._insert(write, user, "session", "login", SESSION_SECONDS)
            write.event("token.created", out.id, tenant_id=user.tenant_id, data={"user": user.name, "kind": "session"})
        return LoginOut(
            token=out.token or "", user=user.name, tenant=user.tenant, role=user.role, expires_ns=out.expires_ns or 0
        )

    def _insert(self, write: Write, user: sa.Row[Any], kind: str, label: str, seconds: int | None) -> TokenOut:
        secret = new_secret(self._randomness)
        row: dict[str, Any] = {
            "id": secret.id,
            "label": label,
            "kind": kind,
            "created_ns": write.now_ns,
            "expires_ns": None if seconds is None else write.now_ns + seconds * 10**9,
        }
        write.execute(tokens.insert().values(**row, user_id=user.id, secret_sha256=secret.sha256))
        return TokenOut(**row, user=user.name, last_used_ns=None, token=secret.text)


def revoke_all(write: Write, user_id: int) -> int:
    """End every token of a user; how many were alive."""
    return _revoke(write, tokens.c.user_id == user_id)


def refused_token() -> NotLoggedIn:
    return NotLoggedIn(
        "the token is unknown, expired, revoked or its user is disabled",
        hint="ask an admin for a new one: gpupool token create --user NAME",
    )


def _revoke(write: Write, which: sa.ColumnElement[bool]) -> int:
    done = write.execute(tokens.update().where(which, tokens.c.revoked_ns.is_(None)).values(revoked_ns=write.now_ns))
    write.announce("people")
    return done.rowcount


def _may_log_in(row: sa.Row[Any], now_ns: int) -> bool:
    usable = alive(row, now_ns) and row.kind in ("api", "once")
    return usable and row.disabled_ns is None and row.retired_ns is None


def _once_lifetime(seconds: int | None) -> int:
    if seconds is not None and seconds > ONCE_LONGEST_SECONDS:
        raise BadOption(f"a one-time token lives at most {ONCE_LONGEST_SECONDS} s, not {seconds}", hint="leave it out")
    return seconds or ONCE_SECONDS


def _listed(caller: Principal) -> sa.ColumnElement[bool]:
    if caller.may(Permission.MANAGE_POOL):
        return sa.true()
    if caller.may(Permission.MANAGE_TENANT):
        return users.c.tenant_id == caller.tenant_id
    return tokens.c.user_id == caller.user_id


def _users_with_tenant() -> sa.Select[Any]:
    return sa.select(users, tenants.c.name.label("tenant")).join_from(users, tenants)


def _query() -> sa.Select[Any]:
    return sa.select(
        tokens, users.c.name.label("user"), users.c.tenant_id, users.c.disabled_ns, users.c.retired_ns
    ).join_from(tokens, users)


def _out(row: sa.Row[Any]) -> TokenOut:
    return TokenOut(
        id=row.id,
        user=row.user,
        label=row.label,
        kind=row.kind,
        created_ns=row.created_ns,
        expires_ns=row.expires_ns,
        last_used_ns=row.last_used_ns,
    )
