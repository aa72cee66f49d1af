"""What a node notices of a job: an event each, and a count of findings by tenant and kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpupool.store import counters
from tests.support.house import House


def test_findings_are_counted_and_other_notices_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counters, "findings", counters.LabelCounter())
    house = House(tmp_path)
    house.submit(name="one")
    house.allocations.placer.run_cycle()
    (item,) = house.work()
    for notice in ("unregistered", "unregistered", "a-new-kind", "host"):
        assert house.report(item, "noticed", notice=notice, reason="seen") == []
    tenant = str(house.admin.tenant_id)
    assert counters.findings.read() == {(tenant, "unregistered"): 2, (tenant, "other"): 1}
