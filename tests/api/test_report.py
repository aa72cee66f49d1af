"""The report's route: what it takes, what it refuses, and that it closes for a pool that really
ran."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from gpupool.model.tenant import PERMISSIONS, Permission, UserRole
from gpupool.wire.report import LiveOut, ReportOut
from tests.support.api import Client, RunningApp

GIB = 1 << 30


@pytest.fixture(scope="module")
def admin(pool: RunningApp) -> Client:
    """The owner of a pool with two cards, one of them held by a seat since before the first second
    counted."""
    client = pool.client()
    cards = [
        {
            "uuid": f"GPU-{index}",
            "index": index,
            "vendor": "nvidia",
            "product": "NVIDIA T4",
            "model": "T4",
            "memory_bytes": 16 * GIB,
            "simulated": True,
            "health": "ok",
        }
        for index in range(2)
    ]
    body = {"devices": cards, "simulated": True, "adopt": True}
    assert client.put("nodes/node-1", body).status == 200
    owner = {"tenant_id": 1, "project_id": 1, "user_id": 1, "job_id": 1}
    with pool.store.write() as write:
        seat = {"allocation_id": 1, "device_id": 1, "gpu_milli": 250, "memory_mib": 4096}
        pool.services.metering.open_seats(write, [{**seat, **owner}])
        opened = write.now_ns // 10**9
    while pool.services.metering.read_now_ns() // 10**9 <= opened:
        time.sleep(0.01)  # the ledger counts whole seconds of a real clock
    return client


def report(client: Client, **params: Any) -> ReportOut:
    answer = client.get("report", params=params)
    assert answer.status == 200, answer.body
    return ReportOut.model_validate(answer.json())


def test_the_last_day_by_tenant_is_the_default_and_it_closes(admin: Client) -> None:
    answer = report(admin)
    assert answer.by == ["tenant"]
    assert [(row.kind, row.tenant) for row in answer.rows] == [
        ("tenant", "default"),
        ("idle", None),
        ("overhead", None),
        ("unmanaged", None),
    ]
    assert (
        sum(row.card_milliseconds for row in answer.rows) == answer.capacity_card_milliseconds > 0
    )
    assert sum(row.memory_mib_seconds for row in answer.rows) == answer.capacity_memory_mib_seconds
    assert answer.rows[0].card_milliseconds * 4 == answer.rows[0].memory_mib_seconds * 1000 // 4096
    assert answer.closes
    assert answer.simulated


@pytest.mark.parametrize("by", [["card", "user"], ["user,card"], ["user", "card,user"]])
def test_groupings_are_repeated_or_with_commas(admin: Client, by: list[str]) -> None:
    answer = report(admin, by=by)
    assert answer.by == ["user", "card"]
    assert {(row.kind, row.device) for row in answer.rows} == {
        ("tenant", "node-1:0"),
        ("idle", "node-1:0"),
        ("idle", "node-1:1"),
    }


def test_instants_are_relative_iso_or_nanoseconds(admin: Client) -> None:
    begin = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=2)
    whole = report(admin, since="2h").rows
    for since in (
        begin.isoformat(),
        f"{begin:%Y-%m-%dT%H:%M:%S}",
        str(int(begin.timestamp()) * 10**9),
    ):
        answer = report(admin, since=since)
        assert answer.since_ns == int(begin.timestamp()) * 10**9
        assert len(answer.rows) == len(whole)


def test_prices_are_applied_and_add_up(admin: Client) -> None:
    answer = report(admin, price=["T4:3600", "*:1"], rule="compute-only", currency="CNY")
    seconds = answer.capacity_card_milliseconds // 1000
    assert (answer.total_cost, answer.currency) == (f"{seconds}.00", "CNY")
    assert answer.rows[0].cost == f"{answer.rows[0].card_milliseconds / 1000:.2f}"


@pytest.mark.parametrize(
    ("params", "status", "code"),
    [
        ({"since": "yesterday"}, 400, "GP-1004"),
        ({"since": "0001-01-01T00:00:00+14:00"}, 400, "GP-1004"),
        ({"since": "99999999999999999999999999"}, 400, "GP-1004"),
        ({"since": "1h", "until": "2h"}, 400, "GP-1004"),
        ({"since": "2999-01-01"}, 400, "GP-1004"),
        ({"until": ""}, 400, "GP-1004"),
        ({"by": "colour"}, 400, "GP-1005"),
        ({"price": "T4"}, 400, "GP-1005"),
        ({"price": "H200:1"}, 400, "GP-1005"),
        ({"rule": "mean", "price": "*:1"}, 400, "GP-1005"),
        ({"tenant": "nobody"}, 404, "GP-3004"),
        ({"tenant": "x" * 64}, 422, "GP-1010"),
        ({"currency": "E\n"}, 422, "GP-1010"),
    ],
)
def test_bad_input_is_refused_with_its_code(
    admin: Client, params: dict[str, Any], status: int, code: str
) -> None:
    answer = admin.get("report", params=params)
    assert (answer.status, answer.code) == (status, code), answer.body


def test_every_reader_may_ask_and_nobody_else(
    callers: dict[UserRole, Client], admin: Client
) -> None:
    assert admin.get("report").status == 200
    told = {role: callers[role].get("report").status for role in UserRole}
    readers = {role for role in UserRole if Permission.READ in PERMISSIONS[role]}
    assert readers >= {UserRole.VIEWER, UserRole.AUDITOR}
    assert told == {role: 200 if role in readers else 403 for role in UserRole}


def test_usage_shows_cards_jobs_and_tenants_to_the_admin(admin: Client) -> None:
    answer = admin.get("usage")
    assert answer.status == 200, answer.body
    live = LiveOut.model_validate(answer.json())
    assert [card.device for card in live.cards] == ["node-1:0", "node-1:1"]
    assert live.cards[0].usage.utilization_percent is None
    assert [(tenant.tenant, tenant.jobs) for tenant in live.tenants] == [("default", 1)]


@pytest.mark.parametrize("limit", [0, 1001, "x"])
def test_a_limit_out_of_bounds_is_refused(admin: Client, limit: Any) -> None:
    assert admin.get("usage", params={"limit": limit}).code == "GP-1010"
