"""Removes a pool from a database outside its state directory."""

from __future__ import annotations

from gpupool.server.schema import metadata
from gpupool.store.database import connect
from gpupool.store.failures import store_errors
from gpupool.store.leadership import find_leader


def erase_database(url: str, instance: str) -> list[str]:
    """Drop the pool's tables from a database outside the state directory, and nothing else in it.

    Returns lines for the caller's output: a database that another server leads is left as it is.
    """
    engine = connect(url)
    try:
        with store_errors(), engine.begin() as connection:
            found = find_leader(connection)
            if found is not None and found.left_seconds > 0 and found.instance != instance:
                return [f"the database is left as it is: {found.address} leads there"]
            metadata.drop_all(connection)
            connection.exec_driver_sql("DROP TABLE IF EXISTS alembic_version")
        return []
    finally:
        engine.dispose()
