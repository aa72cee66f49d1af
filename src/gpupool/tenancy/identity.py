"""From a peer or a token to a Principal, and from a Principal to the Unix account of its jobs.

On the hot path it writes nothing and reads nothing: principals are kept in memory until a
commit says that people changed. A principal is never built from anything a body says.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import NoPermission, NoUnixUser, ServiceUnavailable
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.tenant import DEFAULT_TENANT, Principal, UnixIdentity, UserRole
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.access import PeerProcess
from gpupool.tenancy.accounts import UnixAccounts
from gpupool.tenancy.identity_cache import IdentityCache
from gpupool.tenancy.tables import tenants, tokens, users
from gpupool.tenancy.token_scopes import read_scopes
from gpupool.tenancy.token_secrets import (
    TokenSecret,
    is_alive,
    is_same_secret,
    make_refused_token,
    parse_token,
)
from gpupool.tenancy.user_names import free_user_name
from gpupool.tenancy.users import PEOPLE, insert_user, select_users
from gpupool.wire.fleet import RunAs

logger = logging.getLogger(__name__)

Row = sa.Row[Any]
#: How often the last use of a token is written: a write per request would be a flush per request.
USED_EVERY_NS = 60 * NANOS_PER_SECOND


@dataclass(frozen=True)
class _KnownPeer:
    """A Unix user in memory, with its account's name."""

    principal: Principal
    account: str


@dataclass(frozen=True)
class _KnownToken:
    """A token in memory: enough to check one without the database."""

    secret_sha256: str
    expires_ns: int | None
    principal: Principal


class CallerIdentity:
    """Authenticates callers. Thread-safe."""

    def __init__(self, store: Store, accounts: UnixAccounts, owner_uid: int) -> None:
        self._store = store
        self._accounts = accounts
        self._owner_uid = owner_uid
        self._owner = accounts.by_uid(owner_uid) or UnixIdentity(
            owner_uid, os.getgid(), str(owner_uid)
        )
        self._peers: IdentityCache[int, _KnownPeer] = IdentityCache()
        self._bearers: IdentityCache[str, _KnownToken] = IdentityCache()
        self._used_ns: IdentityCache[str, int] = IdentityCache()
        store.notifier.add_listener(self._forget_changed)

    @property
    def own_pool(self) -> bool:
        """Whether this is a user's own pool, whose jobs run as that user for every caller."""
        return self._owner_uid != 0

    @property
    def epoch(self) -> int:
        """A number that grows with every change of a user's identity or rights."""
        return self._bearers.epoch

    def peek_peer(self, peer: PeerProcess) -> Principal | None:
        """Return the principal, if it is known without the database; never blocks."""
        known = self._peers.get(peer.uid)
        return None if known is None else self._localize(known.principal, peer, known.account)

    def principal_for_peer(self, peer: PeerProcess) -> Principal:
        """Return the user with that Unix uid; an unknown one joins the default tenant.

        Raises NoPermission for a disabled user.
        """
        known = self.peek_peer(peer)
        if known is not None:
            return known
        # Read before the row: a change that commits in between makes `put` forget what we read.
        before = self._peers.epoch
        with self._store.read() as connection:
            row = connection.execute(
                select_users().where(users.c.unix_uid == peer.uid)
            ).one_or_none()
        row = row or self._join_user(peer.uid)
        if row.disabled_ns is not None:
            raise NoPermission(f"the user {row.name} is disabled", hint="ask an admin")
        found = _KnownPeer(
            make_principal(row), _name_account(self._accounts.by_uid(peer.uid), peer.uid)
        )
        self._peers.put(peer.uid, found, before)
        return self._localize(found.principal, peer, found.account)

    def peek_token(self, text: str, peer: PeerProcess | None) -> Principal | None:
        """Return what `principal_for_token` would, when the database is not needed.

        Never blocks.
        """
        given = parse_token(text)
        bearer = self._bearers.get(given.id) if given else None
        # Over the socket the account's name may have to be looked up, which can block.
        if given is None or bearer is None or peer is not None or self._use_is_due(given.id):
            return None
        if not is_same_secret(given, bearer.secret_sha256) or _has_expired(
            bearer.expires_ns, self._store.clock.now_ns()
        ):
            raise make_refused_token()
        return self.bind_account(bearer.principal, peer)

    def principal_for_token(self, text: str, peer: PeerProcess | None = None) -> Principal:
        """Return the user whose token this is.

        Raises NotLoggedIn for an unknown, ended or wrong one.
        """
        given = parse_token(text)
        if given is None:
            raise make_refused_token()
        bearer = self._bearers.get(given.id) or self._read_bearer(given)
        if not is_same_secret(given, bearer.secret_sha256) or _has_expired(
            bearer.expires_ns, self._store.clock.now_ns()
        ):
            raise make_refused_token()
        self._note_use(given.id)
        return self.bind_account(bearer.principal, peer)

    def find_account(self, uid: int) -> UnixIdentity | None:
        """Find the Unix account of a uid on the pool's machine. May block on a directory service."""
        return self._accounts.by_uid(uid)

    def run_as(self, principal: Principal, peer: PeerProcess | None) -> RunAs:
        """Return the Unix account of this caller's jobs. Raises NoUnixUser.

        In a user's own pool its owner. Else, over the Unix socket, exactly the peer; over TCP
        the account an admin bound to the user, which is never root.
        """
        if self.own_pool:
            return self._describe_account(self._owner)
        if peer is not None:
            account = self._accounts.by_uid(peer.uid)
            return RunAs(
                uid=peer.uid,
                gid=peer.gid,
                groups=list(peer.groups),
                name=_name_account(account, peer.uid),
            )
        if principal.unix is None:
            raise NoUnixUser(
                f"jobs of {principal.user} that come over the network have no Unix account to run "
                "as",
                hint=f"an admin types: gpupool user set {principal.user} --run-as ACCOUNT",
            )
        # The binding refuses root as well; here it holds whatever the table says.
        if principal.unix.uid == 0 and not principal.may_run_as_root:
            raise NoUnixUser(
                "no job that comes over the network runs as root", hint="ask for another account"
            )
        return self._describe_account(principal.unix)

    def _describe_account(self, account: UnixIdentity) -> RunAs:
        groups = self._accounts.groups(account)
        return RunAs(uid=account.uid, gid=account.gid, groups=groups, name=account.name)

    def _localize(self, principal: Principal, peer: PeerProcess, name: str) -> Principal:
        unix = self._owner if self.own_pool else UnixIdentity(peer.uid, peer.gid, name)
        # `local` lets a command see that its files are the server's files.
        return replace(principal, unix=unix, local=True)

    def bind_account(self, principal: Principal, peer: PeerProcess | None = None) -> Principal:
        """Give a token's principal its account: over the Unix socket jobs still run as the peer."""
        if peer is not None:
            return self._localize(
                principal, peer, _name_account(self._accounts.by_uid(peer.uid), peer.uid)
            )
        return replace(principal, unix=self._owner) if self.own_pool else principal

    def _join_user(self, uid: int) -> Row:
        """Make the user of a Unix account that has none yet."""
        account = self._accounts.by_uid(uid)
        with self._store.write() as write:
            row = join_user(write, account, uid)
        logger.info("uid %d joined tenant %s as %s", uid, row.tenant, row.name)
        return row

    def _read_bearer(self, given: TokenSecret) -> _KnownToken:
        before = self._bearers.epoch
        query = select_users().add_columns(
            tokens.c.secret_sha256,
            tokens.c.expires_ns,
            tokens.c.revoked_ns,
            tokens.c.kind,
            tokens.c.may_mint,
            tokens.c.scopes,
        )
        with self._store.read() as connection:
            row = connection.execute(
                query.join(tokens, tokens.c.user_id == users.c.id).where(tokens.c.id == given.id)
            ).one_or_none()
        usable = (
            row is not None
            and is_alive(row, self._store.clock.now_ns())
            and row.disabled_ns is None
        )
        if (
            row is None
            or not usable
            # A one-time token is for /login alone.
            or row.kind == "once"
            or not is_same_secret(given, row.secret_sha256)
        ):
            raise make_refused_token()
        account = None if row.run_as_uid is None else self._accounts.by_uid(row.run_as_uid)
        caller = replace(
            make_principal(row),
            unix=account,
            token=given.id,
            may_mint=row.may_mint,
            scopes=read_scopes(row.scopes),
        )
        bearer = _KnownToken(row.secret_sha256, row.expires_ns, caller)
        self._bearers.put(given.id, bearer, before)
        return bearer

    def _use_is_due(self, token_id: str) -> bool:
        last = self._used_ns.get(token_id)
        return last is None or self._store.clock.now_ns() - last >= USED_EVERY_NS

    def _note_use(self, token_id: str) -> None:
        """Write when the token was last used, at most once a minute.

        A store that cannot be written stops no reader.
        """
        if not self._use_is_due(token_id):
            return
        self._used_ns.put(token_id, self._store.clock.now_ns(), self._used_ns.epoch)
        try:
            with self._store.write() as write:
                write.execute(
                    tokens.update().where(tokens.c.id == token_id).values(last_used_ns=write.now_ns)
                )
        except ServiceUnavailable as error:
            logger.warning("the last use of token %s is not recorded: %s", token_id, error)

    def _forget_changed(self, topics: frozenset[Hashable]) -> None:
        # A quota changes tenants, whose names are part of a principal.
        if PEOPLE in topics or "quota" in topics:
            self._peers.forget()
            self._bearers.forget()


def join_user(write: WriteTransaction, account: UnixIdentity | None, uid: int) -> Row:
    """Return the user with this uid, made (or brought back) in the default tenant.

    Inside the caller's transaction.
    """
    mine = sa.select(users).where(users.c.unix_uid == uid)
    old = write.execute(mine).one_or_none()
    if old is None or old.retired_ns is not None:
        name = old.name if old is not None else free_user_name(write.connection, account, uid)
        tenant_id = write.execute(
            sa.select(tenants.c.id).where(tenants.c.name == DEFAULT_TENANT)
        ).scalar_one()
        insert_user(write, name, tenant_id, UserRole.USER, unix_uid=uid)
        write.event(
            "user.created", name, tenant_id=tenant_id, data={"unix_uid": uid, "joined": True}
        )
        write.announce(PEOPLE)
    return write.execute(select_users().where(users.c.unix_uid == uid)).one()


def make_principal(row: Row) -> Principal:
    """Make the principal of a user's row, which has the name of its tenant as `tenant`."""
    role = UserRole(row.role)
    return Principal(
        row.id,
        row.name,
        row.tenant_id,
        row.tenant,
        role,
        project=row.default_project,
        is_service=row.user_kind == "service",
    )


def _name_account(account: UnixIdentity | None, uid: int) -> str:
    return account.name if account else str(uid)


def _has_expired(expires_ns: int | None, now_ns: int) -> bool:
    return expires_ns is not None and expires_ns <= now_ns
