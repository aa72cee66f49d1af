"""Statements and documents of a month, as far as the caller may see it. Thread-safe."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

import sqlalchemy as sa

from gpupool.billing.charging.service import ChargeService
from gpupool.billing.documents.focus import write_focus
from gpupool.billing.documents.focus_rows import read_focus_rows
from gpupool.billing.documents.kept_documents import build_key, keep_document, read_document
from gpupool.billing.documents.month import read_month
from gpupool.billing.documents.pdf import write_pdf
from gpupool.billing.documents.statement import build_statement
from gpupool.billing.documents.xlsx import write_workbook
from gpupool.model.tenant import Principal
from gpupool.store.database import Store
from gpupool.store.tables import pool
from gpupool.tenancy.tenants import find_tenant
from gpupool.wire.billing.statements import StatementOut

DocumentFormat = Literal["xlsx", "pdf", "focus"]
_TYPES = {
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "pdf": "application/pdf",
    "focus": "text/csv; charset=utf-8",
}
_ENDINGS = {"xlsx": "xlsx", "pdf": "pdf", "focus": "focus.csv"}


@dataclass(frozen=True)
class Document:
    """A file to save."""

    content: bytes
    media_type: str
    name: str

    @property
    def digest(self) -> str:
        """The digest of its bytes as a field of HTTP has it (RFC 9530)."""
        return f"sha-256=:{b64encode(sha256(self.content).digest()).decode()}:"


class StatementService:
    """Makes statements and documents."""

    def __init__(self, store: Store, charging: ChargeService) -> None:
        self._store = store
        self._charging = charging

    def make_statement(self, caller: Principal, month: str, tenant: str | None) -> StatementOut:
        """Make the statement of a month: of a tenant, or for an admin of the whole pool.

        Raises:
            BadOption: it is no month, or the pool has no charges of it.
            UnknownTenant: the caller may not see that tenant.
        """
        self._charging.make_due()
        with self._store.read() as connection:
            name = _find_scope(connection, caller, tenant)
            return build_statement(read_month(connection, month), name)

    def make_document(
        self, caller: Principal, month: str, tenant: str | None, form: DocumentFormat, language: str
    ) -> Document:
        """Make a document of a month; of a sealed one the same bytes each time.

        Raises as `make_statement`, and DocumentUnavailable.
        """
        self._charging.make_due()
        with self._store.read() as connection:
            name = _find_scope(connection, caller, tenant)
            key = build_key(month, name, form, language)
            content = read_document(connection, key)
            if content is not None:
                return _build_document(content, form, month, name)
            bill = read_month(connection, month)
            if form == "focus":
                pool_id = connection.execute(sa.select(pool.c.pool_id)).scalar_one()
                rows = read_focus_rows(connection, bill, name)
                content = write_focus(rows, bill, name, pool_id)
        if content is None:
            statement = build_statement(bill, name)
            make = write_workbook if form == "xlsx" else _write_pdf
            content = make(statement, language)
        if bill.sha256 is not None:
            with self._store.write() as write:
                content = keep_document(write, key, content)
        return _build_document(content, form, month, name)


def _write_pdf(statement: StatementOut, language: str) -> bytes:
    return write_pdf([statement], language)


def _build_document(
    content: bytes, form: DocumentFormat, month: str, tenant: str | None
) -> Document:
    name = f"{month}-{tenant or 'pool'}.{_ENDINGS[form]}"
    return Document(content, _TYPES[form], name)


def _find_scope(connection: sa.Connection, caller: Principal, tenant: str | None) -> str | None:
    """Find whose statement it is; None: the whole pool's, for an admin alone."""
    if tenant is None and caller.sees_all:
        return None
    found = find_tenant(connection, caller, tenant or caller.tenant, with_deleted=True)
    name: str = found.name
    return name
