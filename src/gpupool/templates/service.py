"""Templates as their admins and users see them. Thread-safe."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

from gpupool.base.errors import (
    NoPermission,
    ShippedTemplate,
    TemplateVersionTaken,
    TooManyTemplates,
    UnknownTemplate,
)
from gpupool.model.tenant import Permission, Principal
from gpupool.store.database import Store, WriteTransaction
from gpupool.templates.document import check_document
from gpupool.templates.lookup import (
    Template,
    find_template,
    keep_versions,
    list_templates,
    list_visible,
)
from gpupool.templates.replica_use import ReplicaRendering, render_replica
from gpupool.templates.tables import template_versions, templates
from gpupool.templates.uses import render_use
from gpupool.tenancy.ending.owners import find_ended_tenants
from gpupool.tenancy.service import TenancyService
from gpupool.tenancy.tables import users
from gpupool.tenancy.tenants import find_tenant
from gpupool.wire.templates.documents import TemplateIn
from gpupool.wire.templates.uses import (
    RenderOut,
    TemplateAdd,
    TemplateChange,
    TemplateOut,
    TemplateRow,
    TemplateUse,
    TemplateVersionOut,
)

#: Templates of one owner: a list shows them all.
MOST_TEMPLATES: Final = 200
#: Versions of one template.
MOST_VERSIONS: Final = 200


class TemplateService:
    """Templates, their versions, and what they make of values."""

    def __init__(self, store: Store, tenancy: TenancyService) -> None:
        self._store = store
        self._tenancy = tenancy
        store.commit_steps["templates"] = _delete_of_ended_tenants

    def list_all(self, caller: Principal) -> list[TemplateRow]:
        """List the templates that the caller may see, disabled ones too."""
        with self._store.read() as connection:
            return [one.describe() for one in list_visible(connection, caller)]

    def find(
        self, caller: Principal, name: str, version: int | None, tenant: str | None
    ) -> TemplateOut:
        """Describe a template and one version. Raises UnknownTemplate."""
        with self._store.read() as connection:
            found = find_template(connection, caller, name, tenant)
            return keep_versions(connection, caller, found).describe_version(version)

    def list_versions(
        self, caller: Principal, name: str, tenant: str | None
    ) -> list[TemplateVersionOut]:
        """List the versions of a template, the newest first. Raises UnknownTemplate."""
        with self._store.read() as connection:
            found = find_template(connection, caller, name, tenant)
            found = keep_versions(connection, caller, found)
            names = _read_user_names(connection, found)
        return [
            TemplateVersionOut(
                version=number,
                is_default=number == found.version,
                shipped=version.created_ns is None,
                created_ns=version.created_ns,
                user=None if version.user_id is None else names.get(version.user_id),
            )
            for number, version in sorted(found.versions.items(), reverse=True)
        ]

    def add(self, caller: Principal, body: TemplateAdd) -> TemplateOut:
        """Add a version, which becomes the default one. The same version again changes nothing.

        Raises:
            BadTemplate: The document contradicts itself.
            TemplateVersionTaken: The version is there with another content.
            TooManyTemplates: The owner, or the template, has as many as it may.
            NoPermission: The caller does not manage the owner.
        """
        document = body.template
        check_document(document)
        with self._store.write() as write:
            owner_id = _find_owner(write.connection, caller, body.tenant)
            found = _find_owned(write.connection, owner_id, document.name)
            known = found.versions.get(document.version) if found is not None else None
            if found is not None and known is not None and known.document != document:
                free = max(found.versions) + 1
                raise TemplateVersionTaken(
                    f"template {document.name} has a version {document.version} with another "
                    "content",
                    hint=f"write  version: {free}  into the file",
                    version=document.version,
                    next=free,
                )
            if known is None:
                self._insert_version(write, caller, owner_id, found, document)
            out = _require_owned(write.connection, owner_id, document.name).describe_version(None)
            write.answer(201, out.model_dump(mode="json"))
        return out

    def change(
        self, caller: Principal, name: str, body: TemplateChange, tenant: str | None
    ) -> TemplateOut:
        """Enable, disable, or choose the default version. Idempotent.

        Raises:
            UnknownTemplate: There is no such template or version.
            NoPermission: The caller does not manage its owner.
        """
        with self._store.write() as write:
            found = self._find_managed(write.connection, caller, name, tenant)
            values: dict[str, Any] = {"changed_ns": write.now_ns}
            if body.enabled is not None:
                values["enabled"] = body.enabled
            if body.default_version is not None:
                found.find_document(body.default_version)
                values["default_version"] = body.default_version
            row_id = _ensure_row(write, found)
            write.execute(templates.update().where(templates.c.id == row_id).values(**values))
            data = body.model_dump(exclude_none=True)
            _note_change(write, "changed", caller, found.tenant_id, name, data)
            out = _require_owned(write.connection, found.tenant_id, name).describe_version(None)
            write.answer(200, out.model_dump(mode="json"))
        return out

    def remove(self, caller: Principal, name: str, version: int | None, tenant: str | None) -> None:
        """Remove a template, or one version of it. Jobs that it made go on.

        Raises:
            UnknownTemplate: There is no such template or version.
            ShippedTemplate: It came with gpupool.
            NoPermission: The caller does not manage its owner.
        """
        with self._store.write() as write:
            found = self._find_managed(write.connection, caller, name, tenant)
            found.find_document(version)
            ours = template_versions.c.template_id == found.row_id
            if version is not None:
                ours = sa.and_(ours, template_versions.c.version == version)
            removed = write.execute(template_versions.delete().where(ours)).rowcount
            if not removed:
                raise ShippedTemplate(
                    f"template {name} came with gpupool and stays",
                    hint=f"gpupool template disable {name}",
                )
            left = _find_owned(write.connection, found.tenant_id, name)
            if left is None or left.row_id is None or not left.versions:
                write.execute(templates.delete().where(templates.c.id == found.row_id))
            data = {} if version is None else {"version": version}
            _note_change(write, "removed", caller, found.tenant_id, name, data)
            write.answer(204, None)

    def render(self, caller: Principal, name: str, use: TemplateUse) -> RenderOut:
        """Say which request the template makes of the values. Writes nothing.

        Raises as `uses.render_use`.
        """
        with self._store.read() as connection:
            return render_use(connection, self._tenancy, caller, name, use)

    def render_replica(
        self, caller: Principal, name: str, use: TemplateUse, port_text: str
    ) -> ReplicaRendering:
        """Say which job a replica of a service is. Writes nothing; raises as `render_replica`."""
        with self._store.read() as connection:
            return render_replica(connection, self._tenancy, caller, name, use, port_text)

    def _find_managed(
        self, connection: sa.Connection, caller: Principal, name: str, tenant: str | None
    ) -> Template:
        found = find_template(connection, caller, name, tenant)
        _check_manager(caller, found.tenant_id, found.tenant)
        return found

    def _insert_version(
        self,
        write: WriteTransaction,
        caller: Principal,
        owner_id: int | None,
        found: Template | None,
        document: TemplateIn,
    ) -> None:
        count = 0 if found is None else len(found.versions)
        if count >= MOST_VERSIONS:
            raise TooManyTemplates(
                f"template {document.name} has {count} versions, which is the most",
                hint=f"gpupool template remove {document.name} --version N",
                limit=MOST_VERSIONS,
            )
        if found is None:
            _check_number(write.connection, owner_id)
            found = Template(document.name, owner_id, None, None, True, None, {})
        row_id = _ensure_row(write, found)
        write.insert(
            template_versions,
            template_id=row_id,
            version=document.version,
            document=document.model_dump(mode="json", exclude_defaults=True),
            user_id=caller.user_id,
            created_ns=write.now_ns,
        )
        values = {"default_version": document.version, "changed_ns": write.now_ns}
        write.execute(templates.update().where(templates.c.id == row_id).values(**values))
        data = {"version": document.version}
        _note_change(write, "added", caller, owner_id, document.name, data)


def _delete_of_ended_tenants(write: WriteTransaction) -> None:
    """Delete the templates of tenants that end in this transaction. Idempotent."""
    ended = find_ended_tenants(write)
    if not ended:
        return
    query = sa.select(templates.c.id).where(templates.c.tenant_id.in_(ended))
    ids = write.execute(query).scalars().all()
    if ids:
        write.execute(template_versions.delete().where(template_versions.c.template_id.in_(ids)))
        write.execute(templates.delete().where(templates.c.id.in_(ids)))
        write.announce("templates")


def _read_user_names(connection: sa.Connection, template: Template) -> dict[int, str]:
    authors = {version.user_id for version in template.versions.values()} - {None}
    query = sa.select(users.c.id, users.c.name).where(users.c.id.in_(authors))
    return {row.id: row.name for row in connection.execute(query)}


def _find_owner(connection: sa.Connection, caller: Principal, tenant: str | None) -> int | None:
    """Return the tenant for which a template is added; None: for all."""
    if tenant is None and caller.has_permission(Permission.MANAGE_POOL):
        return None
    if tenant is None:
        return caller.tenant_id
    owner = find_tenant(connection, caller, tenant)
    _check_manager(caller, owner.id, tenant)
    return int(owner.id)


def _check_manager(caller: Principal, tenant_id: int | None, tenant: str | None) -> None:
    if caller.has_permission(Permission.MANAGE_POOL):
        return
    if tenant_id is None:
        raise NoPermission(
            f"{caller.user} has the role {caller.role}, which may not change templates of all "
            "tenants",
            hint="add one of the same name for your tenant: it comes first there",
        )
    if tenant_id != caller.tenant_id or not caller.has_permission(Permission.MANAGE_TENANT):
        raise NoPermission(
            f"{caller.user} has the role {caller.role}, which may not change templates of {tenant}",
            hint="ask an admin",
        )


def _find_owned(connection: sa.Connection, owner_id: int | None, name: str) -> Template | None:
    owned = (
        templates.c.tenant_id.is_(None) if owner_id is None else templates.c.tenant_id == owner_id
    )
    for one in list_templates(connection, templates.c.name == name, owned):
        if one.name == name and one.tenant_id == owner_id:
            return one
    return None


def _require_owned(connection: sa.Connection, owner_id: int | None, name: str) -> Template:
    found = _find_owned(connection, owner_id, name)
    if found is None:
        raise UnknownTemplate(f"there is no template {name[:80]!r}", hint="gpupool template list")
    return found


def _check_number(connection: sa.Connection, owner_id: int | None) -> None:
    owned = (
        templates.c.tenant_id.is_(None) if owner_id is None else templates.c.tenant_id == owner_id
    )
    query = sa.select(sa.func.count()).select_from(templates).where(owned)
    count = connection.execute(query).scalar_one()
    if count >= MOST_TEMPLATES:
        raise TooManyTemplates(
            f"there are {count} templates, which is the most",
            hint="gpupool template remove NAME",
            limit=MOST_TEMPLATES,
        )


def _ensure_row(write: WriteTransaction, template: Template) -> int:
    """Return the row of a template; that of a shipped one is made when it is first needed."""
    query = sa.select(templates.c.id).where(templates.c.name == template.name)
    if template.tenant_id is None:
        query = query.where(templates.c.tenant_id.is_(None))
    else:
        query = query.where(templates.c.tenant_id == template.tenant_id)
    found = write.execute(query).scalar_one_or_none()
    if found is not None:
        return int(found)
    return write.insert(
        templates,
        tenant_id=template.tenant_id,
        name=template.name,
        enabled=True,
        default_version=None,
        changed_ns=write.now_ns,
    )


def _note_change(
    write: WriteTransaction,
    what: str,
    caller: Principal,
    owner_id: int | None,
    name: str,
    data: dict[str, Any],
) -> None:
    write.event(f"template.{what}", name, tenant_id=owner_id, data={"user": caller.user, **data})
    write.announce("templates")
