"""A pool with real books."""

from __future__ import annotations

from tests.unit.metering.conftest import pool as pool
