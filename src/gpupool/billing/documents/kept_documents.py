"""Keep documents of sealed months: what was downloaded once is the same at every later download.

The lines of a seal never change, but a file would: workbooks and PDF have the time at which they
were made, a later version may write them in another way, and hours of FOCUS are deleted one day.
"""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from gpupool.billing.documents.tables import month_documents
from gpupool.store.database import WriteTransaction

#: Bytes of the largest document that is kept. FOCUS of a pool with a thousand tenants has more in a
#: month, which is no row for a database.
MOST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class DocumentKey:
    """Which document of a month; `tenant` is empty for the whole pool."""

    month: str
    tenant: str
    form: str
    language: str


def build_key(month: str, tenant: str | None, form: str, language: str) -> DocumentKey:
    """Build the key of a document. FOCUS is the same in every language."""
    return DocumentKey(month, tenant or "", form, "" if form == "focus" else language)


def read_document(connection: sa.Connection, key: DocumentKey) -> bytes | None:
    """Read a document that is kept; None: it was not made since the month was sealed."""
    query = sa.select(month_documents.c.packed).where(*_match(key))
    packed = connection.execute(query).scalar_one_or_none()
    return None if packed is None else zlib.decompress(packed)


def keep_document(write: WriteTransaction, key: DocumentKey, content: bytes) -> bytes:
    """Keep a document of a sealed month; return the one that is kept.

    Of two that were made at once the first stays. Idempotent.
    """
    if len(content) > MOST_BYTES:
        return content
    first = read_document(write.connection, key)
    if first is not None:
        return first
    write.execute(
        month_documents.insert().values(
            **vars(key),
            sha256=hashlib.sha256(content).hexdigest(),
            packed=zlib.compress(content),
            made_ns=write.now_ns,
        )
    )
    return content


def _match(key: DocumentKey) -> list[sa.ColumnElement[bool]]:
    columns: Any = month_documents.c
    return [columns[name] == value for name, value in vars(key).items()]
