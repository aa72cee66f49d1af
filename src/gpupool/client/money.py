"""Prices, budgets and months in the SDK.

from gpupool.client import Pool
from gpupool.client.money import Money

with Pool() as pool:
    for budget in Money(pool.api).budgets():
        print(budget.tenant, budget.spent_percent)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from gpupool.client.messages import path_segment
from gpupool.wire.answers import read_answer

if TYPE_CHECKING:
    from gpupool.client.transport import Api
    from gpupool.wire.billing.budgets import BudgetOut
    from gpupool.wire.billing.energy import EnergyFactorOut
    from gpupool.wire.billing.prices import PriceListOut
    from gpupool.wire.billing.statements import AdjustmentOut, SealOut, StatementOut

#: A document of a large pool takes longer than other answers.
DOCUMENT_SECONDS = 300.0


class Money:
    """Price lists, budgets, seals and documents of a pool. Bodies are those of `wire.billing`."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def prices(self) -> list[PriceListOut]:
        """List the price lists, the earliest first."""
        from gpupool.wire.billing.prices import PriceListOut

        found = self._api.request("GET", "prices")
        return [read_answer(PriceListOut, one) for one in found]

    def price_list(self, name: str) -> PriceListOut:
        """Return one price list. Raises UnknownPriceList."""
        from gpupool.wire.billing.prices import PriceListOut

        path = f"prices/{path_segment(name)}"
        return read_answer(PriceListOut, self._api.request("GET", path))

    def set_prices(self, name: str, body: Mapping[str, Any]) -> PriceListOut:
        """Make a price list, or replace it: `PriceListIn`. Raises SealedMonth."""
        from gpupool.wire.billing.prices import PriceListOut

        path = f"prices/{path_segment(name)}"
        return read_answer(PriceListOut, self._api.request("PUT", path, dict(body)))

    def delete_prices(self, name: str) -> None:
        """Delete a price list: the one before holds. Raises SealedMonth."""
        self._api.request("DELETE", f"prices/{path_segment(name)}")

    def energy_factors(self) -> list[EnergyFactorOut]:
        """List PUE and grid factors of the site, the earliest first."""
        from gpupool.wire.billing.energy import EnergyFactorOut

        found = self._api.request("GET", "energy/factors")
        return [read_answer(EnergyFactorOut, one) for one in found]

    def set_energy_factor(self, body: Mapping[str, Any]) -> EnergyFactorOut:
        """Set PUE and grid factor from an hour on: `EnergyFactorIn`. Raises PastEnergyFactor."""
        from gpupool.wire.billing.energy import EnergyFactorOut

        return read_answer(EnergyFactorOut, self._api.request("POST", "energy/factors", dict(body)))

    def delete_energy_factor(self, from_ns: int) -> None:
        """Delete factors that have not begun. Raises UnknownEnergyFactor, PastEnergyFactor."""
        self._api.request("DELETE", f"energy/factors/{from_ns}")

    def budgets(self) -> list[BudgetOut]:
        """List budgets, and where they stand."""
        from gpupool.wire.billing.budgets import BudgetOut

        found = self._api.request("GET", "budgets")
        return [read_answer(BudgetOut, one) for one in found]

    def budget(self, budget_id: str) -> BudgetOut:
        """Return one budget. Raises UnknownBudget."""
        from gpupool.wire.billing.budgets import BudgetOut

        path = f"budgets/{path_segment(budget_id)}"
        return read_answer(BudgetOut, self._api.request("GET", path))

    def set_budget(self, body: Mapping[str, Any]) -> BudgetOut:
        """Set the budget of an owner: `BudgetIn`. Raises BudgetBelowSpent."""
        from gpupool.wire.billing.budgets import BudgetOut

        return read_answer(BudgetOut, self._api.request("PUT", "budgets", dict(body)))

    def delete_budget(self, budget_id: str) -> None:
        """Delete a budget: it holds no job any more."""
        self._api.request("DELETE", f"budgets/{path_segment(budget_id)}")

    def statement(self, month: str, tenant: str | None = None) -> StatementOut:
        """Return the statement of a month, as `2026-11`."""
        from gpupool.wire.billing.statements import StatementOut

        path = f"statements/{path_segment(month)}"
        answer = self._api.request("GET", path, query={"tenant": tenant}, timeout=DOCUMENT_SECONDS)
        return read_answer(StatementOut, answer)

    def document(
        self,
        month: str,
        form: Literal["xlsx", "pdf", "focus"],
        *,
        tenant: str | None = None,
        language: Literal["en", "zh"] = "en",
    ) -> bytes:
        """Return a month's document as a file. Raises DocumentUnavailable."""
        query = {"format": form, "tenant": tenant, "language": language}
        path = f"documents/{path_segment(month)}"
        content = self._api.request("GET", path, query=query, timeout=DOCUMENT_SECONDS)
        return content if isinstance(content, bytes) else str(content).encode()

    def seals(self) -> list[SealOut]:
        """List sealed months, each compared with its rows."""
        from gpupool.wire.billing.statements import SealOut

        found = self._api.request("GET", "seals", timeout=DOCUMENT_SECONDS)
        return [read_answer(SealOut, one) for one in found]

    def seal(self, month: str) -> SealOut:
        """Seal a month that is over. Raises MonthNotOver, SealedMonth."""
        from gpupool.wire.billing.statements import SealOut

        answer = self._api.request(
            "POST",
            "seals",
            {"month": month},
            idempotency_key=os.urandom(16).hex(),
            timeout=DOCUMENT_SECONDS,
        )
        return read_answer(SealOut, answer)

    def adjustments(self) -> list[AdjustmentOut]:
        """List entries, the oldest first."""
        from gpupool.wire.billing.statements import AdjustmentOut

        found = self._api.request("GET", "adjustments")
        return [read_answer(AdjustmentOut, one) for one in found]

    def adjust(self, body: Mapping[str, Any]) -> AdjustmentOut:
        """Add an entry to the month of today: `AdjustmentIn`."""
        from gpupool.wire.billing.statements import AdjustmentOut

        answer = self._api.request(
            "POST", "adjustments", dict(body), idempotency_key=os.urandom(16).hex()
        )
        return read_answer(AdjustmentOut, answer)
