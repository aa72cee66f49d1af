"""Marks columns whose values are secrets, and lists them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from gpupool.store.tables import metadata

_MARK: Final = "secret"


def mark_secret(row_key: str, field: str | None = None) -> dict[str, Any]:
    """Return the `info` of a column whose values are encrypted.

    Args:
        row_key: The column that names a row for its whole life.
        field: Of a JSON column: the one field that is a secret.
    """
    return {_MARK: (row_key, field)}


@dataclass(frozen=True)
class SecretColumn:
    """A marked column; `field` is None where the whole value is the secret."""

    column: sa.Column[Any]
    row_key: sa.Column[Any]
    field: str | None

    @property
    def name(self) -> str:
        return name_column(self.column)

    def read_text(self, value: Any) -> str:
        """Return the secret of a stored value; empty: none."""
        if value is None or self.field is None:
            return value or ""
        return str(value.get(self.field) or "")

    def replace_text(self, value: Any, text: str) -> Any:
        """Return the stored value with another text as its secret."""
        return text if self.field is None else {**value, self.field: text}


def list_secret_columns() -> list[SecretColumn]:
    """List the marked columns of every table that is imported, in a stable order."""
    found = list[SecretColumn]()
    for table in metadata.sorted_tables:
        for column in table.columns:
            if _MARK in column.info:
                key, field = column.info[_MARK]
                found.append(SecretColumn(column, table.columns[key], field))
    return found


def name_column(column: sa.Column[Any]) -> str:
    """Return `table/column`."""
    return f"{column.table.name}/{column.name}"


def build_context(column: sa.Column[Any], row: object) -> bytes:
    """Build what binds an encrypted value to its place: elsewhere it cannot be decrypted."""
    return f"{name_column(column)}/{row}".encode()


def find_column_name(context: bytes) -> str:
    """Return the `table/column` of a context."""
    return b"/".join(context.split(b"/", 2)[:2]).decode()
