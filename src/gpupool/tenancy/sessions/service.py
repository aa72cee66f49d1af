"""Opens, lists and ends sessions."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import NotFound
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.tenant import Permission, Principal
from gpupool.store.acts import ActActor, name_actor
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.logins import LoginGrant, redeem_token
from gpupool.tenancy.sessions.ending import end_sessions
from gpupool.tenancy.sessions.tables import sessions
from gpupool.tenancy.tables import tenants, users
from gpupool.tenancy.token_secrets import Randomness, is_same_secret, new_secret, parse_session
from gpupool.tenancy.token_tree import choose_earlier_end
from gpupool.tenancy.users import check_may_manage, find_user
from gpupool.wire.common import Page
from gpupool.wire.sessions import SessionRowOut

#: How long a session lives at most, and how long without a request.
LONGEST_SECONDS = 12 * 3600
IDLE_SECONDS = 3600
IDLE_NS = IDLE_SECONDS * NANOS_PER_SECOND
#: Sessions of one user at a time; a further login ends the one that was used longest ago.
MOST_OF_A_USER = 20
#: How long the row of a session is stored after its end.
STORED_NS = 30 * 24 * 3600 * NANOS_PER_SECOND


@dataclass(frozen=True)
class LoginFacts:
    """What is recorded of the browser of a login."""

    address: str
    browser: str
    through_console: bool = False


@dataclass(frozen=True)
class OpenedSession:
    """A new session: the text of its cookie, and how long a browser is to store it."""

    id: str
    cookie: str
    seconds: int


class SessionService:
    """Sessions of browsers. Thread-safe; every method may block on the store."""

    def __init__(self, store: Store, randomness: Randomness = secrets.token_bytes) -> None:
        self._store = store
        self._randomness = randomness

    def log_in(self, token: str, facts: LoginFacts, earlier: str | None = None) -> OpenedSession:
        """Open a session for an api or once token; a once token is used up.

        Args:
            token: The text of the token.
            facts: What is recorded of the browser.
            earlier: The cookie that the browser had, whose session ends. The new one is always
                another, so a cookie that was planted before a login is worth nothing after it.

        Raises:
            NotLoggedIn: The token is unknown, used up or ended, or its user is disabled.
        """
        with self._store.write() as write:
            grant = redeem_token(write, token)
            return self.open_session(write, grant, facts, earlier)

    def open_session(
        self,
        write: WriteTransaction,
        grant: LoginGrant,
        facts: LoginFacts,
        earlier: str | None = None,
    ) -> OpenedSession:
        """Open a session of a user that has signed on, inside the caller's transaction.

        Change the user's role and tenant before: a later change of either ends its sessions. The
        session of the cookie `earlier` ends, as `log_in` says.
        """
        user = grant.user
        write.execute(sessions.delete().where(sessions.c.expires_ns < write.now_ns - STORED_NS))
        self._end_surplus(write, user.id)
        secret = new_secret(self._randomness, "s")
        own_end = write.now_ns + LONGEST_SECONDS * NANOS_PER_SECOND
        expires_ns = choose_earlier_end(own_end, grant.bound_ns) or own_end
        row = {
            "id": secret.id,
            "user_id": user.id,
            "secret_sha256": secret.sha256,
            "token_id": grant.token_id,
            "may_mint": grant.may_mint,
            "through_console": facts.through_console,
            "unix_uid": grant.unix_uid,
            "address": facts.address[:64],
            "browser": facts.browser[:200],
            "created_ns": write.now_ns,
            "expires_ns": expires_ns,
            "used_ns": write.now_ns,
        }
        write.execute(sessions.insert().values(**row))
        # Without the address: the whole tenant reads its events.
        data = {"user": user.name}
        write.event("session.opened", secret.id, tenant_id=user.tenant_id, data=data)
        # Afterwards: the record of the login belongs to the tenant of its first event.
        self._end_by_cookie(write, earlier)
        seconds = max(0, expires_ns - write.now_ns) // NANOS_PER_SECOND
        return OpenedSession(secret.id, secret.text, seconds)

    def log_out(self, cookie: str) -> None:
        """End the session of a cookie. Idempotent; a cookie that is none of ours ends nothing."""
        with self._store.write(freeing=True) as write:
            row = self._end_by_cookie(write, cookie)
            if row is not None:
                name_actor(ActActor(row.user, row.tenant, row.tenant_id, row.role))

    def list(
        self, caller: Principal, after: str | None, limit: int, user: str | None = None
    ) -> Page[SessionRowOut]:
        """List sessions that have not ended: the caller's own, for an admin those of its scope."""
        with self._store.read() as connection:
            now_ns = self._store.clock.now_ns()
            query = (
                _select_sessions()
                .where(_is_live(now_ns), _match_listed(caller))
                .order_by(sessions.c.id)
                .limit(limit + 1)
            )
            if after:
                query = query.where(sessions.c.id > after)
            if user:
                query = query.where(users.c.name == user)
            rows = connection.execute(query).all()
        items = [_session_out(row, caller) for row in rows[:limit]]
        return Page[SessionRowOut](items=items, next=items[-1].id if len(rows) > limit else None)

    def end(self, caller: Principal, session_id: str) -> None:
        """End one session now. Idempotent. Raises NotFound outside the caller's scope."""
        with self._store.write(freeing=True) as write:
            mine = sessions.c.id == session_id
            row = write.execute(_select_sessions().where(mine, _match_listed(caller))).one_or_none()
            if row is None:
                raise NotFound(f"no session {session_id[:32]!r}", hint="gpupool session list")
            if row.user_id != caller.user_id:
                check_may_manage(caller, find_user(write.connection, caller, row.user))
            self._end_and_record(write, mine, row)
            write.answer(204, None)

    def end_of_console(self) -> None:
        """End the sessions of the console's own listener, which was closed.

        Another process of the machine may have its port by now, and get the cookies of pages that
        are still open.
        """
        mine = sa.and_(sessions.c.through_console, sessions.c.ended_ns.is_(None))
        with self._store.read() as connection:
            found = connection.execute(sa.select(sessions.c.id).where(mine).limit(1)).first()
        if found is not None:
            with self._store.write(freeing=True) as write:
                end_sessions(write, mine)

    def find(self, session_id: str) -> sa.Row[Any]:
        """Return the row of a session that a caller has just been authenticated with."""
        with self._store.read() as connection:
            return connection.execute(_select_sessions().where(sessions.c.id == session_id)).one()

    def _end_by_cookie(self, write: WriteTransaction, cookie: str | None) -> sa.Row[Any] | None:
        given = parse_session(cookie or "")
        if given is None:
            return None
        mine = sessions.c.id == given.id
        row = write.execute(_select_sessions().where(mine)).one_or_none()
        if row is not None and is_same_secret(given, row.secret_sha256):
            self._end_and_record(write, mine, row)
            return row
        return None

    def _end_and_record(
        self, write: WriteTransaction, which: sa.ColumnElement[bool], row: sa.Row[Any]
    ) -> None:
        if end_sessions(write, which):
            data = {"user": row.user}
            write.event("session.ended", row.id, tenant_id=row.tenant_id, data=data)

    def _end_surplus(self, write: WriteTransaction, user_id: int) -> None:
        live = (
            sa.select(sessions.c.id)
            .where(sessions.c.user_id == user_id, _is_live(write.now_ns))
            .order_by(sessions.c.used_ns.desc(), sessions.c.id)
            .offset(MOST_OF_A_USER - 1)
            # SQLite takes no offset without a limit.
            .limit(1000)
        )
        surplus = write.execute(live).scalars().all()
        if surplus:
            end_sessions(write, sessions.c.id.in_(surplus))


def _is_live(now_ns: int) -> sa.ColumnElement[bool]:
    return sa.and_(
        sessions.c.ended_ns.is_(None),
        sessions.c.expires_ns > now_ns,
        sessions.c.used_ns > now_ns - IDLE_NS,
    )


def _match_listed(caller: Principal) -> sa.ColumnElement[bool]:
    if caller.has_permission(Permission.MANAGE_POOL):
        return sa.true()
    if caller.has_permission(Permission.MANAGE_TENANT):
        return users.c.tenant_id == caller.tenant_id
    return sessions.c.user_id == caller.user_id


def _select_sessions() -> sa.Select[Any]:
    return (
        sa.select(
            sessions,
            users.c.name.label("user"),
            users.c.tenant_id,
            users.c.role,
            tenants.c.name.label("tenant"),
        )
        .join_from(sessions, users, users.c.id == sessions.c.user_id)
        .join(tenants, tenants.c.id == users.c.tenant_id)
    )


def _session_out(row: sa.Row[Any], caller: Principal) -> SessionRowOut:
    return SessionRowOut(
        id=row.id,
        user=row.user,
        tenant=row.tenant,
        address=row.address,
        browser=row.browser,
        created_ns=row.created_ns,
        used_ns=row.used_ns,
        idle_ends_ns=min(row.used_ns + IDLE_NS, row.expires_ns),
        expires_ns=row.expires_ns,
        current=row.id == caller.session,
    )
