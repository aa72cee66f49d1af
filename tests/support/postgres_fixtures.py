"""pytest's door to tests/support/postgres.py; name it in `pytest_plugins` of the top conftest.

The server starts with the first test that asks for it, once per session (per worker under xdist).
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.support.postgres import (
    fresh_database,
    running_postgres,
    session_directory,
    sweep_abandoned,
)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a running PostgreSQL server, for the whole session."""
    sweep_abandoned(Path(tempfile.gettempdir()))
    with session_directory() as base_dir, running_postgres(base_dir) as url:
        yield url


@pytest.fixture
def postgres_url(postgres_server: str) -> Iterator[str]:
    """The SQLAlchemy URL of an empty PostgreSQL database of this test alone."""
    with fresh_database(postgres_server) as url:
        yield url


@pytest.fixture(scope="session")
def postgres_tables(postgres_server: str) -> Iterator[str]:
    """The name of a database with the tables of a pool, which those of tests are copied from."""
    # Imported with the first test that needs it: most processes of a run have none.
    from tests.support.empty_databases import fill_template

    with fresh_database(postgres_server) as url:
        fill_template(url)
        yield make_url(url).database or ""


@pytest.fixture
def postgres_pool_url(postgres_server: str, postgres_tables: str) -> Iterator[str]:
    """The SQLAlchemy URL of a database of this test alone, with the tables of a pool."""
    with fresh_database(postgres_server, postgres_tables) as url:
        yield url
