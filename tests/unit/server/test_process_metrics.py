"""What a scrape says of the server's process: one series for each state, the lease if there is one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gpupool.base.health import HealthChecks, warn, well
from gpupool.server.process_metrics import HealthMetrics, collect_lease


def test_each_check_has_a_series_for_every_state() -> None:
    checks = HealthChecks()
    checks.add("space", lambda: well("enough"))
    checks.add("clock", lambda: warn("late", "ntp"))
    (family,) = (one for one in HealthMetrics(checks).collect() if one.name == "gpupool_check")
    found = {(one.labels["check"], one.labels["state"]): int(one.value) for one in family.samples}
    assert [key for key, value in found.items() if value] == [("space", "ok"), ("clock", "warn")]
    assert len(found) == 6


def test_the_lease_is_absent_on_sqlite_and_before_its_first_renewal() -> None:
    assert list(collect_lease(None)) == []
    lease: Any = SimpleNamespace(age_seconds=lambda: None, number=3, longest_gap_seconds=2.5)
    assert list(collect_lease(lease)) == []
    lease.age_seconds = lambda: 0.5
    found = {one.name: one.samples[0].value for one in collect_lease(lease)}
    assert found == {
        "gpupool_leader_number": 3,
        "gpupool_lease_age_seconds": 0.5,
        "gpupool_lease_longest_gap_seconds": 2.5,
    }
