"""Price lists that two admins write, on a real database."""

from __future__ import annotations

import pytest

from gpupool.base.errors import BadOption, NameTaken, StaleGeneration
from tests.support.billing_books import bill, make_prices
from tests.support.metering_books import Pool, S

HOUR = 3600 * S


def test_a_change_of_an_older_list_is_refused_and_a_name_is_taken_once(pool: Pool) -> None:
    prices = bill(pool).prices
    old = prices.find("list")
    later = make_prices(from_ns=old.from_ns + HOUR)
    with pytest.raises(NameTaken) as taken:
        prices.put("list", later, 0)
    assert taken.value.details["fields"][0]["field"] == "name"
    new = prices.put("list", later, old.generation)
    assert (new.generation, new.from_ns) == (old.generation + 1, later.from_ns)
    with pytest.raises(StaleGeneration) as stale:
        prices.put("list", later, old.generation)
    assert stale.value.details["generation"] == new.generation
    assert prices.find("list") == new
    assert prices.put("next", make_prices(from_ns=old.from_ns + 2 * HOUR), 0).generation == 1


def test_a_refusal_names_the_field_it_is_about(pool: Pool) -> None:
    prices = bill(pool).prices
    half = make_prices(from_ns=prices.find("list").from_ns + HOUR // 2)
    twice = make_prices(rates=[{"model": "*", "price_micro": 1}] * 2)
    for body, field in ((half, "from_ns"), (twice, "rates")):
        with pytest.raises(BadOption) as refusal:
            prices.put("other", body)
        assert [one["field"] for one in refusal.value.details["fields"]] == [field]
