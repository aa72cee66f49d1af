"""A pool that has come up and whose agent is held back: what needs cards waits until they are
known."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpupool.allocations.routes import unknown_cards
from tests.api.test_fleet import node_body
from tests.support.api import Answer, RunningApp, running_app

SECONDS = 30
FITS: dict[str, Any] = {
    "shape": {"gpu_milli": 1000, "count": 2},
    "launch": {"argv": ["true"]},
    "wait": False,
}
TOO_MANY: dict[str, Any] = {**FITS, "shape": {"gpu_milli": 1000, "count": 3}}


class ComingUp:
    """A pool whose readiness this test decides; `looked` is set once somebody waits for it."""

    def __init__(self, app: RunningApp) -> None:
        self.app, self.ready = app, False
        self._looks, self.looked = 0, threading.Event()
        app.app.state.config = replace(app.app.state.config, ready=self._is_ready)

    def _is_ready(self) -> bool:
        self._looks += 1
        if self._looks > 1:  # the first look is before the refusal
            self.looked.set()
        return self.ready

    def know_cards(self) -> None:
        self.app.client().put("nodes/sim-0", node_body(2))
        self.ready = True
        self.app.store.notifier.publish_topics({unknown_cards.READY})


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[ComingUp]:
    with running_app(tmp_path, start=True) as running:
        yield ComingUp(running)


@pytest.fixture
def beside() -> Iterator[Callable[..., Future[Answer]]]:
    with ThreadPoolExecutor(4) as threads:
        yield threads.submit


def test_a_submission_waits_for_the_cards_and_is_taken_in(
    pool: ComingUp, beside: Callable[..., Future[Answer]]
) -> None:
    answer = beside(pool.app.client().post, "jobs", FITS)
    assert pool.looked.wait(SECONDS)
    assert not answer.done()
    pool.know_cards()
    assert answer.result(SECONDS).status == 201


def test_a_submission_that_does_not_fit_is_refused_once_the_cards_are_known(
    pool: ComingUp, beside: Callable[..., Future[Answer]]
) -> None:
    answer = beside(pool.app.client().post, "jobs", TOO_MANY)
    assert pool.looked.wait(SECONDS)
    pool.know_cards()
    refused = answer.result(SECONDS).json()
    assert refused["code"] == "GP-2004"
    assert "2" in refused["detail"], refused


def test_a_reservation_waits_for_the_cards_too(
    pool: ComingUp, beside: Callable[..., Future[Answer]]
) -> None:
    held = {
        "name": "demo",
        "shape": {"gpu_milli": 1000, "count": 2},
        "start_ns": 2 << 60,
        "end_ns": (2 << 60) + 10**12,
    }
    answer = beside(pool.app.client().post, "reservations", held)
    assert pool.looked.wait(SECONDS)
    pool.know_cards()
    assert answer.result(SECONDS).status == 201, answer.result().body


def test_an_agent_that_tells_nothing_is_named_and_the_submission_leaves_nothing(
    pool: ComingUp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unknown_cards, "COMING_SECONDS", 0.01)
    refused = pool.app.client().post("jobs", FITS)
    assert (refused.status, refused.code) == (503, "GP-5000")
    assert "has told of no card" in refused.json()["detail"]
    assert pool.app.client().get("jobs").json()["items"] == []


def test_a_pool_that_is_ready_refuses_at_once(pool: ComingUp) -> None:
    pool.know_cards()
    assert pool.app.client().post("jobs", TOO_MANY).code == "GP-2004"
    assert not pool.looked.is_set()
