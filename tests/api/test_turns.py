"""How many requests of one user are worked on at once: the rest wait, and what only waits takes no
turn."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gpupool.allocations.service import Allocations
from gpupool.server.middleware.in_flight import AT_ONCE
from tests.api.test_fleet import node_body
from tests.support.api import Answer, Client, RunningApp, running_app

SECONDS = 30
CROWD = 60
"""Requests; more than the threads that all users share."""


class Gate:
    """Lists of jobs wait here for those of `worker`; counts how many of its requests are in a
    thread."""

    def __init__(self, allocations: Allocations, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        self.entered = threading.Semaphore(0)
        self._inside, self.most = 0, 0
        self._lock = threading.Lock()
        self._list = allocations.jobs.list_jobs
        monkeypatch.setattr(allocations.jobs, "list_jobs", self._slowly)

    def _slowly(self, caller: Any, *words: Any) -> Any:
        if caller.user != "worker":
            return self._list(caller, *words)
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
        self.entered.release()
        assert self.open.wait(SECONDS)
        with self._lock:
            self._inside -= 1
        return self._list(caller, *words)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[RunningApp]:
    with running_app(tmp_path, start=True) as running:
        running.client().put("nodes/sim-0", node_body(2))
        for name in ("worker", "mate"):
            assert running.client().post("users", {"name": name}).status == 201
        yield running


@pytest.fixture
def beside() -> Iterator[Callable[..., Future[Answer]]]:
    with ThreadPoolExecutor(CROWD) as threads:
        yield threads.submit


def of(pool: RunningApp, user: str) -> Client:
    return pool.client(None, token=pool.token(user))


def test_a_crowd_of_requests_of_one_user_has_a_few_threads_and_others_are_answered(
    pool: RunningApp, beside: Callable[..., Future[Answer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, worker, mate = (
        Gate(pool.services.allocations, monkeypatch),
        of(pool, "worker"),
        of(pool, "mate"),
    )
    try:
        answers = [beside(worker.get, "jobs") for _ in range(CROWD)]
        for _ in range(AT_ONCE):
            assert gate.entered.acquire(timeout=SECONDS)
        assert [mate.get("jobs").status for _ in range(3)] == [200] * 3
    finally:
        gate.open.set()
    assert [answer.result(SECONDS).status for answer in answers] == [200] * CROWD
    assert gate.most == AT_ONCE
    assert worker.get("jobs").status == 200


def test_requests_that_only_wait_hold_up_nothing_of_their_user(
    pool: RunningApp, beside: Callable[..., Future[Answer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, looked = (
        pool.client(65534),
        threading.Semaphore(0),
    )  # nobody: a job needs an account to run as
    job = {
        "name": "last",
        "shape": {"gpu_milli": 1000, "count": 2},
        "launch": {"argv": ["sleep", "600"]},
    }
    for name in ("first", "waits"):
        assert worker.post("jobs", job | {"name": name}).status == 201
    look = pool.services.allocations.jobs.get_job

    def counted(*words: Any) -> Any:
        found = look(*words)
        looked.release()
        return found

    monkeypatch.setattr(pool.services.allocations.jobs, "get_job", counted)
    target = f"jobs/waits?generation=99&wait_seconds={SECONDS}"
    answers = [beside(worker.get, target) for _ in range(2 * AT_ONCE)]
    for _ in range(2 * len(answers)):  # each looks for its job, and again before it waits
        assert looked.acquire(timeout=SECONDS)
    assert worker.post("jobs/waits/stop", {"grace_seconds": 0}).status == 200
    assert [answer.result(SECONDS).json()["state"] for answer in answers] == ["stopped"] * len(
        answers
    )
