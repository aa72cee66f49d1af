"""Finds templates: those of the pool with the shipped ones, and those of tenants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from gpupool.base.errors import UnknownTemplate
from gpupool.model.tenant import Permission, Principal
from gpupool.signon.tables import identities
from gpupool.templates.catalogue import read_catalogue
from gpupool.templates.tables import template_versions, templates
from gpupool.templates.values import describe_bounds
from gpupool.tenancy.tables import tenants
from gpupool.wire.templates.documents import TemplateIn, TemplateUsers
from gpupool.wire.templates.uses import TemplateOut, TemplateRow


@dataclass(frozen=True)
class StoredVersion:
    """One version; what is None is of a shipped one."""

    document: TemplateIn
    user_id: int | None = None
    created_ns: int | None = None


@dataclass(frozen=True)
class Template:
    """A template with all its versions. `row_id` is None while the database has nothing of it."""

    name: str
    tenant_id: int | None
    tenant: str | None
    row_id: int | None
    enabled: bool
    default_version: int | None
    versions: Mapping[int, StoredVersion]

    @property
    def version(self) -> int:
        """The version that is used where none is named."""
        # A version that is gone is no default any more.
        if self.default_version in self.versions:
            return int(self.default_version or 0)
        return max(self.versions)

    @property
    def is_shipped(self) -> bool:
        return any(version.created_ns is None for version in self.versions.values())

    def find_document(self, version: int | None) -> TemplateIn:
        """Return a version's document; None: of the default version. Raises UnknownTemplate."""
        found = self.versions.get(self.version if version is None else version)
        if found is None:
            raise UnknownTemplate(
                f"template {self.name} has no version {version}; it has "
                + ", ".join(map(str, sorted(self.versions))),
                hint=f"gpupool template versions {self.name}",
            )
        return found.document

    def describe(self) -> TemplateRow:
        document = self.versions[self.version].document
        return TemplateRow(
            name=self.name,
            tenant=self.tenant,
            summary=document.summary,
            version=self.version,
            versions=sorted(self.versions),
            enabled=self.enabled,
            shipped=self.is_shipped,
        )

    def describe_version(self, version: int | None) -> TemplateOut:
        document = self.find_document(version)
        row = self.describe().model_dump()
        takes = {name: describe_bounds(field) for name, field in document.fields.items()}
        return TemplateOut(**row, document=document, takes=takes)


def list_templates(
    connection: sa.Connection, *conditions: sa.ColumnElement[bool]
) -> list[Template]:
    """List templates by name, those of the pool before those of tenants.

    Args:
        conditions: Of rows of the database. A shipped template is listed where its row would be.
    """
    query = (
        sa.select(templates, tenants.c.name.label("tenant"))
        .outerjoin(tenants, tenants.c.id == templates.c.tenant_id)
        # A deleted tenant keeps its row; that of all has no tenant.
        .where(tenants.c.retired_ns.is_(None), *conditions)
    )
    rows = connection.execute(query).all()
    stored = _read_versions(connection, [row.id for row in rows])
    found = [_build(row, stored.get(row.id, {})) for row in rows]
    known = {template.name for template in found if template.tenant_id is None}
    for name, documents in read_catalogue().items():
        if name not in known:
            versions = {n: StoredVersion(document) for n, document in documents.items()}
            found.append(Template(name, None, None, None, True, None, versions))
    # A row of a shipped template that a later release left out has no version.
    with_versions = [template for template in found if template.versions]
    return sorted(with_versions, key=lambda template: (template.name, template.tenant or ""))


def list_visible(connection: sa.Connection, caller: Principal) -> list[Template]:
    """List what the caller may see: of all, of its tenant; an admin sees every one."""
    found = list_templates(connection, _match_visible(caller))
    groups = read_groups(connection, caller)
    return [one for one in found if _is_for(one, caller, groups)]


def find_template(
    connection: sa.Connection, caller: Principal, name: str, tenant: str | None
) -> Template:
    """Find a template that the caller may see.

    Args:
        tenant: Whose; None: the caller's tenant's, else that of all.

    Raises:
        UnknownTemplate: There is none, or it is for others.
    """
    mine = [one for one in list_visible(connection, caller) if one.name == name]
    if tenant is not None:
        mine = [one for one in mine if one.tenant == tenant]
    else:
        mine = [one for one in mine if one.tenant in (None, caller.tenant)]
    if not mine:
        raise UnknownTemplate(f"there is no template {name[:80]!r}", hint="gpupool template list")
    # The tenant's own comes before that of all.
    return max(mine, key=lambda one: one.tenant is not None)


def read_groups(connection: sa.Connection, caller: Principal) -> frozenset[str]:
    """Return the caller's groups at its last login by an identity provider."""
    query = sa.select(identities.c.groups).where(identities.c.user_id == caller.user_id)
    return frozenset(connection.execute(query).scalar_one_or_none() or ())


def allows_user(users: TemplateUsers, caller: Principal, groups: frozenset[str]) -> bool:
    """Whether the caller may use a template; its project is checked with the job."""
    if users.tenants and caller.tenant not in users.tenants:
        return False
    return not users.groups or not groups.isdisjoint(users.groups)


def keep_versions(connection: sa.Connection, caller: Principal, template: Template) -> Template:
    """Return the template with those versions that the caller may see.

    An older version may be for fewer people than the default one, by which it was found.
    """
    groups = read_groups(connection, caller)
    versions = dict[int, StoredVersion]()
    for number, version in template.versions.items():
        if _may_see(template, version, caller, groups):
            versions[number] = version
    return replace(template, versions=versions)


def _is_for(template: Template, caller: Principal, groups: frozenset[str]) -> bool:
    return _may_see(template, template.versions[template.version], caller, groups)


def _may_see(
    template: Template, version: StoredVersion, caller: Principal, groups: frozenset[str]
) -> bool:
    if caller.sees_all:
        return True
    # Who manages a tenant sees all of the tenant's own.
    if template.tenant_id == caller.tenant_id and caller.has_permission(Permission.MANAGE_TENANT):
        return True
    return allows_user(version.document.users, caller, groups)


def _match_visible(caller: Principal) -> sa.ColumnElement[bool]:
    if caller.sees_all:
        return sa.true()
    return sa.or_(templates.c.tenant_id.is_(None), templates.c.tenant_id == caller.tenant_id)


def _read_versions(
    connection: sa.Connection, row_ids: list[int]
) -> dict[int, dict[int, StoredVersion]]:
    query = sa.select(template_versions).where(template_versions.c.template_id.in_(row_ids))
    found = dict[int, dict[int, StoredVersion]]()
    for row in connection.execute(query):
        document = TemplateIn.model_validate(row.document)
        version = StoredVersion(document, row.user_id, row.created_ns)
        found.setdefault(row.template_id, {})[row.version] = version
    return found


def _build(row: Any, stored: Mapping[int, StoredVersion]) -> Template:
    versions = dict(stored)
    if row.tenant_id is None:
        # An admin's version of the same number was there first and stays what it is.
        for number, document in read_catalogue().get(row.name, {}).items():
            versions.setdefault(number, StoredVersion(document))
    return Template(
        row.name, row.tenant_id, row.tenant, row.id, row.enabled, row.default_version, versions
    )
