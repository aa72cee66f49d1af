"""A house with budgets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.budget_house import BudgetHouse


@pytest.fixture
def house(tmp_path: Path) -> Iterator[BudgetHouse]:
    made = BudgetHouse(tmp_path)
    yield made
    made.close()
