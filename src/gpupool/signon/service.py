"""Everything about sign-on behind one door, and the test of a provider."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from gpupool.base.errors import BadOption, GpupoolError
from gpupool.model.tenant import Principal
from gpupool.signon.admission import AdmissionFacts
from gpupool.signon.former_links import end_former_links
from gpupool.signon.ldap.directory import LdapDirectory
from gpupool.signon.ldap.service import LdapLogins
from gpupool.signon.leaver_facts import LeaverJobs
from gpupool.signon.leavers import LeaverService
from gpupool.signon.local.foreign_passwords import PasswordKeeper
from gpupool.signon.local.passwords import PasswordHashes
from gpupool.signon.local.service import LocalLogins
from gpupool.signon.oidc.client import OidcClient, settings_of
from gpupool.signon.oidc.service import OidcLogins
from gpupool.signon.providers import LOCAL, ProviderRecord, ProviderService
from gpupool.signon.rule_service import RuleService
from gpupool.signon.scim.service import ScimService
from gpupool.signon.sessions import OpenSession, PersonSessions
from gpupool.store.database import Store
from gpupool.tenancy.accounts import UnixAccounts
from gpupool.tenancy.service import TenancyService
from gpupool.tenancy.tenants import LiveJobs
from gpupool.wire.people import LoginOut
from gpupool.wire.signon import (
    LoginWayOut,
    OidcSettings,
    PasswordLoginIn,
    ProviderTestOut,
    SyncIn,
    SyncOut,
)

T = TypeVar("T")


class SignonService:
    """Logins by providers and passwords. Thread-safe; methods block on provider and store.

    Args:
        store: of the pool.
        tenancy: users and tokens.
        live_jobs: counts jobs of a tenant or user.
        leaver_jobs: what becomes of the jobs of users that leave.
        accounts: Unix accounts; tests give others.
        hashes: of passwords; tests give cheaper ones.
        clock: seconds that only grow.
    """

    def __init__(
        self,
        store: Store,
        tenancy: TenancyService,
        live_jobs: LiveJobs,
        leaver_jobs: LeaverJobs,
        accounts: UnixAccounts | None = None,
        hashes: PasswordHashes | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        accounts = accounts or UnixAccounts()
        facts = AdmissionFacts(accounts, live_jobs, leaver_jobs)
        self.providers = ProviderService(store)
        self.rules = RuleService(store, accounts)
        self.sessions = PersonSessions(store, tenancy.tokens, facts)
        self._client = OidcClient(clock, self._read_wall_clock)
        self.oidc = OidcLogins(store, self.providers, self.sessions, self._client)
        self.ldap = LdapLogins(self.providers, clock)
        self.local = LocalLogins(store, tenancy.tokens, hashes or PasswordHashes())
        tenancy.users.passwords = PasswordKeeper()
        self._store = store
        self.scim = ScimService(store, facts, leaver_jobs)
        self._leavers = LeaverService(store, self.providers, facts, leaver_jobs)
        store.commit_steps["former logins"] = end_former_links

    def list_ways(self) -> list[LoginWayOut]:
        """List the ways to log in, for a stranger."""
        return self.providers.list_ways(has_passwords=self.local.has_accounts())

    def open_token(self, body: PasswordLoginIn) -> LoginOut:
        """Exchange a password, local or of a directory, for a session of a command line.

        Raises:
            WrongPassword: user, password or code is wrong.
            LoginLocked: too many were wrong.
            SignonRefused: the person has no rights here.
            UnknownProvider: there is no such directory.
            ProviderUnreachable: it does not answer.
        """
        if body.provider is None or body.provider == LOCAL:
            return self.local.open_token(body)
        return self.sessions.open_token(self.ldap.authenticate(body.provider, body))

    def open_session(self, body: PasswordLoginIn, opener: OpenSession[T]) -> T:
        """Exchange a password for the session that `opener` makes. Raises as `open_token`."""
        if body.provider is None or body.provider == LOCAL:
            return self.local.open_session(body, opener)[1]
        person = self.ldap.authenticate(body.provider, body)
        return self.sessions.open_session(person, opener)

    def check_provider(self, name: str) -> ProviderTestOut:
        """Ask a provider what a login would ask it, without a login. Raises UnknownProvider."""
        provider = self.providers.read_one(name)
        steps: list[str] = []
        try:
            if provider.oidc is not None:
                self._check_oidc(provider, steps)
            else:
                count = LdapDirectory(provider).count_persons()
                many = "1,000 or more" if count >= 1000 else str(count)
                steps.append(f"connected with TLS and bound; {many} persons below the base")
        except GpupoolError as error:
            steps.append(f"failed: {error.message}")
            return ProviderTestOut(ok=False, steps=steps)
        return ProviderTestOut(ok=True, steps=steps)

    def sync(self, caller: Principal, body: SyncIn) -> SyncOut:
        """Disable the users that left. Raises what `LeaverService.sync` does."""
        return self._leavers.sync(caller, body)

    def _check_oidc(self, provider: ProviderRecord, steps: list[str]) -> None:
        settings: OidcSettings = settings_of(provider)
        metadata = self._client.read_metadata(provider)
        steps.append(f"metadata of {metadata.issuer}")
        keys = self._client.list_keys(provider)
        if not keys:
            raise BadOption("the provider publishes no key for signatures")
        steps.append(f"{len(keys)} keys for signatures")
        browser = "GET /sso works" if settings.pool_url else "needs --pool-url"
        steps.append(f"login in a browser: {browser}")
        device = "works" if metadata.device else "the provider has none"
        steps.append(f"device flow of gpupool login --sso: {device}")

    def _read_wall_clock(self) -> float:
        """Return seconds since 1970 as the ledger counts them, which never go back."""
        return self._store.clock.now_ns() / 1e9
