"""Tokens: how callers without a Unix socket authenticate.

Their text is that of `token_secrets`. Kinds: `api` until revoked or expired, `once` for one login,
`session` from a login. A token makes no tokens unless it says so, what a token made ends with it,
and a token that would run code as a Unix account is that account's own or a pool admin's to make
(decision 0019). Knows no HTTP.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import NotFound, NotLoggedIn, TokenMayNotMint
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.tenant import Permission, Principal, UserRole
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.logins import LoginGrant, redeem_token
from gpupool.tenancy.service_accounts import bound_service_token
from gpupool.tenancy.sessions.tables import sessions
from gpupool.tenancy.tables import tokens, users
from gpupool.tenancy.token_lifetimes import ONCE_SECONDS, check_lifetime, choose_once_lifetime
from gpupool.tenancy.token_scopes import choose_scopes, list_scopes, write_scopes
from gpupool.tenancy.token_secrets import Randomness, is_alive, make_refused_token, new_secret
from gpupool.tenancy.token_tree import choose_earlier_end, end_tokens, find_latest_end
from gpupool.tenancy.users import check_may_manage, check_may_stand_for, find_user
from gpupool.wire.common import Page
from gpupool.wire.people import LoginOut, TokenIn, TokenOut

#: How long a session lives.
SESSION_SECONDS = 12 * 3600


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
    scopes: str | None
    unix_uid: int | None = None


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
        lifetime = choose_once_lifetime(given.expires_seconds) if once else given.expires_seconds
        with self._store.write() as write:
            _check_may_mint(write, caller, given)
            user = find_user(write.connection, caller, given.user or caller.user)
            if user.id != caller.user_id:
                check_may_manage(caller, user)
                check_may_stand_for(caller, user)
            # What a token makes ends with it at the latest, however often it is handed on.
            bound = find_latest_end(write.connection, caller.token)
            check_lifetime(given.expires_seconds, bound, write.now_ns)
            kind = "once" if once else "api"
            made = _NewToken(
                kind=kind,
                label=given.label,
                seconds=bound_service_token(user.user_kind, lifetime),
                parent=caller.token,
                may_mint=given.may_mint,
                bound_ns=bound,
                made_by=caller.user_id,
                scopes=choose_scopes(caller, UserRole(user.role), given.scopes),
            )
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
        with self._store.write() as write:
            return self.open_session(write, redeem_token(write, text))

    def open_session(self, write: WriteTransaction, grant: LoginGrant) -> LoginOut:
        """Make a session of a user that has signed on, in the caller's transaction."""
        user = grant.user
        new = _NewToken(
            kind="session",
            label="login",
            seconds=SESSION_SECONDS,
            parent=grant.token_id,
            may_mint=grant.may_mint,
            bound_ns=grant.bound_ns,
            made_by=user.id,
            scopes=grant.scopes,
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

    def create_link(self, caller: Principal, unix_uid: int | None = None) -> TokenOut:
        """Make a one-time token with which the caller itself logs in to the console.

        It needs no right to make tokens: it ends with the caller's own token, as a login with that
        token does.

        Args:
            unix_uid: The account of the caller, where the kernel named it: jobs of the session run
                as that account, as those that it submits over the socket do.
        """
        with self._store.write() as write:
            bound = find_latest_end(write.connection, caller.token)
            user = find_user(write.connection, caller, caller.user)
            made = _NewToken(
                kind="once",
                label="console",
                seconds=ONCE_SECONDS,
                parent=caller.token,
                may_mint=caller.has_peer_credentials,
                bound_ns=bound,
                made_by=caller.user_id,
                scopes=None if caller.scopes is None else write_scopes(caller.scopes),
                unix_uid=unix_uid,
            )
            out = self._insert_token(write, user, made)
            data = {"user": user.name, "kind": out.kind}
            write.event("token.created", out.id, tenant_id=user.tenant_id, data=data)
            write.answer_once(f"token {out.id}")
        return out

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
            "scopes": new.scopes,
            "unix_uid": new.unix_uid,
        }
        write.execute(tokens.insert().values(**row, **kept))
        return TokenOut(
            **row,
            user=user.name,
            last_used_ns=None,
            parent=new.parent,
            token=secret.text,
            scopes=list_scopes(new.scopes),
        )


def _check_may_mint(write: WriteTransaction, caller: Principal, given: TokenIn) -> None:
    """Judge in the transaction that writes the token.

    The caller's own may have been ended since.
    """
    if caller.session is not None and not caller.may_mint:
        raise TokenMayNotMint(
            "this session may not make tokens: the token of its login may not",
            hint="make it on the pool's machine:  gpupool token create",
        )
    if caller.session is not None:
        mine = sa.and_(sessions.c.id == caller.session, sessions.c.ended_ns.is_(None))
        if write.execute(sa.select(sessions.c.id).where(mine)).first() is None:
            raise NotLoggedIn("the session has ended: log in again", hint="gpupool console")
        return
    if caller.token is None:
        return
    own = write.execute(sa.select(tokens).where(tokens.c.id == caller.token)).one_or_none()
    if own is None or not is_alive(own, write.now_ns):
        raise make_refused_token()
    if not own.may_mint:
        raise TokenMayNotMint(
            f"the token {own.id} may not make tokens",
            hint="make it on the pool's machine, or with a token made by  gpupool token create "
            "--may-mint",
        )
    if given.may_mint:
        raise TokenMayNotMint(
            "what a token makes may not make tokens itself",
            hint="leave out --may-mint, or make it on the pool's machine",
        )


def _match_listed(caller: Principal) -> sa.ColumnElement[bool]:
    if caller.has_permission(Permission.MANAGE_POOL):
        return sa.true()
    if caller.has_permission(Permission.MANAGE_TENANT):
        return users.c.tenant_id == caller.tenant_id
    return tokens.c.user_id == caller.user_id


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
        scopes=list_scopes(row.scopes),
    )
