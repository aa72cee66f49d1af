"""Tenant `nlp` with the users ann and bob, two cards, and time that a test moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from gpupool.model.tenant import Principal
from gpupool.store.tables import audit_records, events
from gpupool.wire.leavers.handover import HandoverIn, HandoverOut
from tests.support.budget_house import BudgetHouse


class HandoverHouse(BudgetHouse):
    def hand_over(self, caller: Principal | None = None, **more: Any) -> HandoverOut:
        body = HandoverIn.model_validate({"to": "bob"} | more)
        return self.allocations.handovers.hand_over(caller or self.admin, "ann", body)

    def list_events(self, kind: str) -> list[dict[str, Any]]:
        query = sa.select(events.c.data).where(events.c.kind == kind).order_by(events.c.seq)
        with self.store.read() as connection:
            return [dict(row.data) for row in connection.execute(query)]

    def list_acts(self, action: str) -> list[str]:
        query = sa.select(audit_records.c.objects).where(audit_records.c.action == action)
        with self.store.read() as connection:
            return list(connection.execute(query).scalars())

    def gpu_seconds(self, by: str = "user") -> dict[str, float]:
        now_ns = self.store.clock.now_ns()
        report = self.metering.make_report(self.admin, 0, now_ns, (by,))
        return {
            str(row.user): row.card_milliseconds / 1000
            for row in report.rows
            if row.kind == "tenant"
        }


@pytest.fixture
def house(tmp_path: Path) -> Iterator[HandoverHouse]:
    made = HandoverHouse(tmp_path)
    yield made
    made.close()
