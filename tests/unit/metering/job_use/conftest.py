"""A pool with real books."""

from __future__ import annotations

from tests.unit.metering.conftest import any_pool as any_pool
from tests.unit.metering.conftest import pool as pool
