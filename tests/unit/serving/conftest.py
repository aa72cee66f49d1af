"""One house for all tests of services; each test leaves no service behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.shop import Shop


@pytest.fixture(scope="session")
def whole_shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    made = Shop(tmp_path_factory.mktemp("shop"))
    yield made
    made.house.close()


@pytest.fixture
def shop(whole_shop: Shop) -> Iterator[Shop]:
    yield whole_shop
    whole_shop.clear()
