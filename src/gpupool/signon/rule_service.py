"""The table of rules as its admins see it, and what a login would get. Thread-safe."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import BadOption, StaleGeneration
from gpupool.model.tenant import Principal, UnixIdentity, UserRole
from gpupool.signon import tables
from gpupool.signon.rules import (
    LEAST_UID,
    ExternalPerson,
    SignonRule,
    check_template,
    choose_rule,
    expand_account,
)
from gpupool.store.database import Store, WriteTransaction
from gpupool.tenancy.accounts import UnixAccounts
from gpupool.tenancy.ending.owners import find_ended_tenants
from gpupool.tenancy.tables import tenants
from gpupool.tenancy.tenants import find_project, find_tenant
from gpupool.wire.signon import LoginExplainIn, LoginExplainOut, RuleIn, RulesIn, RulesOut


class RuleService:
    """Rules from groups to rights, in order."""

    def __init__(self, store: Store, accounts: UnixAccounts) -> None:
        self._store = store
        self._accounts = accounts
        store.commit_steps["rules of sign-on"] = _delete_of_ended_tenants

    def get_rules(self) -> tuple[RulesOut, int]:
        """Return the rules and their generation."""
        with self._store.read() as connection:
            return _rules_out(connection), _read_generation(connection)

    def put_rules(
        self, caller: Principal, body: RulesIn, generation: int | None
    ) -> tuple[RulesOut, int]:
        """Set all rules; return them and their new generation. They count from the next login on.

        Args:
            caller: an admin.
            body: the rules in order.
            generation: what the caller read; None sets them whatever they are.

        Raises:
            StaleGeneration: they were changed since.
            UnknownTenant: a rule names a tenant that does not exist.
            UnknownProject: a rule names a project that its tenant lacks.
            BadOption: a provider or a template cannot be.
        """
        with self._store.write() as write:
            before = _read_generation(write.connection)
            if generation is not None and generation != before:
                raise StaleGeneration(
                    f"the rules of sign-on are at generation {before}, not {generation}",
                    hint="look again: gpupool sso rules",
                    generation=before,
                )
            rows = [_make_row(write, caller, rule) for rule in body.rules]
            write.execute(tables.rules.delete())
            for position, row in enumerate(rows, start=1):
                write.execute(tables.rules.insert().values(position=position, **row))
            _write_generation(write, before)
            out = _rules_out(write.connection)
            write.event("signon.rules_changed", "rules", data={"rules": len(rows)})
            write.answer(200, out.model_dump(mode="json"), generation=before + 1)
        return out, before + 1

    def explain(self, body: LoginExplainIn) -> LoginExplainOut:
        """Say what a person of these groups would get, without a login."""
        name = body.user or "person"
        person = ExternalPerson(
            body.provider or "",
            "",
            "",
            name,
            tuple(body.groups),
            {"preferred_username": name, "uid": name},
        )
        with self._store.read() as connection:
            rules = read_rules(connection)
        if body.provider is None:
            # Without a provider a rule of any provider may be meant.
            rules = [SignonRule(None, *_parts_of(rule)) for rule in rules]
        chosen = choose_rule(rules, person)
        if chosen is None:
            return LoginExplainOut(
                rule=None,
                role=None,
                tenant=None,
                project=None,
                run_as=None,
                text=f"refused: none of {len(rules)} rules matches "
                f"{describe_groups(person.groups)}",
            )
        number, rule = chosen
        account = self._describe_account(rule, person)
        return LoginExplainOut(
            rule=number,
            role=str(rule.role),
            tenant=rule.tenant,
            project=rule.project,
            run_as=account,
            text=f"rule {number} ({rule.group or 'every person'}): {rule.role} of {rule.tenant}"
            + (f", jobs run as {account}" if account else ", no Unix account for jobs"),
        )

    def _describe_account(self, rule: SignonRule, person: ExternalPerson) -> str | None:
        account = find_rule_account(self._accounts, rule, person)
        return None if account is None else account.name


def _delete_of_ended_tenants(write: WriteTransaction) -> None:
    """Delete the rules that give rights in tenants that end in this transaction. Idempotent."""
    ended = find_ended_tenants(write)
    if not ended:
        return
    gone = write.execute(tables.rules.delete().where(tables.rules.c.tenant_id.in_(ended)))
    if gone.rowcount:
        _write_generation(write, _read_generation(write.connection))
        count = sa.select(sa.func.count()).select_from(tables.rules)
        data = {"rules": write.execute(count).scalar_one()}
        write.event("signon.rules_changed", "rules", data=data)


def find_rule_account(
    accounts: UnixAccounts, rule: SignonRule, person: ExternalPerson
) -> UnixIdentity | None:
    """Find the Unix account of the rule; never one of the system, and none is made."""
    name = None if rule.run_as is None else expand_account(rule.run_as, person.claims)
    account = None if name is None else accounts.by_name(name)
    return None if account is None or account.uid < LEAST_UID else account


def read_rules(connection: sa.Connection) -> list[SignonRule]:
    """Read the rules in order, those of living tenants."""
    query = sa.select(tables.rules, tenants.c.name.label("tenant"), tenants.c.retired_ns)
    rows = connection.execute(
        query.join_from(tables.rules, tenants).order_by(tables.rules.c.position)
    )
    return [
        SignonRule(
            row.provider, row.group_name, UserRole(row.role), row.tenant, row.project, row.run_as
        )
        for row in rows
        if row.retired_ns is None
    ]


def describe_groups(groups: tuple[str, ...]) -> str:
    """Name the groups of a login, the first twenty."""
    if not groups:
        return "a person without groups"
    more = f" and {len(groups) - 20} more" if len(groups) > 20 else ""
    return f"the groups {', '.join(group[:80] for group in groups[:20])}{more}"


def _parts_of(rule: SignonRule) -> tuple[str | None, UserRole, str, str | None, str | None]:
    return rule.group, rule.role, rule.tenant, rule.project, rule.run_as


def _make_row(write: WriteTransaction, caller: Principal, rule: RuleIn) -> dict[str, Any]:
    tenant_id = find_tenant(write.connection, caller, rule.tenant).id
    if rule.project is not None:
        find_project(write.connection, tenant_id, rule.project)
    if rule.run_as is not None:
        check_template(rule.run_as)
    if rule.provider is not None:
        known = sa.select(tables.providers.c.id).where(tables.providers.c.name == rule.provider)
        if write.execute(known).first() is None:
            raise BadOption(
                f"no identity provider {rule.provider!r} for the rule of {rule.group!r}",
                hint="gpupool sso list",
            )
    return {
        "provider": rule.provider,
        "group_name": rule.group,
        "role": rule.role,
        "tenant_id": tenant_id,
        "project": rule.project,
        "run_as": rule.run_as,
    }


def _rules_out(connection: sa.Connection) -> RulesOut:
    return RulesOut(
        rules=[
            RuleIn(
                provider=rule.provider,
                group=rule.group,
                role=str(rule.role),
                tenant=rule.tenant,
                project=rule.project,
                run_as=rule.run_as,
            )
            for rule in read_rules(connection)
        ]
    )


def _read_generation(connection: sa.Connection) -> int:
    found = connection.execute(sa.select(tables.state.c.rules_generation)).scalar_one_or_none()
    return 1 if found is None else int(found)


def _write_generation(write: WriteTransaction, before: int) -> None:
    if write.execute(tables.state.update().values(rules_generation=before + 1)).rowcount == 0:
        write.execute(tables.state.insert().values(id=1, rules_generation=before + 1))
