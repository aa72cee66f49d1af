"""The status of the settings is written when it differs, and says what is in use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.resources.gpu_node import GpuNode
from gpupool.kubernetes.resources.pool_settings import NAME, SETTINGS, PoolSettings, Settings
from gpupool.kubernetes.status.settings import (
    STARTS_SECONDS,
    SettingsStatus,
    empty,
    policy_condition,
)
from gpupool.scheduling import PolicyFault
from gpupool.scheduling.timeline.start_records import ESTIMATE, PROMISE
from tests.support.kube_builders import gpu_node
from tests.support.scripted_api import CONFLICT, ScriptedApi
from tests.support.virtual_time import end_task, on_virtual_time

STATUS = f"{SETTINGS}/{NAME}/status"
FAULT = PolicyFault("mine", "the policy mine failed", "ValueError: 1 card")


class Server(ScriptedApi):
    """Notes each status that is written, as the watch would tell it."""

    def __init__(self, settings: PoolSettings, *refusals: Exception) -> None:
        super().__init__()
        self._settings = settings
        self._refusals = list(refusals)

    async def request(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        answer = await super().request(method, path, body, **more)
        if self._refusals:
            raise self._refusals.pop(0)
        if method == "PATCH":
            made = {"metadata": {"name": NAME, "generation": 1}, "spec": {}}
            self._settings.note_settings({**made, "status": body[0]["value"]}, False)
        return answer


class Written:
    """The status writer of one leader."""

    def __init__(self, known: dict[str, Any] | None, *refusals: Exception) -> None:
        self.settings = PoolSettings(Settings())
        if known is not None:
            self.settings.note_settings(known, False)
        self.api = Server(self.settings, *refusals)
        self.listed = asyncio.Event()
        self.listed.set()
        self.cluster = ClusterCache()
        self.status = SettingsStatus(self.api, self.settings, self.cluster, self.listed, lambda: 0)

    def run(self, *steps: Callable[[], None], seconds: float = 60.0) -> list[tuple[str, str]]:
        """Run, and take each step after so many seconds; the requests."""

        async def run() -> None:
            running = asyncio.create_task(self.status.run())
            await asyncio.sleep(seconds)
            for step in steps:
                step()
                await asyncio.sleep(seconds)
            await end_task(running)

        on_virtual_time(run())
        return self.api.calls

    @property
    def last(self) -> dict[str, Any]:
        found: dict[str, Any] = self.api.sent[-1][2][0]["value"]
        return found


def known_object() -> dict[str, Any]:
    return {**empty(), "metadata": {"name": NAME, "generation": 1}}


def build_starts(*sorts: str, told: int = 0) -> dict[str, Any]:
    return {"told": told, "open": [{"sort": sort} for sort in sorts]}


def test_missing_object_is_created_without_a_setting() -> None:
    written = Written(None)
    assert written.run() == [("POST", SETTINGS)]
    assert written.api.sent[0][2]["spec"] == {}


def test_status_is_written_once_while_nothing_changes() -> None:
    written = Written(known_object())
    assert written.run(written.status.wake.set, written.status.note_size) == [("PATCH", STATUS)]
    assert written.last["inUse"] == Settings().to_json()
    assert written.last["observedGeneration"] == 1


def test_fault_of_the_policy_is_told_with_its_words_and_its_end() -> None:
    written = Written(known_object())
    written.run(lambda: written.status.note_fault(FAULT))
    assert written.last["conditions"][1]["message"] == "the policy mine failed: ValueError: 1 card"
    assert policy_condition(None)["status"] == "True"
    long = policy_condition(PolicyFault("mine", "x" * 2000, ""))
    assert (long["status"], len(long["message"])) == ("False", 1024)


def test_entries_of_a_ledger_change_no_limit() -> None:
    written = Written(known_object())
    node = GpuNode.from_json(gpu_node())
    written.status.note_ledger(node, node.with_entries(()))
    assert not written.status.wake.is_set()
    written.status.note_ledger(node, None)
    assert written.status.wake.is_set()


@pytest.mark.parametrize(("sort", "at_once"), [(ESTIMATE, False), (PROMISE, True)])
def test_new_promise_is_written_at_once_and_an_estimate_later(sort: str, at_once: bool) -> None:
    written = Written(known_object())
    note = written.status.note_starts
    before = build_starts()
    written.run(lambda: note(before), lambda: note(build_starts(sort)), seconds=0.1)
    assert (written.last.get("starts", before)["open"] != []) is at_once
    assert STARTS_SECONDS > 0.1


def test_conflict_is_left_to_the_watch() -> None:
    written = Written(known_object(), CONFLICT)
    assert written.run() == [("PATCH", STATUS)]
    assert written.run(written.status.wake.set)[1:] == [("PATCH", STATUS)]
