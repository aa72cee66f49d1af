"""An entry goes only where its pod is gone for certain, or cannot be let go by anybody any more."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from gpupool.base.errors import ApiServerRejection, ServiceUnavailable
from gpupool.base.units import GIB
from gpupool.kubernetes.cache.cluster import ClusterCache
from gpupool.kubernetes.controller.entry_withdrawal import EntryWithdrawal
from gpupool.kubernetes.resources import names
from gpupool.kubernetes.resources.gpu_node import Entry, EntryState, GpuNode
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.model.allocation import Seat
from tests.support.kube_builders import gpu_node, pod

ENTRY = Entry(
    "uid-a", "default", "a", "main", (Seat("GPU-n0-0", 300, GIB),), "default", gang="default/train"
)
GONE, CONFLICT = (
    ApiServerRejection("gone", status=404, reason="NotFound"),
    ApiServerRejection("no", status=409, reason="Conflict"),
)


class Server:
    """Answers every request with the same, and remembers what was asked."""

    def __init__(self, answer: dict[str, Any] | Exception) -> None:
        self.answer = answer
        self.patches: list[dict[str, Any]] = []
        self.reads = 0

    async def get(self, path: str) -> dict[str, Any]:
        assert path == "/api/v1/namespaces/default/pods/a"
        self.reads += 1
        return self._answer()

    async def patch(self, path: str, body: dict[str, Any], *, accept: str) -> dict[str, Any]:
        self.patches.append(body)
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def pool() -> ClusterCache:
    made = ClusterCache()
    made.note_ledger("n0", replace(GpuNode.from_json(gpu_node("n0")), entries=(ENTRY,), version=7))
    return made


def staying(pool: ClusterCache, server: Server, *given_up: str) -> frozenset[str]:
    withdrawing = EntryWithdrawal(server, pool)  # type: ignore[arg-type]  # as far as it is asked here
    return asyncio.run(
        withdrawing.find_staying_pods(list(pool.ledgers.values()), frozenset(given_up))
    )


def test_the_entry_of_a_pod_that_is_there_and_was_not_heard_of_stays(pool: ClusterCache) -> None:
    assert staying(pool, Server(pod("a"))) == {"uid-a"}


@pytest.mark.parametrize(
    "answer",
    [
        GONE,
        {"metadata": {**pod("a")["metadata"], "uid": "uid-of-another"}},
        {"metadata": {**pod("a")["metadata"], "labels": {}}},
    ],
    ids=["gone", "another of its name", "not ours any more"],
)
def test_the_entry_of_one_that_is_not_there_goes_and_it_is_asked_for_once(
    pool: ClusterCache, answer: Any
) -> None:
    server = Server(answer)
    for _ in range(2):
        assert staying(pool, server) == frozenset()
    assert server.reads == 1


def test_a_server_that_does_not_say_frees_nothing(pool: ClusterCache) -> None:
    with pytest.raises(ServiceUnavailable):
        staying(pool, Server(ServiceUnavailable("busy", status=500)))


def test_of_a_pod_that_the_watch_told_of_nobody_is_asked(pool: ClusterCache) -> None:
    server = Server(GONE)
    pool.note_pod("uid-a", read_pod(pod("a")))
    assert staying(pool, server) == frozenset()
    pool.note_pod("uid-a", None)
    assert staying(pool, server) == frozenset()
    draining = replace(ENTRY, uid="uid-b", state=EntryState.DRAINING)
    pool.note_ledger("n0", replace(pool.ledgers["n0"], entries=(draining,), version=8))
    assert staying(pool, server) == frozenset()
    assert server.reads == 0


def test_a_gated_pod_is_touched_before_its_seat_goes(pool: ClusterCache) -> None:
    """The touch names the version that was seen gated, and the ledger's generation without the
    seat."""
    pool.note_pod("uid-a", read_pod(pod("a")))
    server = Server({"metadata": {}})
    assert staying(pool, server, "default/train") == frozenset()
    (patch,) = server.patches
    assert patch["metadata"]["resourceVersion"] == "1"
    assert patch["metadata"]["annotations"] == {names.WITHDRAWN: "8.1"}
    noted = pod("a")
    noted["metadata"]["annotations"][names.WITHDRAWN] = "8.1"
    assert read_pod(noted).withdrawn_at == 8


@pytest.mark.parametrize(
    "answer", [CONFLICT, ApiServerRejection("never", status=403, reason="Forbidden")]
)
def test_a_seat_stays_whose_pod_was_not_touched(pool: ClusterCache, answer: Exception) -> None:
    """It has changed: it may have been let go."""
    pool.note_pod("uid-a", read_pod(pod("a")))
    assert staying(pool, Server(answer), "default/train") == {"uid-a"}


def test_a_generation_that_was_named_before_is_not_taken_back(pool: ClusterCache) -> None:
    pool.note_pod("uid-a", replace(read_pod(pod("a")), withdrawn_at=40))
    server = Server({"metadata": {}})
    staying(pool, server, "default/train")
    assert server.patches[0]["metadata"]["annotations"] == {names.WITHDRAWN: "40.1"}


@pytest.mark.parametrize("said", ["", "x", "-1.2", "9" * 30, "1e3"])
def test_what_a_tenant_writes_there_is_no_number_that_counts(said: str) -> None:
    noted = pod("a")
    noted["metadata"]["annotations"][names.WITHDRAWN] = said
    assert read_pod(noted).withdrawn_at == 0
