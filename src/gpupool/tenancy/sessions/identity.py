"""From the cookie of a session to a Principal.

A request of a session that was used less than a minute ago reads nothing and writes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import NotLoggedIn, ServiceUnavailable
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.tenant import Principal
from gpupool.store.database import Store
from gpupool.tenancy.accounts import UnixAccounts
from gpupool.tenancy.identity import CallerIdentity, make_principal
from gpupool.tenancy.identity_cache import IdentityCache
from gpupool.tenancy.sessions.cookies import SessionCookie
from gpupool.tenancy.sessions.service import IDLE_NS
from gpupool.tenancy.sessions.tables import sessions
from gpupool.tenancy.tables import tokens, users
from gpupool.tenancy.token_scopes import read_scopes
from gpupool.tenancy.token_secrets import TokenSecret, is_same_secret, parse_session
from gpupool.tenancy.users import PEOPLE, select_users

logger = logging.getLogger(__name__)
#: How often the last use of a session is written: a write per request would be a flush per request.
USED_EVERY_NS = 60 * NANOS_PER_SECOND


@dataclass(frozen=True)
class _KnownSession:
    """A session in memory: enough to check its cookie without the database."""

    secret_sha256: str
    expires_ns: int
    principal: Principal


class SessionIdentity:
    """Authenticates browsers by their cookie. Thread-safe."""

    def __init__(self, store: Store, accounts: UnixAccounts, callers: CallerIdentity) -> None:
        self._store = store
        self._accounts = accounts
        self._callers = callers
        self._known: IdentityCache[str, _KnownSession] = IdentityCache()
        self._used_ns: IdentityCache[str, int] = IdentityCache()
        store.notifier.add_listener(self._forget_changed)

    def peek(self, given: SessionCookie, *, note_use: bool = True) -> Principal | None:
        """Return what `identify` would, where the database is not needed; never blocks."""
        secret = _parse_cookie(given)
        known = self._known.get(secret.id)
        used_ns = self._used_ns.get(secret.id)
        if known is None or used_ns is None:
            return None
        now_ns = self._store.clock.now_ns()
        if note_use and now_ns - used_ns >= USED_EVERY_NS:
            return None
        return _check_session(secret, known, used_ns, now_ns)

    def identify(self, given: SessionCookie, *, note_use: bool = True) -> Principal:
        """Return the user of a session. Raises NotLoggedIn for one that is unknown or has ended.

        Args:
            given: The cookie, and the listener that it came through.
            note_use: Whether this is a request. The check of an open stream is none: a page that is
                left open does not keep its session alive.
        """
        secret = _parse_cookie(given)
        before = self._known.epoch
        row = self._read_row(secret, given.through_console)
        now_ns = self._store.clock.now_ns()
        used_ns = max(row.used_ns, self._used_ns.get(secret.id) or 0)
        own_uid = _find_own_uid(row)
        uid = own_uid if row.run_as_uid is None else row.run_as_uid
        caller = replace(
            make_principal(row),
            unix=None if uid is None else self._accounts.by_uid(uid),
            may_run_as_root=own_uid == 0 and row.run_as_uid is None,
            token=row.token_id,
            may_mint=row.may_mint,
            session=row.session_id,
            scopes=read_scopes(row.scopes),
        )
        known = _KnownSession(
            row.secret_sha256, row.session_expires_ns, self._callers.bind_account(caller)
        )
        principal = _check_session(secret, known, used_ns, now_ns)
        self._known.put(secret.id, known, before)
        if note_use:
            self._note_use(secret.id, row.used_ns, now_ns)
        else:
            self._used_ns.put(secret.id, used_ns, self._used_ns.epoch)
        return principal

    def _read_row(self, given: TokenSecret, through_console: bool) -> sa.Row[Any]:
        query = (
            select_users()
            .add_columns(
                sessions.c.id.label("session_id"),
                sessions.c.secret_sha256,
                sessions.c.token_id,
                sessions.c.may_mint,
                sessions.c.through_console,
                sessions.c.unix_uid.label("link_uid"),
                sessions.c.used_ns,
                sessions.c.expires_ns.label("session_expires_ns"),
                tokens.c.scopes,
            )
            .join(sessions, sessions.c.user_id == users.c.id)
            .outerjoin(tokens, tokens.c.id == sessions.c.token_id)
            .where(
                sessions.c.id == given.id,
                sessions.c.ended_ns.is_(None),
                sessions.c.through_console.is_(sa.true() if through_console else sa.false()),
                users.c.disabled_ns.is_(None),
            )
        )
        with self._store.read() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            raise _make_refused_session()
        return row

    def _note_use(self, session_id: str, stored_ns: int, now_ns: int) -> None:
        """Write when the session was last used, at most once a minute.

        A store that cannot be written stops no reader.
        """
        self._used_ns.put(session_id, now_ns, self._used_ns.epoch)
        if now_ns - stored_ns < USED_EVERY_NS:
            return
        try:
            with self._store.write() as write:
                write.execute(
                    sessions.update()
                    .where(sessions.c.id == session_id, sessions.c.used_ns < write.now_ns)
                    .values(used_ns=write.now_ns)
                )
        except ServiceUnavailable as error:
            logger.warning("the last use of session %s is not recorded: %s", session_id, error)

    def _forget_changed(self, topics: frozenset[Hashable]) -> None:
        # A quota changes tenants, whose names are part of a principal.
        if PEOPLE in topics or "quota" in topics:
            self._known.forget()


def _find_own_uid(row: sa.Row[Any]) -> int | None:
    """Return the account that made the session's link, while it is still that of the user.

    Root's counts on the console's own listener alone, which this machine's loopback reaches.
    """
    if row.link_uid is None or row.link_uid != row.unix_uid:
        return None
    if row.link_uid == 0 and not row.through_console:
        return None
    uid: int = row.link_uid
    return uid


def _parse_cookie(given: SessionCookie) -> TokenSecret:
    secret = parse_session(given.text)
    if secret is None:
        raise _make_refused_session()
    return secret


def _check_session(
    given: TokenSecret, known: _KnownSession, used_ns: int, now_ns: int
) -> Principal:
    if not is_same_secret(given, known.secret_sha256) or known.expires_ns <= now_ns:
        raise _make_refused_session()
    if used_ns + IDLE_NS <= now_ns:
        raise _make_refused_session("the session was not used for an hour")
    return known.principal


def _make_refused_session(why: str = "the session has ended") -> NotLoggedIn:
    return NotLoggedIn(f"{why}: log in again", hint="gpupool console  prints a link")
