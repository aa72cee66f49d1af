"""Databases of a new pool, copied instead of made.

Making the tables takes 50 to 120 ms of a processor, and copying a file of them 5. The first use in a
process makes the one that the others copy: with the tables and the revision of this version, and
without a pool. How tables are made is tests/unit/server/test_migrate.py's to check.

SQLAlchemy compiles each statement once for each engine, and a test that makes a pool runs a hundred of
them: all engines of a process that are given here share what was compiled.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from gpupool.server.migrate import prepare_database
from gpupool.server.schema import metadata
from gpupool.store.database import connect, sqlite_url
from gpupool.store.tables import pool

#: Of the first engine of each kind.
_dialects: dict[str, sa.Dialect] = {}
#: Statements of all engines; about 2000 are of the pool, others of tests.
_statements = sa.util.LRUCache[Any, Any](4000)


def make_tables(engine: sa.Engine) -> None:
    """Give a database the tables of a pool, which has no row yet; again is nothing.

    On PostgreSQL it should have them: the fixture `postgres_pool_url` copies them there.
    """
    path = Path(engine.url.database or "")
    is_file = engine.dialect.name == "sqlite"
    if is_file and not path.exists():
        path.write_bytes(_read_template())
        path.chmod(0o600)
    _share_statements(engine)
    if not is_file and not sa.inspect(engine).has_table(pool.name):
        metadata.create_all(engine, checkfirst=False)


def prepare_copy(engine: sa.Engine, now_ns: int, pool_id: str) -> None:
    """Do what `prepare_database` does; a new SQLite database begins as a copy."""
    if engine.dialect.name == "sqlite":
        make_tables(engine)
    prepare_database(engine, now_ns, pool_id)


def _share_statements(engine: sa.Engine) -> None:
    """Let the engine use the statements that others of its dialect compiled."""
    with engine.connect():
        pass  # a dialect asks the first connection for the version of the database
    # A compiled statement is found again by the dialect as an object.
    engine.dialect = _dialects.setdefault(engine.dialect.name, engine.dialect)
    engine.update_execution_options(compiled_cache=_statements)


def fill_template(url: str) -> None:
    """Make the tables and the revision of this version in a database, and leave it."""
    engine = connect(url)
    prepare_database(engine, 1, "p-template")
    with engine.connect() as connection:
        connection.execute(pool.delete())
        connection.commit()
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("VACUUM")
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    engine.dispose()


@cache
def _read_template() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "gpupool.db")
        fill_template(sqlite_url(path))
        return path.read_bytes()
