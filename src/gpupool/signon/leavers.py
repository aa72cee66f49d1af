"""Persons that the directory no longer has, or whose groups give no rights any more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.errors import BadOption, SignonRefused
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.model.tenant import Principal
from gpupool.signon import tables
from gpupool.signon.admission import (
    AdmissionFacts,
    admit_person,
    suspend_identity,
)
from gpupool.signon.ldap.directory import LdapDirectory
from gpupool.signon.leaver_facts import (
    LOST_GROUPS,
    LeaverChoice,
    LeaverFacts,
    LeaverJobs,
    describe_move,
)
from gpupool.signon.providers import ProviderRecord, ProviderService
from gpupool.signon.rule_service import read_rules
from gpupool.signon.rules import ExternalPerson, SignonRule, choose_rule
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.tables import tenants, users
from gpupool.wire.signon import LeaverOut, SyncIn, SyncOut

Row = sa.Row[Any]
#: Fewer leavers than this are believed whatever their part is.
FEW: Final = 10
DAY_NS: Final = 86400 * NANOS_PER_SECOND


class LeaverService:
    """Disables leavers. Thread-safe; blocks on the directory, a search or two for each person."""

    def __init__(
        self,
        store: Store,
        providers: ProviderService,
        facts: AdmissionFacts,
        jobs: LeaverJobs,
    ) -> None:
        self._store = store
        self._providers = providers
        self._facts = facts
        self._jobs = jobs

    def sync(self, caller: Principal, body: SyncIn) -> SyncOut:
        """Compare the persons of a provider with the pool's users, and disable leavers.

        Persons that stay get the rights that their groups give now.

        Raises:
            UnknownProvider: there is no such provider.
            ProviderUnreachable: the directory does not answer; no user is disabled.
            BadOption: an OIDC provider without `unseen_days`, which has no list of its persons.
            SignonRefused: more than half are leavers, which is rather a wrong filter.
            GpupoolError: what is to become of their jobs cannot be.
        """
        chosen = self._make_choice(caller, body)
        provider = self._providers.read_one(body.provider)
        known = self._read_identities(provider.name)
        leavers, staying = self._divide(provider, body, known)
        _refuse_exodus(body, len(known), len(leavers))
        facts = [_build_facts(row, reason, caller, chosen) for row, reason in leavers]
        out = [self._describe(row, one) for (row, _), one in zip(leavers, facts, strict=True)]
        if body.dry_run:
            return SyncOut(checked=len(known), leavers=out, stopped=0)
        for person in staying:
            with self._store.write() as write:
                # A refusal, as of a change of tenant while jobs run, counts at the next login too.
                admit_person(write, self._facts, person)
        done: list[LeaverOut] = []
        for (row, reason), one, shown in zip(leavers, facts, out, strict=True):
            with self._store.write() as write:
                if not _is_unseen_since(write, row):
                    continue
                # In one transaction: a crash leaves no disabled user whose jobs are forgotten.
                if suspend_identity(write, row, reason):
                    self._jobs.record(write, one)
            done.append(shown)
        counts = self._jobs.settle([row.user_id for row, _ in leavers])
        return SyncOut(
            checked=len(known), leavers=done, stopped=counts.stopped, handed=counts.handed
        )

    def _make_choice(self, caller: Principal, body: SyncIn) -> LeaverChoice | None:
        if body.jobs is None:
            if body.to is not None or body.keep_seconds is not None:
                raise BadOption(
                    "a new owner or a time without what becomes of the jobs",
                    hint="--jobs hand-over --to USER, or --jobs keep --for 30d",
                )
            return None
        until_ns = None
        if body.keep_seconds is not None:
            until_ns = self._store.clock.now_ns() + body.keep_seconds * NANOS_PER_SECOND
        choice = LeaverChoice(body.jobs, until_ns, body.to)
        self._jobs.check(caller, choice, keep_seconds=body.keep_seconds)
        return choice

    def _divide(
        self, provider: ProviderRecord, body: SyncIn, known: list[Row]
    ) -> tuple[list[tuple[Row, str]], list[ExternalPerson]]:
        if provider.ldap is None:
            return self._find_unseen(provider, body, known), []
        with self._store.read() as connection:
            rules = read_rules(connection)
            has_jobs = {
                row.user_id: self._facts.live_jobs(connection, None, row.user_id) > 0
                for row in known
            }
        directory = LdapDirectory(provider)
        leavers: list[tuple[Row, str]] = []
        staying: list[ExternalPerson] = []
        with directory.open() as connection:
            for row in known:
                person = directory.find_subject(connection, row.subject)
                if person is None:
                    leavers.append((row, f"the directory {provider.name} has it no more"))
                    continue
                reason = find_leaving(rules, person, row.tenant, has_jobs=has_jobs[row.user_id])
                if reason is None:
                    staying.append(person)
                else:
                    leavers.append((row, reason))
        return leavers, staying

    def _find_unseen(
        self, provider: ProviderRecord, body: SyncIn, known: list[Row]
    ) -> list[tuple[Row, str]]:
        if body.unseen_days is None:
            raise BadOption(
                f"{provider.name} is an OIDC provider, which lists no persons",
                hint=f"gpupool sso sync {provider.name} --unseen 90   takes those that did not log "
                "in for 90 days as leavers",
            )
        oldest = self._store.clock.now_ns() - body.unseen_days * DAY_NS
        reason = f"no login for {body.unseen_days} days"
        return [(row, reason) for row in known if row.seen_ns < oldest]

    def _read_identities(self, provider: str) -> list[Row]:
        """Read the identities whose users are enabled, in the order of users."""
        query = (
            sa.select(
                tables.identities,
                users.c.name,
                users.c.tenant_id,
                tenants.c.name.label("tenant"),
            )
            .join_from(tables.identities, users)
            .join(tenants, tenants.c.id == users.c.tenant_id)
            .where(tables.identities.c.provider == provider)
            .where(users.c.disabled_ns.is_(None), users.c.retired_ns.is_(None))
            .order_by(users.c.name)
        )
        with self._store.read() as connection:
            return list(connection.execute(query))

    def _describe(self, row: Row, leaver: LeaverFacts) -> LeaverOut:
        with self._store.read() as connection:
            jobs = self._facts.live_jobs(connection, None, row.user_id)
            chosen = self._jobs.choose(connection, leaver, self._store.clock.now_ns())
        return LeaverOut(
            user=row.name,
            tenant=row.tenant,
            reason=leaver.reason,
            jobs=jobs,
            act=chosen.act,
            until_ns=chosen.until_ns,
            heir=chosen.heir,
        )


def find_leaving(
    rules: Sequence[SignonRule], person: ExternalPerson, tenant: str, *, has_jobs: bool
) -> str | None:
    """Find why a person of the directory is a leaver of its user's tenant; None: it stays.

    A user without jobs moves to another tenant at once, and leaves nothing.
    """
    chosen = choose_rule(rules, person)
    if chosen is None:
        return LOST_GROUPS
    if has_jobs and chosen[1].tenant != tenant:
        return describe_move(chosen[1].tenant)
    return None


def _is_unseen_since(write: WriteTransaction, row: Row) -> bool:
    """Return whether a person has not logged in since the sync has read it, which takes minutes.

    Its user may be another person's meanwhile, without this identity.
    """
    mine = tables.identities.c.id == row.id
    seen_ns = write.execute(sa.select(tables.identities.c.seen_ns).where(mine)).scalar_one_or_none()
    return bool(seen_ns == row.seen_ns)


def _build_facts(
    row: Row, reason: str, caller: Principal, chosen: LeaverChoice | None
) -> LeaverFacts:
    return LeaverFacts(row.user_id, row.tenant_id, row.provider, reason, caller.user, chosen)


def _refuse_exodus(body: SyncIn, known: int, leavers: int) -> None:
    if body.force or body.dry_run or leavers < FEW or leavers * 2 <= known:
        return
    raise SignonRefused(
        f"{leavers} of {known} persons of {body.provider} would be disabled, which is rather a "
        "wrong filter or base than so many leavers",
        hint=f"gpupool sso sync {body.provider} --dry-run   lists them; --force does it",
        leavers=leavers,
        checked=known,
    )
