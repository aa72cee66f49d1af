"""What each tenant holds: sums in its row, changed with every grant and release."""

from __future__ import annotations

from collections import Counter

import pytest
import sqlalchemy as sa

from gpupool.allocations.ledger.holdings import add_holdings
from gpupool.base.units import GIB
from gpupool.tenancy.tables import tenants
from tests.support.house import House
from tests.support.ledger_sums import held


def test_add_holdings_adds_and_subtracts_and_returns_the_rows(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "blue", None)
    with house.store.write() as write:
        rows = write.execute(sa.select(tenants)).all()
        ids = {row.name: row.id for row in rows}
        more = {
            ids["default"]: Counter(milli=600, bytes=8 * GIB),
            ids["blue"]: Counter(milli=300, bytes=GIB),
        }
        before = {row.name: row.generation for row in rows}
        added = add_holdings(write, more)
        add_holdings(write, {ids["blue"]: Counter(milli=-100, bytes=-GIB)})
    assert [(row.name, row.held_milli, row.generation - before[row.name]) for row in added] == [
        ("default", 600, 1),
        ("blue", 300, 1),
    ]
    assert (held(house), held(house, "blue")) == ((600, 8 * GIB), (200, 0))


def test_add_holdings_of_a_tenant_without_a_row_is_an_error(house: House) -> None:
    with pytest.raises(sa.exc.NoResultFound), house.store.write() as write:
        add_holdings(write, {10**6: Counter(milli=1)})
