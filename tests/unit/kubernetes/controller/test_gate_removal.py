"""A pod with all its cards is released once, in the version that was read."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gpupool.base.errors import GpupoolError, ServiceUnavailable
from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.controller.gate_removal import AGAIN_SECONDS, GateRemoval
from gpupool.kubernetes.reporting.counters import ControllerCounters
from gpupool.kubernetes.reporting.events import EventWriter
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import EntryState
from gpupool.kubernetes.resources.pod import Pod, read_pod
from tests.support.cluster_caches import hold, two_node_pool
from tests.support.kube_builders import asking, pod
from tests.support.scripted_api import CONFLICT, FORBIDDEN, Answer, ScriptedApi
from tests.support.virtual_time import end_task, on_virtual_time

POD = "/api/v1/namespaces/default/pods/a"
RELEASED = {"metadata": {"resourceVersion": "2"}}


class Release:
    """One gated pod that has its cards on `n0`, and what became of it."""

    def __init__(self, found: dict[str, Any] | None = None, *answers: Answer) -> None:
        self.found = found or pod()
        self.api = ScriptedApi({("PATCH", POD): answers or (RELEASED,)})
        self.cluster: ClusterCache = two_node_pool()
        self.cluster.note_pod("uid-a", read_pod(self.found))
        hold(self.cluster, "n0", "uid-a", 300, 8 * GIB)
        self.counts = ControllerCounters()
        self.noted: list[Pod] = []
        self.refused: list[GpupoolError] = []
        self.confirmed: list[str] = []
        self.is_confirmed = True
        self.wakes = 0
        self.removal: GateRemoval | None = None

    async def _confirm(self, node: str) -> bool:
        self.confirmed.append(node)
        return self.is_confirmed

    def _wake(self) -> None:
        self.wakes += 1

    def run(self, passes: int = 1) -> list[tuple[str, str]]:
        """The requests of so many passes, one second apart."""

        async def run() -> None:
            events = EventWriter(self.api, self.counts, lambda: 0)
            removal = GateRemoval(
                self.api,
                self.cluster,
                self.counts,
                events,
                self.noted.append,
                lambda _pod, error: self.refused.append(error),
                self._wake,
                self._confirm,
            )
            self.removal = removal
            removal.note_gated_pod("uid-a", self.found)
            running = asyncio.create_task(removal.run())
            for _ in range(passes):
                removal.enqueue_ready_pods()
                await asyncio.sleep(1)
            await end_task(running)

        on_virtual_time(run())
        return self.api.calls


def test_pod_with_its_cards_is_released_and_noted() -> None:
    release = Release()
    assert release.run() == [("PATCH", POD)]
    body = release.api.sent[0][2]
    assert body["metadata"]["resourceVersion"] == "1"
    assert body["spec"]["schedulingGates"] is None
    (noted,) = release.noted
    assert (noted.gated, noted.version, release.counts.releases) == (False, "2", 1)


def test_direct_pod_is_bound_and_keeps_its_version() -> None:
    release = Release(pod(direct=True))
    assert release.run() == [("POST", f"{POD}/binding")]
    (noted,) = release.noted
    assert (noted.node, noted.version, noted.gated) == ("n0", "1", False)


def test_pod_that_lacks_an_entry_or_gives_one_back_stays_gated() -> None:
    two = Release(pod(containers={"main": asking(), "side": asking()}))
    assert two.run() == []
    draining = Release()
    known = draining.cluster.ledgers["n0"]
    entries = tuple(replace(entry, state=EntryState.DRAINING) for entry in known.entries)
    draining.cluster.note_ledger("n0", replace(known, entries=entries, version=9))
    assert draining.run() == []


def test_version_that_met_a_conflict_is_not_tried_again() -> None:
    release = Release(None, CONFLICT)
    assert release.run(passes=3) == [("PATCH", POD)]
    assert (release.noted, release.refused, release.wakes) == ([], [], 1)


def test_refused_release_is_told_and_tried_again_later() -> None:
    release = Release(None, FORBIDDEN)
    assert release.run(passes=3) == [("PATCH", POD)]
    assert release.refused == [FORBIDDEN]
    assert release.removal is not None
    left = release.removal.next_look()
    assert left is not None
    assert 0 < left <= AGAIN_SECONDS
    release.removal.note_gated_pod("uid-a", None)
    assert release.removal.next_look() is None


def test_release_during_an_outage_is_tried_again() -> None:
    release = Release(None, ServiceUnavailable("no answer"), RELEASED)
    assert release.run(passes=2) == [("PATCH", POD), ("PATCH", POD)]
    assert (len(release.noted), release.wakes) == (1, 1)


@pytest.mark.parametrize(("confirmed", "requests"), [(True, 1), (False, 0)])
def test_seat_that_another_controller_may_have_withdrawn_is_confirmed_first(
    confirmed: bool, requests: int
) -> None:
    found = pod()
    found["metadata"]["annotations"][names.WITHDRAWN] = "7.1"
    release = Release(found)
    release.is_confirmed = confirmed
    assert len(release.run()) == requests
    assert release.confirmed == ["n0"]
    assert release.wakes == (0 if confirmed else 1)
