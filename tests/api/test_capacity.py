"""What the pool could still give, over the API: the same for everybody, and true after a
placement."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.test_fleet import node_body
from tests.support.api import RunningApp, running_app


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RunningApp]:
    with running_app(tmp_path) as running:
        yield running


def test_capacity_follows_what_is_held(pool: RunningApp) -> None:
    pool.client().put("nodes/sim-0", node_body(2))
    before = pool.client(uid=4001).get("capacity").json()["models"]
    assert [
        (m["model"], m["whole_free"], m["whole_on_one_node"], m["whole_nodes"]) for m in before
    ] == [("H200", 2, 2, 1)]
    shape = {"gpu_milli": 300, "memory_bytes": 1 << 30, "count": 1}
    pool.client(uid=4001).post(
        "jobs", {"shape": shape, "launch": {"argv": ["true"]}, "wait": False}
    )
    (after,) = pool.client(uid=4001).get("capacity").json()["models"]
    assert (after["whole_free"], after["whole_nodes"], after["free_milli"]) == (1, 0, 1700)


def test_a_node_without_cards_has_nothing_to_give(pool: RunningApp) -> None:
    pool.client().put("nodes/sim-0", node_body(0))
    told = pool.client().get("capacity").json()
    assert {name: told[name] for name in ("models", "nodes", "classes")} == {
        "models": [],
        "nodes": [],
        "classes": [],
    }
    assert told["yours"]["tenant"] == "default"
