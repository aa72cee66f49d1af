"""A house whose clock a test sets, and budgets of GPU-hours in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpupool.base.clock import LedgerClock
from gpupool.wire.billing.budgets import BudgetIn, BudgetOut
from tests.support.house import House
from tests.support.metering_books import HOUR, Time

#: Card-milliseconds of one GPU-hour.
GPU_HOUR = HOUR * 1000


class BudgetHouse(House):
    """Two cards, tenant `nlp` with the users ann and bob, and time that a test moves."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, cards=2)
        self.time = Time()
        self.time.wall_ns = self.store.clock.now_ns()
        self.store.clock = LedgerClock(
            wall=lambda: self.time.wall_ns, boot=lambda: self.time.boot_ns
        )
        self.restart()
        self.tenancy.tenants.create(self.admin, "nlp", None)
        self.ann = self.member("ann", "nlp")
        self.bob = self.member("bob", "nlp")

    def set_budget(self, hours: int = 1, **changes: Any) -> BudgetOut:
        """A budget of so many GPU-hours a month; of tenant nlp unless it says otherwise."""
        body = {"tenant": "nlp", "unit": "gpu-hours", "amount": hours * GPU_HOUR} | changes
        return self.allocations.billing.budgets.put(self.admin, BudgetIn.model_validate(body))

    def pass_hours(self, hours: float) -> None:
        """Let time pass, without a look at budgets."""
        self.time.forward(hours * HOUR)

    def look(self) -> None:
        """Look at budgets, then place what can be placed."""
        self.allocations.budget_watch.look()
        self.allocations.placer.run_cycle()
