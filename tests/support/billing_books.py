"""A pool with real books and prices, on a clock that tests set."""

from __future__ import annotations

from typing import Any

from gpupool.billing.charging.marks import ChargeMarks, write_charge_marks
from gpupool.billing.service import Billing
from gpupool.wire.billing.prices import PriceListIn
from tests.support.metering_books import ADMIN, HOUR, START_S, Pool, S

#: Hours that charges wait for late reports, and one more.
SETTLED = 2 * HOUR


def make_prices(**changes: Any) -> PriceListIn:
    """A list with a price for one model, one for every other, and two special ones."""
    body = {
        "from_ns": START_S * S,
        "currency": "EUR",
        "rates": [
            {"model": "L40S", "price_micro": 3_600_001},
            {"model": "*", "price_micro": 1_000_000},
        ],
    } | changes
    return PriceListIn.model_validate(body)


def bill(pool: Pool, **changes: Any) -> Billing:
    """Services of money over the pool's store, with a price list."""
    billing = Billing(pool.store)
    billing.prices.put("list", make_prices(**changes))
    return billing


def settle(pool: Pool, billing: Billing) -> None:
    """Go on until every hour so far is over and has its charges."""
    pool.time.forward(SETTLED)
    # A write moves the ledger's time, as any pool in use does.
    with pool.store.write():
        pass
    billing.charging.catch_up()


def charge_from(pool: Pool, second: int) -> None:
    """Begin charges at a whole hour: the hours before cost a test its time."""
    with pool.store.write() as write:
        write_charge_marks(write, ChargeMarks(second, second))


__all__ = ["ADMIN", "bill", "charge_from", "make_prices", "settle"]
