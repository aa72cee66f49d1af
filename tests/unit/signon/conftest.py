"""A pool's services with sign-on, a real OpenID provider on loopback, and people to log in."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.base.clock import LedgerClock
from gpupool.model.tenant import Principal, UnixIdentity
from gpupool.server.migrate import prepare_database
from gpupool.signon.leaver_facts import LeaverChoice, LeaverCounts, LeaverFacts
from gpupool.signon.local.passwords import PasswordHashes
from gpupool.signon.rules import ExternalPerson
from gpupool.signon.service import SignonService
from gpupool.store.database import Store, WriteTransaction, connect, sqlite_url
from gpupool.store.tables import events
from gpupool.tenancy.access import PeerProcess
from gpupool.tenancy.accounts import UnixAccounts
from gpupool.tenancy.service import TenancyService
from gpupool.wire.people import LoginOut, TokenIn, UserIn
from gpupool.wire.signon import ProviderIn, RuleIn, RulesIn
from tests.support.identity_provider import SECRET, IdentityProvider

SECOND_NS = 10**9


class Machine(UnixAccounts):
    """The Unix accounts of an invented machine."""

    def __init__(self) -> None:
        self._uids = {"root": 0, "daemon": 1, "alice": 1001, "bob": 1002}

    def by_uid(self, uid: int) -> UnixIdentity | None:
        found = [name for name, number in self._uids.items() if number == uid]
        return UnixIdentity(uid, uid, found[0]) if found else None

    def by_name(self, name: str) -> UnixIdentity | None:
        uid = self._uids.get(name)
        return None if uid is None else UnixIdentity(uid, uid, name)


class HandClock:
    """Time that goes on when a test says so."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def seconds(self) -> float:
        return self.now_ns / SECOND_NS


@dataclass
class Door:
    """The services, and what a test says about jobs."""

    store: Store
    clock: HandClock
    jobs: dict[int, int] = field(default_factory=dict)
    stopped: list[int] = field(default_factory=list)
    leavers: list[LeaverFacts] = field(default_factory=list)
    policy: LeaverChoice = field(default_factory=lambda: LeaverChoice("keep"))

    def __post_init__(self) -> None:
        machine = Machine()
        self.tenancy = TenancyService(
            self.store, owner_uid=0, live_jobs=self._count_jobs, accounts=machine
        )
        self.owner = self.tenancy.bootstrap()
        self.signon = SignonService(
            self.store,
            self.tenancy,
            self._count_jobs,
            self,
            machine,
            PasswordHashes(passes=1, memory_kib=8 * 8),
            self.clock.seconds,
        )
        self.tenancy.tenants.create(self.owner, "nlp", None)
        self.tenancy.tenants.create(self.owner, "vision", None)

    def rule(self, group: str | None, role: str = "user", tenant: str = "nlp", **more: Any) -> None:
        """Add a rule behind the others."""
        known = self.signon.rules.get_rules()[0].rules
        rule = RuleIn(group=group, role=role, tenant=tenant, **more)  # type: ignore[arg-type]
        self.signon.rules.put_rules(self.owner, RulesIn(rules=[*known, rule]), None)

    def forget_rules(self) -> None:
        self.signon.rules.put_rules(self.owner, RulesIn(rules=[]), None)

    def add_provider(self, provider: IdentityProvider, name: str = "corp") -> None:
        body = ProviderIn(oidc=provider.settings, secret=SECRET)
        self.signon.providers.put_provider(name, body)

    def person(self, name: str = "alice", *groups: str, **more: Any) -> ExternalPerson:
        claims = {"preferred_username": name}
        facts = {"subject": f"sub-{name}", "claims": claims, **more}
        return ExternalPerson(
            provider="corp", issuer="https://id", name=name, groups=groups, **facts
        )

    def log_in(self, name: str = "alice", *groups: str, **more: Any) -> LoginOut:
        return self.signon.sessions.open_token(self.person(name, *groups, **more))

    def bearer(self, text: str) -> Principal:
        return self.tenancy.principal_for_token(text)

    def user(self, name: str, **more: Any) -> Principal:
        self.tenancy.users.create(self.owner, UserIn(name=name, **more))
        made = self.tenancy.tokens.create(self.owner, TokenIn(user=name, may_mint=True))
        return self.bearer(made.token or "")

    def peer(self, uid: int) -> Principal:
        return self.tenancy.principal_for_peer(PeerProcess(os.getpid(), uid, uid, (uid,)))

    def sleep(self, seconds: float) -> None:
        self.clock.now_ns += int(seconds * SECOND_NS)

    def events(self, kind: str) -> list[dict[str, Any]]:
        query = sa.select(events.c.data).where(events.c.kind == kind).order_by(events.c.seq)
        with self.store.read() as connection:
            return [dict(row.data) for row in connection.execute(query)]

    def _count_jobs(
        self, _connection: sa.Connection, _tenant_id: int | None, user_id: int | None
    ) -> int:
        return self.jobs.get(user_id or 0, 0)

    # What becomes of leavers' jobs, as the package that has them answers.

    def check(self, caller: Principal, choice: LeaverChoice, *, keep_seconds: int | None) -> None:
        if choice.heir is not None:
            self.tenancy.users.get(caller, choice.heir)

    def choose(self, _connection: sa.Connection, leaver: LeaverFacts, _now_ns: int) -> LeaverChoice:
        return leaver.choice or self.policy

    def record(self, write: WriteTransaction, leaver: LeaverFacts) -> None:
        self.leavers.append(leaver)
        if self.choose(write.connection, leaver, 0).act == "stop":
            self.stopped.append(leaver.user_id)

    def settle(self, user_ids: Collection[int]) -> LeaverCounts:
        return LeaverCounts(sum(self.jobs.get(one, 0) for one in user_ids if one in self.stopped))


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new database, made once: the tables take longer to make than most tests to run."""
    made = tmp_path_factory.mktemp("signon") / "gpupool.db"
    engine = connect(sqlite_url(made))
    prepare_database(engine, time.time_ns(), "p-test")
    engine.dispose()
    return made


@pytest.fixture
def door(tmp_path: Path, empty: Path) -> Iterator[Door]:
    """A pool with the tenants nlp and vision, and no rule."""
    shutil.copy(empty, tmp_path / "gpupool.db")
    engine = connect(sqlite_url(tmp_path / "gpupool.db"))
    now_ns = time.time_ns()
    clock = HandClock()
    store = Store(engine, LedgerClock(now_ns, boot=clock))
    store.take("here")
    yield Door(store, clock)
    engine.dispose()


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as running:
        yield running
