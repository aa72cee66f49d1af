"""Nodes and cards over the whole API: what each caller may do and see, and how refusals read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import RunningApp, running_app

GIB = 1 << 30


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RunningApp]:
    with running_app(tmp_path) as running:
        yield running


def node_body(cards: int, *, prefix: str = "GPU", **changes: Any) -> dict[str, Any]:
    card = {
        "vendor": "nvidia",
        "product": "NVIDIA H200",
        "model": "H200",
        "memory_bytes": 140 * GIB,
        "health": "ok",
    }
    devices = [
        {**card, "uuid": f"{prefix}-{n}", "index": n, "simulated": True} for n in range(cards)
    ]
    return {"devices": devices, "simulated": True, "adopt": True, **changes}


def test_a_node_registers_and_every_reader_sees_its_cards(pool: RunningApp) -> None:
    answer = pool.client().put("nodes/sim-0", node_body(3))
    assert (answer.status, answer.json()["devices"], answer.json()["ready"]) == (200, 3, False)
    seen = pool.client(uid=4001).get("devices", params={"limit": 2}).json()
    assert [one["name"] for one in seen["items"]] == ["sim-0:0", "sim-0:1"]
    rest = pool.client(uid=4001).get("devices", params={"limit": 2, "after": seen["next"]}).json()
    assert ([one["name"] for one in rest["items"]], rest["next"]) == (["sim-0:2"], None)
    assert pool.client(uid=4001).get("nodes").json()["items"][0]["name"] == "sim-0"


def test_a_user_may_neither_register_nor_adopt_nor_release(pool: RunningApp) -> None:
    pool.client().put("nodes/sim-0", node_body(1))
    user = pool.client(uid=4001)
    answers = [
        user.put("nodes/evil", node_body(1, prefix="X")),
        user.post("devices/adopt", {"devices": ["sim-0:0"]}),
        user.post("devices/release", {"devices": ["sim-0:0"]}),
    ]
    assert [(answer.status, answer.code) for answer in answers] == [(403, "GP-3002")] * 3
    assert user.get("devices/sim-0:0").json()["state"] == "adopted"


def test_an_agent_may_register_and_see_nothing_else(pool: RunningApp) -> None:
    assert pool.client().post("users", {"name": "node-agent", "role": "agent"}).status == 201
    agent = pool.client(None, token=pool.token("node-agent"))
    assert agent.put("nodes/sim-0", node_body(1)).status == 200
    assert agent.get("devices").code == "GP-3002"
    assert agent.post("devices/adopt", {"devices": ["sim-0:0"]}).code == "GP-3002"


def test_cards_are_adopted_and_released_by_an_admin(pool: RunningApp) -> None:
    admin = pool.client()
    admin.put("nodes/sim-0", node_body(2))
    released = admin.post("devices/release", {"devices": ["sim-0:1", "GPU-0"]}).json()
    assert [(one["name"], one["state"]) for one in released] == [
        ("sim-0:1", "observed"),
        ("sim-0:0", "observed"),
    ]
    adopted = admin.post("devices/adopt", {"devices": ["1"]}).json()
    assert [(one["name"], one["largest_milli"]) for one in adopted] == [("sim-0:1", 1000)]
    assert admin.get("devices", params={"state": "adopted"}).json()["items"][0]["name"] == "sim-0:1"


@pytest.mark.parametrize("name", ["sim-0:9", "nowhere", "sim-0:" + "9" * 50, "%00", "%F0%9F%98%80"])
def test_a_card_that_is_not_there_is_not_found_with_a_hint(pool: RunningApp, name: str) -> None:
    pool.client().put("nodes/sim-0", node_body(1))
    answer = pool.client().get(f"devices/{name}")
    assert answer.status in (400, 404)
    assert answer.code is not None
    if answer.status == 404:
        assert "gpupool gpus" in answer.json()["hint"]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("nodes/bad%20name", node_body(1), 400),
        ("nodes/sim-0", {"devices": [{"uuid": "x"}]}, 422),
        ("nodes/sim-0", node_body(1, simulated=False), 422),
        ("nodes/sim-0", {**node_body(1), "unknown": 1}, 422),
    ],
)
def test_a_body_that_makes_no_sense_is_refused_and_leaves_no_node(
    pool: RunningApp, path: str, body: dict[str, Any], status: int
) -> None:
    answer = pool.client().put(path, body)
    assert (answer.status, answer.code is not None) == (status, True)
    assert pool.client().get("nodes").json()["items"] == []


def test_foreign_processes_are_counted_for_all_and_named_for_admins_only(pool: RunningApp) -> None:
    admin = pool.client()
    admin.put("nodes/sim-0", node_body(1))
    process = {"pid": 4711, "user": "bob", "name": "train.py", "memory_bytes": GIB}
    sample = {"uuid": "GPU-0", "usage": {"utilization_percent": 40.0}, "unmanaged": [process]}
    assert admin.post("nodes/sim-0/reports", {"devices": [sample]}).status == 200
    (told,) = admin.get("devices/0").json()["unmanaged"]
    assert (told["pid"], told["user"], told["name"]) == (4711, "bob", "train.py")
    body = pool.client(uid=4001).get("devices/0")
    assert body.json()["unmanaged"][0]["memory_bytes"] == GIB
    assert not any(word in body.body for word in (b"bob", b"train.py", b"4711"))
    assert body.json()["usage"]["utilization_percent"] == 40.0


def test_a_reports_ready_makes_the_node_ready(pool: RunningApp) -> None:
    admin = pool.client()
    admin.put("nodes/sim-0", node_body(1))
    assert admin.post("nodes/sim-0/reports", {"ready": True}).status == 200
    assert admin.get("nodes/sim-0").json()["ready"] is True
