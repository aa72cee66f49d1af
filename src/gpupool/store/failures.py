"""What a database says when it fails, in our words.

Told apart by error numbers (SQLite's result codes, PostgreSQL's SQLSTATE), never by text: a
message may quote what a user typed.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy.exc import DatabaseError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from gpupool.base.errors import (
    DiskFull,
    GpupoolError,
    ServiceUnavailable,
    StateUnusable,
    StoreBusy,
    StoreCorrupt,
)

# https://sqlite.org/rescode.html ; PostgreSQL manual, appendix A.
_SQLITE: dict[int, type[GpupoolError]] = {
    sqlite3.SQLITE_FULL: DiskFull,
    sqlite3.SQLITE_BUSY: StoreBusy,
    sqlite3.SQLITE_LOCKED: StoreBusy,
    sqlite3.SQLITE_CORRUPT: StoreCorrupt,
    sqlite3.SQLITE_NOTADB: StoreCorrupt,
    sqlite3.SQLITE_READONLY: StateUnusable,
    sqlite3.SQLITE_CANTOPEN: StateUnusable,
    sqlite3.SQLITE_PERM: StateUnusable,
    sqlite3.SQLITE_IOERR: StateUnusable,
}
_SQLITE_EXTENDED: dict[int, type[GpupoolError]] = {
    # The shared-memory index of the log cannot grow: what a full disk looks like first.
    sqlite3.SQLITE_IOERR_SHMSIZE: DiskFull,
    sqlite3.SQLITE_IOERR_CORRUPTFS: StoreCorrupt,
}
_POSTGRES: dict[str, type[GpupoolError]] = {
    "53100": DiskFull,
    "55P03": StoreBusy,
    "57014": StoreBusy,
    "40001": StoreBusy,
    "40P01": StoreBusy,
    "25006": StateUnusable,
    "25P03": ServiceUnavailable,  # ended while idle in a transaction, as a takeover that was stopped in its middle is
    "XX001": StoreCorrupt,
    "XX002": StoreCorrupt,
}
_POSTGRES_CLASSES: dict[str, type[GpupoolError]] = {
    "08": ServiceUnavailable,
    "53": ServiceUnavailable,
    "57": ServiceUnavailable,
}


@contextmanager
def store_errors() -> Iterator[None]:
    """Turn failures of the database inside the block into public errors; others pass unchanged."""
    try:
        yield
    except (DatabaseError, sqlite3.DatabaseError, PoolTimeoutError) as error:
        public = translate_error(error)
        if public is None:
            raise
        raise public from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise _make_error(DiskFull, str(error)) from error
        raise


def translate_error(error: BaseException) -> GpupoolError | None:
    """Return the public error for a database failure.

    None for what only a defect of ours can cause.
    """
    if isinstance(error, PoolTimeoutError):
        return _make_error(StoreBusy, "every connection is in use")
    # A constraint that is broken is our defect or a race that the caller handles itself.
    if isinstance(error, IntegrityError):
        return None
    original: Any = error.orig if isinstance(error, DBAPIError) else error
    kind = (
        _find_sqlite_kind(original)
        if isinstance(original, sqlite3.Error)
        else _find_postgres_kind(error, original)
    )
    return None if kind is None else _make_error(kind, str(original).strip())


def _find_sqlite_kind(error: sqlite3.Error) -> type[GpupoolError] | None:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return None
    # The low byte is the primary code, of which an extended one is a case.
    return _SQLITE_EXTENDED.get(code) or _SQLITE.get(code & 0xFF)


def _find_postgres_kind(error: BaseException, original: Any) -> type[GpupoolError] | None:
    state = getattr(original, "sqlstate", None)
    if state is None:
        lost = isinstance(error, DBAPIError) and (
            error.connection_invalidated or type(original).__name__ == "OperationalError"
        )
        return ServiceUnavailable if lost else None
    return _POSTGRES.get(state) or _POSTGRES_CLASSES.get(state[:2])


def _make_error(kind: type[GpupoolError], text: str) -> GpupoolError:
    message, hint = _WORDS[kind]
    return kind(f"{message}: {text}", hint=hint)


_WORDS: dict[type[GpupoolError], tuple[str, str]] = {
    DiskFull: (
        "the disk of the pool's database is full and nothing was changed",
        "free some space and try again",
    ),
    StoreBusy: (
        "the database stayed locked and nothing was changed",
        "try again; if it stays so, another program has it open:  fuser -v gpupool.db",
    ),
    StoreCorrupt: (
        "the pool's database is damaged",
        "stop the pool, keep the file, and put a saved copy of gpupool.db in its place",
    ),
    StateUnusable: (
        "the pool's database cannot be used",
        "gpupool doctor checks the state directory",
    ),
    ServiceUnavailable: ("the database does not answer", "gpupool doctor"),
}
