"""The rounds of a controller, counted on an API server in memory and a clock that only its timers
move."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from typing import Any

import pytest

from gpupool.kubernetes.controller.controller import APART_SECONDS, PoolController
from gpupool.kubernetes.controller.reconcile_trigger import SOON_SECONDS
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.resources.gpu_node import Entry
from gpupool.kubernetes.resources.tenant import TENANTS
from tests.support import kube_builders
from tests.support.kube_memory import MemoryApi
from tests.support.virtual_time import end_task, loop_time, on_virtual_time

PODS = "/api/v1/namespaces/default/pods"
LONG = 5.0
OTHERS = 20
SMALL = {"main": kube_builders.asking(1, 100, 1 << 30)}


def server() -> MemoryApi:
    api = MemoryApi()
    api.put("/api/v1/nodes/n0", kube_builders.node("n0"))
    api.put(f"{ledger.NODES}/n0", kube_builders.gpu_node("n0"))
    return api


async def led(api: MemoryApi) -> tuple[PoolController, asyncio.Task[None]]:
    """A controller that has nothing to do any more."""
    controller = PoolController(api, lambda: 10**18)
    life = asyncio.create_task(controller.run())
    await asyncio.sleep(LONG)
    return controller, life


def when(api: MemoryApi, path: str) -> list[float]:
    """When it was written."""
    return [at for at, _, of in api.writes if of == path]


def test_a_pod_that_comes_alone_is_placed_without_waiting_for_others() -> None:
    async def run() -> None:
        api = server()
        _, life = await led(api)
        created = loop_time()
        api.put(f"{PODS}/a", kube_builders.pod("a"))
        await asyncio.sleep(LONG)
        assert when(api, f"{ledger.NODES}/n0") == [created]
        assert when(api, f"{PODS}/a") == [created]
        await end_task(life)

    on_virtual_time(run())


def test_pods_right_after_the_first_are_placed_together_by_one_write() -> None:
    async def run() -> None:
        api = server()
        _, life = await led(api)
        created = loop_time()
        api.put(f"{PODS}/a", kube_builders.pod("a"))
        for number in range(4):
            await asyncio.sleep(APART_SECONDS / 10)
            api.put(f"{PODS}/b{number}", kube_builders.pod(f"b{number}"))
        await asyncio.sleep(LONG)
        first, second = when(api, f"{ledger.NODES}/n0")
        assert (first, round(second - created, 6)) == (created, APART_SECONDS)
        await end_task(life)

    on_virtual_time(run())


def test_a_pod_right_after_a_round_that_had_nothing_to_do_is_placed_at_once() -> None:
    async def run() -> None:
        api = server()
        controller, life = await led(api)
        api.put(f"{PODS}/a", kube_builders.pod("a"))
        await asyncio.sleep(SOON_SECONDS / 2)
        before = controller.counts.cycles
        while controller.counts.cycles == before:  # the round that is due a while after a release
            await asyncio.sleep(APART_SECONDS / 10)
        created = loop_time()
        api.put(f"{PODS}/b", kube_builders.pod("b"))
        await asyncio.sleep(LONG)
        assert when(api, f"{PODS}/b") == [created]
        await end_task(life)

    on_virtual_time(run())


def test_a_pod_takes_one_cycle_although_the_watch_tells_its_ledger_before_the_answer() -> None:
    async def run() -> None:
        api = server()
        controller, life = await led(api)
        before = controller.counts.cycles
        api.put(f"{PODS}/a", kube_builders.pod("a"))
        await asyncio.sleep(SOON_SECONDS / 2)
        assert controller.counts.releases == 1
        assert controller.counts.cycles - before == 1
        await end_task(life)

    on_virtual_time(run())


def test_a_pod_beside_others_has_one_entry_written_out_and_none_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: Counter[str] = Counter()
    read, say = Entry.from_json, Entry.to_json

    def counted_read(found: Any) -> Entry:
        done["read"] += 1
        return read(found)

    def counted_say(entry: Entry) -> dict[str, Any]:
        done["written out"] += 1
        return say(entry)

    monkeypatch.setattr(Entry, "from_json", counted_read)
    monkeypatch.setattr(Entry, "to_json", counted_say)

    async def run() -> None:
        api = server()
        controller, life = await led(api)
        for number in range(OTHERS):
            api.put(f"{PODS}/b{number}", kube_builders.pod(f"b{number}", SMALL))
        await asyncio.sleep(LONG)
        assert len(controller.cluster.ledgers["n0"].entries) == OTHERS
        done.clear()
        api.put(f"{PODS}/a", kube_builders.pod("a", SMALL))
        await asyncio.sleep(LONG)
        assert len(controller.cluster.ledgers["n0"].entries) == OTHERS + 1
        assert done == {"written out": 1}
        await end_task(life)

    on_virtual_time(run())


@pytest.mark.parametrize(("first", "watched"), [(False, True), (True, True), (True, False)])
def test_what_an_agent_reports_while_its_ledger_is_written_is_known_after_the_answer(
    first: bool, watched: bool
) -> None:
    """Its report comes before or after the write; the watch is read before the answer, or after
    it."""

    async def run() -> None:
        api = server()
        controller, life = await led(api)
        request = api.request

        def report(path: str) -> None:
            found = api.objects[path]
            api.put(path, {**found, "status": {**found["status"], "observedGeneration": 2}})

        async def reported(method: str, path: str, body: Any = None, **more: Any) -> dict[str, Any]:
            ours = path == f"{ledger.NODES}/n0"
            if ours and first:
                report(path)
            answer = await request(method, path, body, **more)
            if ours and not first:
                report(path)
            if ours and watched:
                await asyncio.sleep(APART_SECONDS)  # the watch is read, the answer is on its way
            return answer

        api.request = reported  # type: ignore[method-assign]
        api.put(f"{PODS}/a", kube_builders.pod("a"))
        await asyncio.sleep(LONG)
        known = controller.cluster.ledgers["n0"]
        assert (known.observed, known.version, len(known.entries)) == (2, 2, 1)
        await end_task(life)

    on_virtual_time(run())


class LateWatchApi(MemoryApi):
    """The user changes a Tenant while its status is written, and a list reports both together."""

    change: dict[str, Any] | None = None

    async def request(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        if not path.endswith("/status") or self.change is None:
            return await super().request(method, path, body, **more)
        path = path.removesuffix("/status")
        meta = {**self.objects[path]["metadata"], "generation": 2}
        self.objects[path]["metadata"] = meta
        self.objects[path]["spec"] |= self.change
        self.change = None
        watches = self._watches.pop(TENANTS)
        answer = await super().request(method, f"{path}/status", body, **more)
        self._watches[TENANTS] = watches
        asyncio.get_running_loop().call_later(1, self._report, path)
        return answer

    def _report(self, path: str) -> None:
        for watch in self._watches[TENANTS]:
            watch.put_nowait(("MODIFIED", copy.deepcopy(self.objects[path])))


def test_a_change_that_the_answer_to_a_status_shows_first_is_put_in_force() -> None:
    async def run() -> None:
        api = LateWatchApi()
        made = kube_builders.tenant("vision", namespaces=["a"])
        made["metadata"]["generation"] = 1
        api.put(f"{TENANTS}/vision", made)
        api.change = {"namespaces": ["a", "b"]}
        _, life = await led(api)
        status = api.objects[f"{TENANTS}/vision"]["status"]
        assert (status["observedGeneration"], status["inForce"]["namespaces"]) == (2, ["a", "b"])
        await end_task(life)

    on_virtual_time(run())
