"""From a peer or a token to a Principal, and from a Principal to the Unix account of its jobs.

On the hot path it writes nothing and reads nothing: principals are kept in memory until a
commit says that people changed. A principal is never built from anything a body says.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import sqlalchemy as sa

from gpupool.base.errors import NotAllowed, NoUnixUser, Unavailable
from gpupool.model.tenant import DEFAULT_TENANT, Principal, Role, UnixIdentity
from gpupool.store.database import Store, Write
from gpupool.tenancy.access import Peer
from gpupool.tenancy.accounts import Accounts
from gpupool.tenancy.tables import tenants, tokens, users
from gpupool.tenancy.tokens import Secret, alive, matches, parse, refused_token
from gpupool.tenancy.users import PEOPLE, free_user_name, insert_user, users_query
from gpupool.wire.fleet import RunAs

logger = logging.getLogger(__name__)

Row = sa.Row[Any]
K = TypeVar("K")
V = TypeVar("V")
KNOWN_AT_MOST = 4096
USED_EVERY_NS = 60 * 10**9


@dataclass(frozen=True)
class _Local:
    """A Unix user in memory, with its account's name."""

    principal: Principal
    account: str


@dataclass(frozen=True)
class _Bearer:
    """A token in memory: enough to check one without the database."""

    secret_sha256: str
    expires_ns: int | None
    principal: Principal


class _Known(Generic[K, V]):
    """A bounded memory that forgets everything at once, also what is being read meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: dict[K, V] = {}
        self.epoch = 0

    def get(self, key: K) -> V | None:
        return self._items.get(key)

    def put(self, key: K, value: V, epoch: int) -> None:
        """Remember, unless something was forgotten since `epoch` was read."""
        with self._lock:
            if epoch != self.epoch:
                return
            if len(self._items) >= KNOWN_AT_MOST:
                self._items = {}
            self._items[key] = value

    def forget(self) -> None:
        with self._lock:
            self.epoch += 1
            self._items = {}


class Identity:
    """Who a caller is. Thread-safe."""

    def __init__(self, store: Store, accounts: Accounts, owner_uid: int) -> None:
        self._store, self._accounts, self._owner_uid = store, accounts, owner_uid
        self._owner = accounts.by_uid(owner_uid) or UnixIdentity(owner_uid, os.getgid(), str(owner_uid))
        self._peers: _Known[int, _Local] = _Known()
        self._bearers: _Known[str, _Bearer] = _Known()
        self._used_ns: _Known[str, int] = _Known()
        store.hub.listen(self._heard)

    @property
    def own_pool(self) -> bool:
        """Whether this is a user's own pool, whose jobs run as that user for every caller."""
        return self._owner_uid != 0

    @property
    def epoch(self) -> int:
        """Grows with every change of a user's identity or rights."""
        return self._bearers.epoch

    def peek_peer(self, peer: Peer) -> Principal | None:
        """The principal, if it can be told without touching the database; never blocks."""
        known = self._peers.get(peer.uid)
        return None if known is None else self._local(known.principal, peer, known.account)

    def principal_for_peer(self, peer: Peer) -> Principal:
        """The user with that Unix uid; an unknown one joins the default tenant. Raises NotAllowed."""
        known = self.peek_peer(peer)
        if known is not None:
            return known
        before = self._peers.epoch
        with self._store.read() as connection:
            row = connection.execute(users_query().where(users.c.unix_uid == peer.uid)).one_or_none()
        row = row or self._join(peer.uid)
        if row.disabled_ns is not None:
            raise NotAllowed(f"the user {row.name} is disabled", hint="ask an admin")
        found = _Local(_principal(row), _name(self._accounts.by_uid(peer.uid), peer.uid))
        self._peers.put(peer.uid, found, before)
        return self._local(found.principal, peer, found.account)

    def peek_token(self, text: str, peer: Peer | None) -> Principal | None:
        """As `principal_for_token`, when the database is not needed; never blocks."""
        given = parse(text)
        bearer = self._bearers.get(given.id) if given else None
        if given is None or bearer is None or peer is not None or self._use_is_due(given.id):
            return None
        if not matches(given, bearer.secret_sha256) or _over(bearer.expires_ns, self._store.clock.now_ns()):
            raise refused_token()
        return self._carried(bearer.principal, peer)

    def principal_for_token(self, text: str, peer: Peer | None = None) -> Principal:
        """The user whose token this is. Raises NotLoggedIn for an unknown, ended or wrong one."""
        given = parse(text)
        if given is None:
            raise refused_token()
        bearer = self._bearers.get(given.id) or self._read_bearer(given)
        if not matches(given, bearer.secret_sha256) or _over(bearer.expires_ns, self._store.clock.now_ns()):
            raise refused_token()
        self._note_use(given.id)
        return self._carried(bearer.principal, peer)

    def run_as(self, principal: Principal, peer: Peer | None) -> RunAs:
        """The Unix account of this caller's jobs. Raises NoUnixUser.

        In a user's own pool its owner. Else, over the Unix socket, exactly the peer; over TCP
        the account an admin bound to the user, which is never root.
        """
        if self.own_pool:
            return self._login_of(self._owner)
        if peer is not None:
            account = self._accounts.by_uid(peer.uid)
            return RunAs(uid=peer.uid, gid=peer.gid, groups=list(peer.groups), name=_name(account, peer.uid))
        if principal.unix is None:
            raise NoUnixUser(
                f"jobs of {principal.user} that come over the network have no Unix account to run as",
                hint=f"an admin types: gpupool user set {principal.user} --run-as ACCOUNT",
            )
        if principal.unix.uid == 0:
            raise NoUnixUser("no job that comes over the network runs as root", hint="ask for another account")
        return self._login_of(principal.unix)

    def _login_of(self, account: UnixIdentity) -> RunAs:
        groups = self._accounts.groups(account)
        return RunAs(uid=account.uid, gid=account.gid, groups=groups, name=account.name)

    def _local(self, principal: Principal, peer: Peer, name: str) -> Principal:
        unix = self._owner if self.own_pool else UnixIdentity(peer.uid, peer.gid, name)
        return replace(principal, unix=unix, local=True)

    def _carried(self, principal: Principal, peer: Peer | None) -> Principal:
        """A token's principal: over the Unix socket its jobs still run as the peer, never as anyone else."""
        if peer is not None:
            return self._local(principal, peer, _name(self._accounts.by_uid(peer.uid), peer.uid))
        return replace(principal, unix=self._owner) if self.own_pool else principal

    def _join(self, uid: int) -> Row:
        """Make the user of a Unix account that has none yet."""
        account = self._accounts.by_uid(uid)
        with self._store.write() as write:
            row = join(write, account, uid)
        logger.info("uid %d joined tenant %s as %s", uid, row.tenant, row.name)
        return row

    def _read_bearer(self, given: Secret) -> _Bearer:
        before = self._bearers.epoch
        query = users_query().add_columns(
            tokens.c.secret_sha256, tokens.c.expires_ns, tokens.c.revoked_ns, tokens.c.kind, tokens.c.may_mint
        )
        with self._store.read() as connection:
            row = connection.execute(
                query.join(tokens, tokens.c.user_id == users.c.id).where(tokens.c.id == given.id)
            ).one_or_none()
        usable = row is not None and alive(row, self._store.clock.now_ns()) and row.disabled_ns is None
        if row is None or not usable or row.kind == "once" or not matches(given, row.secret_sha256):
            raise refused_token()
        account = None if row.run_as_uid is None else self._accounts.by_uid(row.run_as_uid)
        caller = replace(_principal(row), unix=account, token=given.id, may_mint=row.may_mint)
        bearer = _Bearer(row.secret_sha256, row.expires_ns, caller)
        self._bearers.put(given.id, bearer, before)
        return bearer

    def _use_is_due(self, token_id: str) -> bool:
        last = self._used_ns.get(token_id)
        return last is None or self._store.clock.now_ns() - last >= USED_EVERY_NS

    def _note_use(self, token_id: str) -> None:
        """Write when the token was last used, at most once a minute; a store that cannot, stops no reader."""
        if not self._use_is_due(token_id):
            return
        self._used_ns.put(token_id, self._store.clock.now_ns(), self._used_ns.epoch)
        try:
            with self._store.write() as write:
                write.execute(tokens.update().where(tokens.c.id == token_id).values(last_used_ns=write.now_ns))
        except Unavailable as error:
            logger.warning("the last use of token %s is not recorded: %s", token_id, error)

    def _heard(self, topics: frozenset[Hashable]) -> None:
        if PEOPLE in topics or "quota" in topics:
            self._peers.forget()
            self._bearers.forget()


def join(write: Write, account: UnixIdentity | None, uid: int) -> Row:
    """Inside a transaction: the user with this uid, made (or brought back) in the default tenant."""
    mine = sa.select(users).where(users.c.unix_uid == uid)
    old = write.execute(mine).one_or_none()
    if old is None or old.retired_ns is not None:
        name = old.name if old is not None else free_user_name(write.connection, account, uid)
        tenant_id = write.execute(sa.select(tenants.c.id).where(tenants.c.name == DEFAULT_TENANT)).scalar_one()
        insert_user(write, name, tenant_id, Role.USER, unix_uid=uid)
        write.event("user.created", name, tenant_id=tenant_id, data={"unix_uid": uid, "joined": True})
        write.announce(PEOPLE)
    return write.execute(users_query().where(users.c.unix_uid == uid)).one()


def _principal(row: Row) -> Principal:
    return Principal(row.id, row.name, row.tenant_id, row.tenant, Role(row.role))


def _name(account: UnixIdentity | None, uid: int) -> str:
    return account.name if account else str(uid)


def _over(expires_ns: int | None, now_ns: int) -> bool:
    return expires_ns is not None and expires_ns <= now_ns
