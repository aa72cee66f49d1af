"""Tokens: how callers without a Unix socket authenticate.

`gpp_<id>_<secret>`: the id finds the row, the secret is 256 random bits of which only the
SHA-256 is kept. Kinds: `api` until revoked or expired, `once` for one login, `session` from
a login. A token makes no tokens unless it says so, what a token made ends with it, and a token
that would run code as a Unix account is that account's own or a pool admin's to make (decision
0019). Knows no HTTP.
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

from gpupool.base.errors import BadOption, NotFound, NotLoggedIn, TokenMayNotMint, TokenOfAnAccount
from gpupool.base.ids import new_id
from gpupool.base.units import NANOS_PER_SECOND, format_duration
from gpupool.model.tenant import Permission, Principal
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.tables import tenants, tokens, users
from gpupool.tenancy.token_tree import choose_earlier_end, end_tokens, find_latest_end
from gpupool.tenancy.users import check_may_manage, find_user
from gpupool.wire.common import Page
from gpupool.wire.people import LoginOut, TokenIn, TokenOut

Randomness = Callable[[int], bytes]
#: How long a session lives; a one-time token usually, and at most.
SESSION_SECONDS = 12 * 3600
ONCE_SECONDS = 600
ONCE_LONGEST_SECONDS = 24 * 3600
#: The id is one of `base.ids.new_id`; 64 hexadecimal digits are 256 bits.
_TOKEN = re.compile(r"gpp_(t-[0-9a-hjkmnp-tv-z]{10})_([0-9a-f]{64})")


@dataclass(frozen=True)
class TokenSecret:
    """A token as its bearer holds it."""

    id: str
    secret: str

    @property
    def text(self) -> str:
        return f"gpp_{self.id}_{self.secret}"

    @property
    def sha256(self) -> str:
        # One round without salt: 256 random bits cannot be guessed from a table.
        return hashlib.sha256(self.secret.encode()).hexdigest()


def new_secret(randomness: Randomness = secrets.token_bytes) -> TokenSecret:
    return TokenSecret(new_id("t", randomness), randomness(32).hex())


def parse_token(text: str) -> TokenSecret | None:
    """Return the token's two halves; None when it cannot be one of ours."""
    # A header may have 64 KiB; the expression sees only what could match.
    found = _TOKEN.fullmatch(text.strip()) if len(text) < 256 else None
    return TokenSecret(found.group(1), found.group(2)) if found else None


def is_same_secret(given: TokenSecret, stored_sha256: str) -> bool:
    """Return whether the secret is the stored one; takes as long wherever the two differ."""
    return hmac.compare_digest(given.sha256, stored_sha256)


def is_alive(row: sa.Row[Any], now_ns: int) -> bool:
    return row.revoked_ns is None and (row.expires_ns is None or row.expires_ns > now_ns)


@dataclass(frozen=True)
class _NewToken:
    """A token to be made. `bound_ns` is when it ends at the latest, whatever its own `seconds`."""

    kind: str
    label: str
    seconds: int | None
    parent: str | None
    may_mint: bool
    bound_ns: int | None
    made_by: int


class TokenService:
    """Making, listing, revoking and exchanging tokens."""

    def __init__(self, store: Store, randomness: Randomness = secrets.token_bytes) -> None:
        self._store = store
        self._randomness = randomness

    def create(self, caller: Principal, given: TokenIn, *, once: bool = False) -> TokenOut:
        """Make a token for the caller, or by an admin for another user.

        A tenant's admin makes them for users without a Unix account, a pool admin for any user.

        Raises:
            TokenMayNotMint: The caller's token may not make tokens.
            TokenOfAnAccount: The user has a Unix account that is not the caller's.
            NoPermission: The user is not the caller's to manage.
            BadOption: It would outlive the caller's own token.
        """
        lifetime = _choose_once_lifetime(given.expires_seconds) if once else given.expires_seconds
        with self._store.write() as write:
            _check_may_mint(write, caller, given)
            user = find_user(write.connection, caller, given.user or caller.user)
            if user.id != caller.user_id:
                check_may_manage(caller, user)
                _check_may_stand_for(caller, user)
            # What a token makes ends with it at the latest, however often it is handed on.
            bound = find_latest_end(write.connection, caller.token)
            _check_lifetime(given.expires_seconds, bound, write.now_ns)
            kind = "once" if once else "api"
            mint = given.may_mint
            maker = caller.user_id
            made = _NewToken(kind, given.label, lifetime, caller.token, mint, bound, maker)
            out = self._insert_token(write, user, made)
            write.event(
                "token.created",
                out.id,
                tenant_id=user.tenant_id,
                data={"user": user.name, "kind": out.kind},
            )
            # A repetition must not get the secret again: its first answer may have been overheard.
            write.answer_once(f"token {out.id}")
        return out

    def list(
        self, caller: Principal, after: str | None, limit: int, user: str | None = None
    ) -> Page[TokenOut]:
        """List a user's own tokens; for a tenant's admin those of its users, for an admin all.

        Revoked ones are left out.
        """
        query = (
            _select_tokens()
            .where(tokens.c.revoked_ns.is_(None), _match_listed(caller))
            .order_by(tokens.c.id)
            .limit(limit + 1)
        )
        if after:
            query = query.where(tokens.c.id > after)
        if user:
            query = query.where(users.c.name == user)
        with self._store.read() as connection:
            rows = connection.execute(query).all()
        items = [_token_out(row) for row in rows[:limit]]
        return Page[TokenOut](items=items, next=items[-1].id if len(rows) > limit else None)

    def revoke(self, caller: Principal, token_id: str) -> None:
        """End a token and everything it made, now.

        Idempotent. Raises NotFound outside the scope.
        """
        with self._store.write(freeing=True) as write:
            row = write.execute(
                _select_tokens().where(tokens.c.id == token_id, _match_listed(caller))
            ).one_or_none()
            if row is None:
                raise NotFound(f"no token {token_id[:32]!r}", hint="gpupool token list")
            if row.user_id != caller.user_id:
                check_may_manage(caller, find_user(write.connection, caller, row.user))
            ended = end_tokens(write, tokens.c.id == token_id)
            if ended:
                data = {"user": row.user, "ended": ended}
                write.event("token.revoked", token_id, tenant_id=row.tenant_id, data=data)
            write.answer(204, None)

    def login(self, text: str) -> LoginOut:
        """Exchange an api or once token for a session; a once token is used up.

        Raises NotLoggedIn.
        """
        given = parse_token(text)
        if given is None:
            raise make_refused_token()
        with self._store.write() as write:
            row = write.execute(_select_tokens().where(tokens.c.id == given.id)).one_or_none()
            if (
                row is None
                or not is_same_secret(given, row.secret_sha256)
                # Unknown, wrong and ended are answered alike: a guess learns nothing.
                or not _may_log_in(row, write.now_ns)
            ):
                raise make_refused_token()
            if row.kind == "once":
                used = (
                    tokens.update().where(tokens.c.id == given.id).values(revoked_ns=write.now_ns)
                )
                write.execute(used)
                write.announce("people")
            user = write.execute(_select_users().where(users.c.id == row.user_id)).one()
            bound = find_latest_end(write.connection, row.id)
            new = _NewToken(
                "session", "login", SESSION_SECONDS, row.id, row.may_mint, bound, user.id
            )
            out = self._insert_token(write, user, new)
            write.event(
                "token.created",
                out.id,
                tenant_id=user.tenant_id,
                data={"user": user.name, "kind": "session"},
            )
        return LoginOut(
            token=out.token or "",
            user=user.name,
            tenant=user.tenant,
            role=user.role,
            expires_ns=out.expires_ns or 0,
        )

    def _insert_token(self, write: WriteTransaction, user: sa.Row[Any], new: _NewToken) -> TokenOut:
        secret = new_secret(self._randomness)
        ends = None if new.seconds is None else write.now_ns + new.seconds * NANOS_PER_SECOND
        row: dict[str, Any] = {
            "id": secret.id,
            "label": new.label,
            "kind": new.kind,
            "created_ns": write.now_ns,
            "expires_ns": choose_earlier_end(ends, new.bound_ns),
            "may_mint": new.may_mint,
        }
        kept = {
            "user_id": user.id,
            "secret_sha256": secret.sha256,
            "parent_id": new.parent,
            "made_by_id": new.made_by,
        }
        write.execute(tokens.insert().values(**row, **kept))
        return TokenOut(
            **row, user=user.name, last_used_ns=None, parent=new.parent, token=secret.text
        )


def make_refused_token() -> NotLoggedIn:
    return NotLoggedIn(
        "the token is unknown, expired, revoked or its user is disabled",
        hint="ask an admin for a new one: gpupool token create --user NAME",
    )


# A session is no token to log in with: it would renew itself for ever.
def _may_log_in(row: sa.Row[Any], now_ns: int) -> bool:
    usable = is_alive(row, now_ns) and row.kind in ("api", "once")
    return usable and row.disabled_ns is None and row.retired_ns is None


def _check_may_mint(write: WriteTransaction, caller: Principal, given: TokenIn) -> None:
    """Judge in the transaction that writes the token.

    The caller's own may have been ended since.
    """
    if caller.token is None:
        return
    mine = write.execute(sa.select(tokens).where(tokens.c.id == caller.token)).one_or_none()
    if mine is None or not is_alive(mine, write.now_ns):
        raise make_refused_token()
    if not mine.may_mint:
        raise TokenMayNotMint(
            f"the token {mine.id} may not make tokens",
            hint="make it on the pool's machine, or with a token made by  gpupool token create "
            "--may-mint",
        )
    if given.may_mint:
        raise TokenMayNotMint(
            "what a token makes may not make tokens itself",
            hint="leave out --may-mint, or make it on the pool's machine",
        )


def _check_may_stand_for(caller: Principal, user: sa.Row[Any]) -> None:
    """Refuse a token that runs code as a user's Unix account to that user's tenant-admin."""
    bound = user.run_as_uid is not None or user.unix_uid is not None
    if bound and not caller.has_permission(Permission.MANAGE_POOL):
        raise TokenOfAnAccount(
            f"{user.name} is bound to a Unix account: only {user.name} and a pool admin make its "
            "tokens",
            hint=f"{user.name} types, as that account on the pool's machine:  gpupool token create",
        )


def _check_lifetime(seconds: int | None, bound_ns: int | None, now_ns: int) -> None:
    if seconds is None or bound_ns is None or now_ns + seconds * NANOS_PER_SECOND <= bound_ns:
        return
    left = max(0, bound_ns - now_ns) // NANOS_PER_SECOND
    raise BadOption(
        f"the token would live {format_duration(seconds)} and the one that makes it only "
        f"{format_duration(left)} more",
        hint="leave out --expires: it then ends with the token that made it",
        most_seconds=left,
    )


def _choose_once_lifetime(seconds: int | None) -> int:
    if seconds is not None and seconds > ONCE_LONGEST_SECONDS:
        raise BadOption(
            f"a one-time token lives at most {ONCE_LONGEST_SECONDS} s, not {seconds}",
            hint="leave it out",
        )
    return seconds or ONCE_SECONDS


def _match_listed(caller: Principal) -> sa.ColumnElement[bool]:
    if caller.has_permission(Permission.MANAGE_POOL):
        return sa.true()
    if caller.has_permission(Permission.MANAGE_TENANT):
        return users.c.tenant_id == caller.tenant_id
    return tokens.c.user_id == caller.user_id


def _select_users() -> sa.Select[Any]:
    return sa.select(users, tenants.c.name.label("tenant")).join_from(users, tenants)


def _select_tokens() -> sa.Select[Any]:
    return sa.select(
        tokens,
        users.c.name.label("user"),
        users.c.tenant_id,
        users.c.disabled_ns,
        users.c.retired_ns,
    ).join_from(tokens, users, users.c.id == tokens.c.user_id)


def _token_out(row: sa.Row[Any]) -> TokenOut:
    return TokenOut(
        id=row.id,
        user=row.user,
        label=row.label,
        kind=row.kind,
        created_ns=row.created_ns,
        expires_ns=row.expires_ns,
        last_used_ns=row.last_used_ns,
        parent=row.parent_id,
        may_mint=row.may_mint,
    )
