"""Volumes and bound pods are watched only while a waiting pod needs them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from gpupool.kubernetes.cache import on_demand_watches
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.cache.on_demand_watches import FORGET_SECONDS, OnDemandWatches
from gpupool.kubernetes.resources.pod import read_pod
from tests.support.kube_builders import pod
from tests.support.kube_memory import MemoryApi, Object
from tests.support.virtual_time import end_task, loop_time, on_virtual_time

CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
        ]
    }
}


class ListingApi(MemoryApi):
    """Notes which kinds are listed; those in `held` are answered after `released`."""

    def __init__(self, held: str = "") -> None:
        super().__init__()
        self.listed: list[str] = []
        self.released = asyncio.Event()
        self._held = held

    async def list_objects(self, path: str, **query: str) -> tuple[list[Object], str]:
        self.listed.append(path.rpartition("/")[2])
        if path.endswith("/" + self._held):
            await self.released.wait()
        return await super().list_objects(path, **query)


class Watched:
    """A cache, and the watches that its waiting pods ask for."""

    def __init__(self, held: str = "") -> None:
        self.api = ListingApi(held)
        self.cluster = ClusterCache()
        self.wakes = 0
        self.watches = OnDemandWatches(self.api, self.cluster, self._wake)

    def _wake(self) -> None:
        self.wakes += 1

    def wait_for(self, name: str, **spec: Any) -> None:
        """Have a pod wait, and say so to the watches."""
        self.cluster.note_pod(f"uid-{name}", read_pod(pod(name, spec=spec)))
        self.watches.note_waiting_pods()


def run_watches(body: Callable[[Watched], Coroutine[Any, Any, None]], held: str = "") -> None:
    async def run() -> None:
        watched = Watched(held)
        running = asyncio.create_task(watched.watches.run())
        await body(watched)
        await end_task(running)

    on_virtual_time(run())


@pytest.fixture(autouse=True)
def _virtual_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_demand_watches, "time", SimpleNamespace(monotonic=loop_time))


def test_pod_that_needs_neither_starts_no_watch() -> None:
    async def body(watched: Watched) -> None:
        watched.wait_for("plain")
        await asyncio.sleep(1)
        assert (watched.api.listed, watched.wakes) == ([], 0)

    run_watches(body)


def test_volumes_are_known_once_each_kind_was_listed() -> None:
    async def body(watched: Watched) -> None:
        watched.wait_for("a", volumes=[CLAIM])
        await asyncio.sleep(1)
        volumes = watched.cluster.predicates.volumes
        assert sorted(watched.api.listed) == [
            "csinodes",
            "persistentvolumeclaims",
            "persistentvolumes",
            "storageclasses",
            "volumeattachments",
        ]
        assert not volumes.known
        watched.api.released.set()
        await asyncio.sleep(1)
        assert volumes.known
        assert watched.wakes >= 5

    run_watches(body, held="storageclasses")


def test_bound_pods_are_forgotten_after_a_while_without_need() -> None:
    async def body(watched: Watched) -> None:
        around = watched.cluster.predicates.around
        watched.wait_for("a", affinity=APART)
        await asyncio.sleep(FORGET_SECONDS - 1)
        assert sorted(watched.api.listed) == ["namespaces", "pods"]
        assert around.known
        watched.watches.note_waiting_pods()
        await asyncio.sleep(FORGET_SECONDS - 1)
        assert around.known, "the pod still waits"
        await asyncio.sleep(2)
        assert not around.known
        watched.watches.note_waiting_pods()
        await asyncio.sleep(1)
        assert around.known, "they are listed again"

    run_watches(body)


def test_change_that_alters_no_answer_wakes_nothing() -> None:
    async def body(watched: Watched) -> None:
        watched.wait_for("a", affinity=APART)
        await asyncio.sleep(1)
        before = watched.wakes
        space = {"metadata": {"name": "team", "labels": {"a": "b"}}}
        watched.api.put("/api/v1/namespaces/team", space)
        await asyncio.sleep(1)
        after = watched.wakes
        assert after > before
        watched.api.put("/api/v1/namespaces/team", space)
        await asyncio.sleep(1)
        assert watched.wakes == after

    run_watches(body)
