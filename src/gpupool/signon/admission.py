"""What every login by a provider ends in: a user with the rights that the rules give now.

Decides and writes in the caller's transaction. A refusal is a value: what it changes, as the
disabling of a person without rights, is committed with it.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import GpupoolError
from gpupool.model.tenant import UnixIdentity, UserRole
from gpupool.signon import tables
from gpupool.signon.leaver_facts import (
    GROUPS_GRACE_SECONDS,
    LOST_GROUPS,
    LeaverFacts,
    LeaverJobs,
    describe_move,
)
from gpupool.signon.local.foreign_passwords import drop_foreign_password
from gpupool.signon.rule_service import describe_groups, find_rule_account, read_rules
from gpupool.signon.rules import ExternalPerson, SignonRule, choose_rule
from gpupool.signon.scim.tables import scim_users
from gpupool.store.database import WriteTransaction
from gpupool.tenancy.accounts import UnixAccounts
from gpupool.tenancy.sessions.ending import end_sessions
from gpupool.tenancy.sessions.tables import sessions
from gpupool.tenancy.tables import tenants, tokens, users
from gpupool.tenancy.tenants import LiveJobs
from gpupool.tenancy.token_tree import end_foreign_tokens, end_tokens
from gpupool.tenancy.user_names import free_person_name
from gpupool.tenancy.users import PEOPLE, insert_user, keep_an_admin, select_users

logger = logging.getLogger(__name__)

Row = sa.Row[Any]


@dataclass(frozen=True)
class Admission:
    """A person that may log in."""

    user_id: int
    identity_id: int
    user: str
    tenant_id: int


@dataclass(frozen=True)
class AdmissionRefusal:
    """A person that may not, and why."""

    reason: str
    hint: str


@dataclass(frozen=True)
class AdmissionFacts:
    """What admission asks of the pool beside its tables."""

    accounts: UnixAccounts
    live_jobs: LiveJobs
    leaver_jobs: LeaverJobs


def admit_person(
    write: WriteTransaction,
    facts: AdmissionFacts,
    person: ExternalPerson,
    rules: Sequence[SignonRule] | None = None,
) -> Admission | AdmissionRefusal:
    """Make or change the user of a person by the first rule that matches; None: of all rules.

    A person whose groups give no role in the tenant of its user any more is a leaver of it.
    """
    chosen = choose_rule(read_rules(write.connection) if rules is None else rules, person)
    known = _find_identity(write, person)
    if chosen is None:
        if known is not None:
            _record_leaver(write, facts, known, LOST_GROUPS)
        return AdmissionRefusal(
            f"no rule of this pool gives rights to {describe_groups(person.groups)}",
            "an admin types: gpupool sso rule-add --group GROUP --role user --tenant TENANT",
        )
    if known is None and _is_deactivated(write, person):
        return _make_deactivated(person.name[:80])
    rule = chosen[1]
    account = _find_account(write, facts, rule, person)
    if known is None:
        known = _join_person(write, rule, account, person)
    user = write.execute(sa.select(users).where(users.c.id == known.user_id)).one()
    refusal = _refuse_user(write, user, known)
    if refusal is None:
        refusal = _change_user(write, facts, user, known, rule, account)
    if refusal is not None:
        return refusal
    seen = {"groups": list(person.groups), "seen_ns": write.now_ns, "suspended_ns": None}
    mine = tables.identities.c.id == known.id
    write.execute(tables.identities.update().where(mine).values(**seen))
    tenant_id = _find_tenant_id(write, rule.tenant)
    return Admission(user.id, known.id, user.name, tenant_id)


def suspend_identity(write: WriteTransaction, identity: Row, reason: str) -> bool:
    """Disable the user of a person that has no rights any more; end its tokens and sessions.

    Returns:
        Whether it was enabled. The pool's last admin stays enabled.
    """
    row = write.execute(select_users().where(users.c.id == identity.user_id)).one_or_none()
    if row is None or row.disabled_ns is not None:
        return False
    try:
        keep_an_admin(write.connection, row, {"disabled_ns": write.now_ns})
    except GpupoolError:
        return False
    mine = users.c.id == row.id
    write.execute(
        users.update().where(mine).values(disabled_ns=write.now_ns, generation=row.generation + 1)
    )
    this = tables.identities.c.id == identity.id
    write.execute(tables.identities.update().where(this).values(suspended_ns=write.now_ns))
    ended = end_tokens(write, tokens.c.user_id == row.id)
    ended += end_sessions(write, sessions.c.user_id == row.id)
    data = {"changed": ["disabled"], "reason": reason, "ended": ended}
    write.event("user.changed", row.name, tenant_id=row.tenant_id, data=data)
    write.announce(PEOPLE)
    return True


def _record_leaver(
    write: WriteTransaction, facts: AdmissionFacts, identity: Row, reason: str
) -> None:
    """Disable the user of an identity, and write down that its jobs go by the policy of leavers."""
    if not suspend_identity(write, identity, reason):
        return
    user = write.execute(sa.select(users).where(users.c.id == identity.user_id)).one()
    leaver = LeaverFacts(
        user.id,
        user.tenant_id,
        identity.provider,
        reason,
        identity.provider,
        grace_seconds=GROUPS_GRACE_SECONDS,
    )
    facts.leaver_jobs.record(write, leaver)


def _find_identity(write: WriteTransaction, person: ExternalPerson) -> Row | None:
    query = sa.select(tables.identities).where(
        tables.identities.c.issuer == person.issuer, tables.identities.c.subject == person.subject
    )
    return write.execute(query).one_or_none()


def _join_person(
    write: WriteTransaction,
    rule: SignonRule,
    account: UnixIdentity | None,
    person: ExternalPerson,
) -> Row:
    """Make the identity of a person that logs in for the first time, and its user if it has none."""
    user_id = _find_same_person(write, account)
    if user_id is None:
        name = free_person_name(write.connection, person.name)
        tenant_id = _find_tenant_id(write, rule.tenant)
        uid = None if account is None or _is_taken(write, account.uid) else account.uid
        user_id = insert_user(write, name, tenant_id, rule.role, unix_uid=uid)
        data = {"role": str(rule.role), "tenant": rule.tenant, "provider": person.provider}
        write.event("user.created", name, tenant_id=tenant_id, data=data)
        write.announce(PEOPLE)
    key = write.insert(
        tables.identities,
        provider=person.provider,
        issuer=person.issuer,
        subject=person.subject,
        user_id=user_id,
        groups=list(person.groups),
        seen_ns=write.now_ns,
        created_ns=write.now_ns,
    )
    return write.execute(sa.select(tables.identities).where(tables.identities.c.id == key)).one()


def _find_account(
    write: WriteTransaction, facts: AdmissionFacts, rule: SignonRule, person: ExternalPerson
) -> UnixIdentity | None:
    """Find the Unix account of a person; None: it has none, or a former person of its name has it.

    A provider gives names again. Until an admin makes the account the new person's, that would run
    jobs with the former person's files.
    """
    account = find_rule_account(facts.accounts, rule, person)
    # An account of another name is shared by all persons of a rule, or of a claim as `team`.
    if account is None or account.name != person.name:
        return account
    bound = sa.or_(users.c.unix_uid == account.uid, users.c.run_as_uid == account.uid)
    query = sa.select(users.c.name, users.c.unix_uid, tables.identities.c.subject)
    query = query.join_from(users, tables.identities).where(
        tables.identities.c.provider == person.provider,
        tables.identities.c.issuer == person.issuer,
        bound,
    )
    found = write.execute(query).all()
    if any(row.subject == person.subject and row.unix_uid == account.uid for row in found):
        return account
    others = [row.name for row in found if row.subject != person.subject]
    if others:
        logger.warning(
            "%s gets no Unix account by its login: %s is that of %s, another person of %s",
            person.name,
            account.name,
            others[0],
            person.provider,
        )
    return None if others else account


def _find_same_person(write: WriteTransaction, account: UnixIdentity | None) -> int | None:
    """Find the user that the person is already on the pool's machine: one person is one user.

    Never an admin's: a claim of the provider must not reach rights that no rule gives.
    """
    if account is None:
        return None
    query = select_users().where(
        users.c.unix_uid == account.uid,
        users.c.role != str(UserRole.ADMIN),
        users.c.id.not_in(sa.select(tables.identities.c.user_id)),
    )
    row = write.execute(query).one_or_none()
    return None if row is None else int(row.id)


def _is_taken(write: WriteTransaction, uid: int) -> bool:
    return write.execute(sa.select(users.c.id).where(users.c.unix_uid == uid)).first() is not None


def _find_tenant_id(write: WriteTransaction, name: str) -> int:
    return int(write.execute(sa.select(tenants.c.id).where(tenants.c.name == name)).scalar_one())


def _refuse_user(write: WriteTransaction, user: Row, identity: Row) -> AdmissionRefusal | None:
    if user.retired_ns is not None:
        return AdmissionRefusal(
            f"the user {user.name} of this login was deleted", "ask an admin of the pool"
        )
    # The instants are the same where a login or a sync disabled it; an admin's is another.
    if user.disabled_ns is not None and user.disabled_ns != identity.suspended_ns:
        return AdmissionRefusal(
            f"the user {user.name} was disabled by an admin",
            f"an admin types: gpupool user set {user.name} --enable",
        )
    inactive = sa.select(scim_users.c.id).where(
        scim_users.c.identity_id == identity.id, scim_users.c.active.is_(sa.false())
    )
    if user.disabled_ns is not None and write.execute(inactive).first() is not None:
        return _make_deactivated(user.name)
    return None


def _is_deactivated(write: WriteTransaction, person: ExternalPerson) -> bool:
    """Return whether the provider has deactivated a person that has no user here, by SCIM."""
    subject = sa.func.coalesce(sa.func.nullif(scim_users.c.external_id, ""), scim_users.c.user_name)
    # The account of a provider has its name.
    query = sa.select(scim_users.c.id).join(users, users.c.id == scim_users.c.account_id)
    query = query.where(
        users.c.name == person.provider,
        users.c.retired_ns.is_(None),
        subject == person.subject,
        scim_users.c.active.is_(sa.false()),
    )
    return write.execute(query).first() is not None


def _make_deactivated(name: str) -> AdmissionRefusal:
    return AdmissionRefusal(
        f"the identity provider has deactivated {name} by SCIM",
        "activate the person at the provider, which then tells the pool",
    )


def _change_user(
    write: WriteTransaction,
    facts: AdmissionFacts,
    user: Row,
    identity: Row,
    rule: SignonRule,
    account: UnixIdentity | None,
) -> AdmissionRefusal | None:
    """Give the user what the rule says now."""
    wanted: dict[str, Any] = {
        "role": str(rule.role),
        "tenant_id": _find_tenant_id(write, rule.tenant),
        "default_project": rule.project,
        "disabled_ns": None,
    }
    if rule.run_as is not None:
        wanted["run_as_uid"] = None if account is None else account.uid
    changes = {name: value for name, value in wanted.items() if getattr(user, name) != value}
    if not changes:
        return None
    mine = sa.and_(tokens.c.user_id == user.id, tokens.c.kind == "session")
    if "tenant_id" in changes:
        count = facts.live_jobs(write.connection, None, user.id)
        if count:
            # Its rights in the earlier tenant end all the same.
            _record_leaver(write, facts, identity, describe_move(rule.tenant))
            jobs = "1 job" if count == 1 else f"{count} jobs"
            return AdmissionRefusal(
                f"{user.name} now belongs to the tenant {rule.tenant} and still has {jobs} in "
                "another one",
                f"an admin of that tenant ends them: gpupool ps --user {user.name}; gpupool stop",
            )
    try:
        keep_an_admin(write.connection, user, changes)
    except GpupoolError as error:
        return AdmissionRefusal(error.message, error.hint)
    end_foreign_tokens(write, user, changes)
    drop_foreign_password(write, user, changes)
    if "role" in changes or "tenant_id" in changes:
        # Sessions of earlier rights end; the login that is under way makes a new one.
        end_tokens(write, mine)
        end_sessions(write, sessions.c.user_id == user.id)
    write.execute(
        users.update()
        .where(users.c.id == user.id)
        .values(**changes, generation=user.generation + 1)
    )
    tenant_id = wanted["tenant_id"]
    data = {"changed": sorted(changes), "reason": "login"}
    write.event("user.changed", user.name, tenant_id=tenant_id, data=data)
    write.announce(PEOPLE)
    return None
