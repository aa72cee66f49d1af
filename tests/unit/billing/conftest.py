"""A pool with real books, on SQLite or on PostgreSQL."""

from tests.unit.metering.conftest import any_pool as any_pool
from tests.unit.metering.conftest import pool as pool
