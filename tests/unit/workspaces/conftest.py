"""People and their logins, over a real store."""

from tests.unit.tenancy.conftest import boot, house, store

__all__ = ["boot", "house", "store"]
