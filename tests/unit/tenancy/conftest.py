"""A tenancy over a real store, on a machine with a few invented Unix accounts."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import sqlalchemy as sa

from gpupool.base.clock import LedgerClock
from gpupool.model.tenant import Principal, UnixIdentity
from gpupool.store.database import Store, connect, sqlite_url
from gpupool.store.tables import events
from gpupool.tenancy.access import PeerProcess
from gpupool.tenancy.accounts import UnixAccounts
from gpupool.tenancy.service import TenancyService
from gpupool.wire.people import TokenIn, UserIn
from tests.support.empty_databases import prepare_copy


class Machine(UnixAccounts):
    """An account database of the test's own: the real one differs from machine to machine."""

    def __init__(self) -> None:
        names = {
            "root": 0,
            "alice": 1001,
            "bob": 1002,
            "svc$": 1003,
            "_": 1004,
            "uid-1005": 1006,
            "toor": 0,
        }
        self._known = {name: UnixIdentity(uid, uid, name) for name, uid in names.items()}

    def by_uid(self, uid: int) -> UnixIdentity | None:
        return next((one for one in self._known.values() if one.uid == uid), None)

    def by_name(self, name: str) -> UnixIdentity | None:
        return self._known.get(name) or (self.by_uid(int(name)) if name.isdigit() else None)

    def groups(self, account: UnixIdentity) -> list[int]:
        return [account.gid, 27]

    def remove(self, name: str) -> None:
        del self._known[name]


class Boot:
    """Time since boot, as the test says."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


@dataclass
class House:
    """What a test needs: the service, its store, its owner, and how many jobs it is told to believe
    in."""

    store: Store
    machine: Machine
    owner_uid: int
    boot: Boot = field(default_factory=Boot)
    jobs: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tenancy = TenancyService(
            self.store, owner_uid=self.owner_uid, live_jobs=self._live_jobs, accounts=self.machine
        )
        self.owner = self.tenancy.bootstrap()

    def _live_jobs(
        self, _connection: sa.Connection, tenant_id: int | None, user_id: int | None
    ) -> int:
        return self.jobs.get(("tenant", tenant_id or 0), 0) + self.jobs.get(
            ("user", user_id or 0), 0
        )

    def sleep(self, nanoseconds: int) -> int:
        """Let time pass; what it is now."""
        self.boot.now_ns += nanoseconds
        return self.store.clock.now_ns()

    def peer(self, uid: int) -> Principal:
        return self.tenancy.principal_for_peer(peer(uid))

    def user(self, name: str, tenant: str | None = None, role: str = "user") -> Principal:
        """A new user, as it is when it calls with a token of its own."""
        if tenant and tenant not in [
            one.name for one in self.tenancy.tenants.list(self.owner, None, 1000).items
        ]:
            self.tenancy.tenants.create(self.owner, tenant, None)
        self.tenancy.users.create(self.owner, UserIn(name=name, tenant=tenant, role=role))
        return self.tenancy.principal_for_token(self.token(name))

    def token(self, user: str) -> str:
        made = self.tenancy.tokens.create(self.owner, TokenIn(user=user, may_mint=True)).token
        assert made is not None
        return made

    def bearer(self, text: str | None) -> Principal:
        """Who that token stands for."""
        return self.tenancy.principal_for_token(text or "")

    def events(self) -> list[tuple[str, str]]:
        with self.store.read() as connection:
            found = connection.execute(
                sa.select(events.c.kind, events.c.subject).order_by(events.c.seq)
            )
            return [(row.kind, row.subject) for row in found]


def peer(uid: int) -> PeerProcess:
    return PeerProcess(os.getpid(), uid, uid, (uid, 44))


@pytest.fixture
def boot() -> Boot:
    return Boot()


@pytest.fixture
def store(tmp_path: Path, boot: Boot) -> Iterator[Store]:
    engine = connect(sqlite_url(tmp_path / "gpupool.db"))
    prepare_copy(engine, time.time_ns(), "p-test")
    store = Store(engine, LedgerClock(time.time_ns(), boot=boot))
    store.take("here")
    yield store
    engine.dispose()


@pytest.fixture
def house(store: Store, boot: Boot) -> House:
    """A system pool, started by root."""
    return House(store, Machine(), 0, boot)


@pytest.fixture
def own(store: Store, boot: Boot) -> House:
    """Alice's own pool."""
    return House(store, Machine(), 1001, boot)
