"""What a person of SCIM means for its user in the pool: made, changed by the rules, or disabled.

In the caller's transaction. Rights are those of the account's tenant alone, whatever the rules say
of others: the rules of the pool's own roles count at logins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from gpupool.model.tenant import OWN_TENANT_ROLES, Principal, UserRole
from gpupool.signon import tables
from gpupool.signon.admission import AdmissionFacts, admit_person, suspend_identity
from gpupool.signon.leaver_facts import LeaverFacts, LeaverJobs
from gpupool.signon.rule_service import read_rules
from gpupool.signon.rules import ExternalPerson, SignonRule
from gpupool.signon.scim.library import load_scim
from gpupool.signon.scim.tables import scim_users
from gpupool.store.database import WriteTransaction
from gpupool.tenancy.tables import users

Row = sa.Row[Any]


@dataclass(frozen=True)
class ScimIssuer:
    """The provider that an account stands for."""

    account_id: int
    name: str
    tenant_id: int
    tenant: str
    issuer: str


class PersonRights:
    """Applies persons to users. Holds no state of its own."""

    def __init__(self, facts: AdmissionFacts, jobs: LeaverJobs) -> None:
        self._facts = facts
        self._jobs = jobs

    def apply(
        self, write: WriteTransaction, issuer: ScimIssuer, row: Row, groups: Sequence[str]
    ) -> None:
        """Give the user of a person what its groups give now; disable it where it is not active.

        A person without a rule has no user, or a disabled one, and is a resource all the same.

        Raises the library's UniquenessException where the person is of another tenant.
        """
        self._move_subject(write, row)
        identity = _find_identity(write, issuer, row)
        user = None if identity is None else _read_user(write, identity.user_id)
        if user is not None and user.tenant_id != issuer.tenant_id:
            raise load_scim().UniquenessException(
                detail=f"{row.user_name} cannot be managed by {issuer.name}"
            )
        if not row.active:
            self._suspend(write, issuer, identity, user, "the provider has deactivated it")
        elif user is None or UserRole(user.role) in OWN_TENANT_ROLES:
            self._admit(write, issuer, row, groups)
        known = _find_identity(write, issuer, row)
        values = {"identity_id": None if known is None else known.id, "is_due": False}
        write.execute(scim_users.update().where(scim_users.c.id == row.id).values(**values))

    def remove(self, write: WriteTransaction, issuer: ScimIssuer, row: Row) -> None:
        """Disable the user of a person that is deleted at the provider."""
        identity = _find_identity(write, issuer, row)
        user = None if identity is None else _read_user(write, identity.user_id)
        if user is None or user.tenant_id == issuer.tenant_id:
            self._suspend(write, issuer, identity, user, "the provider has deleted it")

    def _admit(
        self, write: WriteTransaction, issuer: ScimIssuer, row: Row, groups: Sequence[str]
    ) -> None:
        person = ExternalPerson(
            provider=issuer.name,
            issuer=issuer.issuer,
            subject=_name_subject(row),
            name=row.user_name,
            groups=tuple(groups),
            claims={"preferred_username": row.user_name},
        )
        rules = _read_tenant_rules(write.connection, issuer)
        # A refusal, as of a user that an admin disabled, counts at a login too.
        admit_person(write, self._facts, person, rules)

    def _suspend(
        self,
        write: WriteTransaction,
        issuer: ScimIssuer,
        identity: Row | None,
        user: Row | None,
        reason: str,
    ) -> None:
        if identity is None or user is None:
            return
        if suspend_identity(write, identity, reason):
            leaver = LeaverFacts(user.id, user.tenant_id, issuer.name, reason, issuer.name)
            self._jobs.record(write, leaver)

    def _move_subject(self, write: WriteTransaction, row: Row) -> None:
        """Follow a changed externalId: the person stays the same user."""
        if row.identity_id is None:
            return
        i = tables.identities.c
        known = write.execute(sa.select(tables.identities).where(i.id == row.identity_id)).one()
        subject = _name_subject(row)
        if known.subject == subject:
            return
        taken = sa.select(i.id).where(i.issuer == known.issuer, i.subject == subject)
        if write.execute(taken).first() is not None:
            raise load_scim().UniquenessException(
                detail=f"externalId {subject[:80]!r} belongs to another person"
            )
        write.execute(tables.identities.update().where(i.id == known.id).values(subject=subject))


def read_issuer(connection: sa.Connection, caller: Principal) -> ScimIssuer:
    """Return the provider that a service account stands for: the one of its name, or itself."""
    query = sa.select(tables.providers).where(tables.providers.c.name == caller.user)
    row = connection.execute(query).one_or_none()
    if row is None:
        issuer = f"scim:{caller.user}"
    elif row.kind == "oidc":
        issuer = str(row.settings["issuer"])
    else:
        # As `ldap.directory` names it.
        issuer = f"ldap:{caller.user}"
    return ScimIssuer(caller.user_id, caller.user, caller.tenant_id, caller.tenant, issuer)


def _name_subject(row: Row) -> str:
    """Return the identifier that a login would name: the externalId, where the provider sends one."""
    return str(row.external_id or row.user_name)


def _find_identity(write: WriteTransaction, issuer: ScimIssuer, row: Row) -> Row | None:
    i = tables.identities.c
    same = sa.and_(i.issuer == issuer.issuer, i.subject == _name_subject(row))
    return write.execute(sa.select(tables.identities).where(same)).one_or_none()


def _read_user(write: WriteTransaction, user_id: int) -> Row:
    return write.execute(sa.select(users).where(users.c.id == user_id)).one()


def _read_tenant_rules(connection: sa.Connection, issuer: ScimIssuer) -> list[SignonRule]:
    """Read the rules that may count: of the account's tenant, for roles inside it.

    Without their Unix accounts: those are bound at a login, which the person itself makes.
    """
    return [
        replace(rule, run_as=None)
        for rule in read_rules(connection)
        if rule.tenant == issuer.tenant and rule.role in OWN_TENANT_ROLES
    ]
