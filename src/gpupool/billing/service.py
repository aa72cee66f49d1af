"""The services of money, put together over the store."""

from __future__ import annotations

from gpupool.billing.budgets.service import BudgetService
from gpupool.billing.charging.latest_hour import LatestHour
from gpupool.billing.charging.service import ChargeService
from gpupool.billing.documents.service import StatementService
from gpupool.billing.prices.service import PriceListService
from gpupool.billing.sealing.service import SealService
from gpupool.store.database import Store


class Billing:
    """Owns the services of this package. Thread-safe; starts no thread."""

    def __init__(self, store: Store) -> None:
        self.charging = ChargeService(store)
        self.latest_hour = LatestHour(store)
        self.prices = PriceListService(store)
        self.budgets = BudgetService(store, self.charging)
        self.seals = SealService(store, self.charging)
        self.statements = StatementService(store, self.charging)
