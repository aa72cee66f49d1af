"""What every test may use. Fixtures of one room live with its tests."""

import os

import pytest

pytest_plugins = ["tests.support.postgres_fixtures"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that need root say so, and say why they did not run where nobody is."""
    if os.geteuid() == 0:
        return
    for item in items:
        if item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason="needs uid 0"))
