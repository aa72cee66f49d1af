"""Plans and makes handovers. Each unit is one transaction; a request that was cut off is repeated."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from gpupool.allocations.handover.refusals import HeirFacts, find_refusal
from gpupool.allocations.handover.units import OwnedUnit, read_account, read_units
from gpupool.allocations.handover.writing import (
    HandoverAuthor,
    HandoverParties,
    write_handover,
)
from gpupool.allocations.services.owner_accounts import OwnerAccounts, find_account
from gpupool.allocations.submission.queue_limits import PendingGate
from gpupool.base.errors import BadOption, HandoverRefused, NotFound, NoUnixUser
from gpupool.base.units import NANOS_PER_SECOND
from gpupool.billing.budgets.standing import BudgetStanding, read_budgets, read_standing
from gpupool.billing.budgets.tables import budgets
from gpupool.metering.service import MeteringService
from gpupool.model.tenant import PERMISSIONS, Permission, Principal, UserRole
from gpupool.store import idempotency
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.service import TenancyService
from gpupool.tenancy.tables import users
from gpupool.tenancy.users import check_may_manage, find_user, select_users
from gpupool.wire.leavers.handover import HandoverIn, HandoverOut, HandoverUnitOut

Row = sa.Row[Any]
#: A unit, and why it stays; None: it is handed over.
UnitPlan = tuple[OwnedUnit, str | None]


class HandoverService:
    """Serves handovers. Thread-safe; begins and commits its own transactions."""

    def __init__(
        self,
        store: Store,
        tenancy: TenancyService,
        metering: MeteringService,
        gate: PendingGate,
    ) -> None:
        self._store = store
        self._tenancy = tenancy
        self._metering = metering
        self._gate = gate

    def hand_over(self, caller: Principal, name: str, body: HandoverIn) -> HandoverOut:
        """Hand what a user owns over to another one, or plan it. Idempotent.

        Raises:
            NotFound: The caller's scope lacks one of both users, or the user a named unit.
            NoPermission: The caller does not manage the user.
            HandoverRefused: The heir cannot take jobs over.
        """
        with self._store.read() as connection:
            owner = find_user(connection, caller, name)
            check_may_manage(caller, owner)
            heir = find_user(connection, caller, body.to)
            check_heir(owner, heir)
        takes_accounts = caller.has_permission(Permission.MANAGE_POOL)
        plan = self.plan_units(owner, heir, body.only, takes_accounts=takes_accounts)
        if body.dry_run:
            return _describe(owner, heir, body, plan, [one for one, why in plan if why is None])
        author = HandoverAuthor(caller.user, caller.role.value, caller.tenant, "by hand")
        done = self.write_units(owner, heir, author, [one for one, why in plan if why is None])
        return _describe(owner, heir, body, plan, done)

    def plan_units(
        self,
        owner: Row,
        heir: Row,
        only: Collection[str] | None = None,
        *,
        takes_accounts: bool,
    ) -> list[UnitPlan]:
        """Return what a user owns, each unit with why it would stay; None: it would go.

        Raises:
            NotFound: A named unit is none of the user's.
        """
        now_ns = self._store.clock.now_ns()
        with self._store.read() as connection:
            units = [
                self._find_account(unit, owner) for unit in read_units(connection, owner.id, now_ns)
            ]
            spent = _read_spent(connection, heir, now_ns // NANOS_PER_SECOND)
        if only is not None:
            units = _choose_units(units, owner.name, only)
        facts = self._build_facts(heir, spent, takes_accounts=takes_accounts)
        plan: list[UnitPlan] = []
        waiting = 0
        for unit in units:
            refusal = find_refusal(unit, facts, waiting)
            waiting += unit.waiting if refusal is None else 0
            plan.append((unit, refusal))
        return plan

    def write_units(
        self,
        owner: Row,
        heir: Row,
        author: HandoverAuthor,
        units: Sequence[OwnedUnit],
        note: Callable[[WriteTransaction], None] | None = None,
    ) -> list[OwnedUnit]:
        """Hand these units over, each in its own transaction; return those that changed.

        Args:
            note: called in the transaction of each unit that changed.
        """
        parties = HandoverParties(owner.id, owner.name, heir.id, heir.name)
        done: list[OwnedUnit] = []
        for unit in units:
            # No key is kept: a repeated request finds the units that are left.
            with idempotency.defer_key(), self._store.write() as write:
                # In the transaction: a heir that was disabled meanwhile gets nothing more.
                fresh = find_enabled(write.connection, heir.id)
                if fresh is None or fresh.tenant_id != heir.tenant_id:
                    break
                if write_handover(write, self._metering, unit, parties, author):
                    if note is not None:
                        note(write)
                    done.append(unit)
        return done

    def _find_account(self, unit: OwnedUnit, owner: Row) -> OwnedUnit:
        """Find what a schedule runs as now: so it goes on with its new owner."""
        if unit.kind != "schedule":
            return unit
        role = UserRole(owner.role)
        principal = Principal(owner.id, owner.name, owner.tenant_id, unit.tenant, role)
        accounts = OwnerAccounts(principal, owner.unix_uid, owner.run_as_uid)
        try:
            run_as = find_account(self._tenancy, unit.run_as, accounts)
        except NoUnixUser:
            return replace(unit, lacks_account=True)
        return replace(unit, run_as=run_as, account=read_account(run_as))

    def _build_facts(
        self, heir: Row, spent: Sequence[BudgetStanding], *, takes_accounts: bool
    ) -> HeirFacts:
        is_admin = Permission.MANAGE_POOL in PERMISSIONS[UserRole(heir.role)]
        uids = {heir.unix_uid, heir.run_as_uid} - {None}
        return HeirFacts(
            heir.id,
            heir.name,
            heir.tenant_id,
            frozenset(uids),
            takes_accounts or self._tenancy.identity.own_pool,
            is_admin,
            spent,
            None if is_admin else self._gate.find_room(heir.tenant, heir.id),
        )


def check_heir(owner: Row, heir: Row) -> None:
    """Refuse a user that cannot own jobs of another.

    Raises:
        BadOption: It is the same user.
        HandoverRefused: It is disabled, may not run jobs, or belongs to another tenant.
    """
    if owner.id == heir.id:
        raise BadOption(f"{owner.name} owns them already", hint="name another user with --to")
    check_heir_of_tenant(heir, owner.tenant)


def check_heir_of_tenant(heir: Row, tenant: str | None) -> None:
    """Refuse a user that cannot own jobs of a tenant; None: of its own one.

    Raises:
        HandoverRefused: It is disabled, may not run jobs, or belongs to another tenant.
    """
    hint = f"gpupool user list  shows the users of {tenant or heir.tenant}"
    if heir.disabled_ns is not None:
        raise HandoverRefused(f"{heir.name} is disabled and takes no jobs over", hint=hint)
    if tenant not in (None, heir.tenant):
        raise HandoverRefused(
            f"{heir.name} belongs to the tenant {heir.tenant}, and the jobs to {tenant}", hint=hint
        )
    if Permission.RUN not in PERMISSIONS[UserRole(heir.role)]:
        raise HandoverRefused(
            f"{heir.name} has the role {heir.role}, which may not run jobs", hint=hint
        )


def find_enabled(connection: sa.Connection, user_id: int) -> Row | None:
    """Find a user that is neither disabled nor deleted, with the name of its tenant."""
    query = select_users().where(users.c.id == user_id, users.c.disabled_ns.is_(None))
    return connection.execute(query).one_or_none()


def _choose_units(units: Sequence[OwnedUnit], owner: str, only: Collection[str]) -> list[OwnedUnit]:
    known = {name for unit in units for name in (unit.public_id, unit.name)}
    unknown = [name for name in only if name not in known]
    if unknown:
        raise NotFound(
            f"{owner} owns no {', '.join(unknown[:5])}",
            hint=f"gpupool user handover {owner} --to USER --dry-run  lists what it owns",
        )
    return [unit for unit in units if unit.public_id in only or unit.name in only]


def _read_spent(connection: sa.Connection, heir: Row, now_s: int) -> list[BudgetStanding]:
    """Read the budgets of the heir alone that are spent; its tenant's were the owner's too."""
    found = read_budgets(connection, budgets.c.user_id == heir.id, budgets.c.on_limit != "warn")
    standings = [read_standing(connection, budget, now_s) for budget in found]
    return [standing for standing in standings if standing.is_on_hold]


def _describe(
    owner: Row,
    heir: Row,
    body: HandoverIn,
    plan: Sequence[UnitPlan],
    done: Sequence[OwnedUnit],
) -> HandoverOut:
    rows = []
    for unit, refusal in plan:
        is_late = refusal is None and unit not in done
        rows.append(_describe_unit(unit, "it has ended meanwhile" if is_late else refusal))
    return HandoverOut(
        user=owner.name,
        to=heir.name,
        dry_run=body.dry_run,
        units=rows,
        handed=len(done),
        jobs=sum(unit.jobs for unit in done),
    )


def _describe_unit(unit: OwnedUnit, refusal: str | None) -> HandoverUnitOut:
    return HandoverUnitOut(
        kind=unit.kind,
        id=unit.public_id,
        name=unit.name,
        tenant=unit.tenant,
        project=unit.project,
        state=unit.state,
        jobs=unit.jobs,
        account=None if unit.account is None else unit.account.name,
        refusal=refusal,
    )
