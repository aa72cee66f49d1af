"""What a meter says of a ledger that is no more comes after all that was said of it before."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from gpupool.base.errors import ServiceUnavailable
from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.kubernetes.ledger import ledger
from gpupool.kubernetes.metering.meter import (
    JournalPage,
    Meter,
    build_statement,
    close_missing_ledger,
)
from gpupool.kubernetes.resources.closed_intervals import ClosedInterval
from gpupool.kubernetes.resources.gang import EXPECTED
from gpupool.kubernetes.resources.gpu_node import Entry, GpuNode
from gpupool.kubernetes.resources.gpu_node_status import SlotUse
from gpupool.kubernetes.resources.gpu_time import GpuTime
from gpupool.kubernetes.resources.pod import read_pod
from gpupool.model.allocation import Seat
from gpupool.wire.cluster import ClusterNodeIn
from tests.support.kube_builders import CREATED, gang, gpu_node, pod
from tests.support.kube_memory import MemoryApi

SEATS = (Seat("GPU-0", 300, 1 << 30),)


def age(said: dict[str, int]) -> tuple[int, int]:
    """By which a server tells the newer of two statements."""
    return said["born_ns"], said["generation"]


def test_a_statement_has_what_containers_used_where_something_counts_it() -> None:
    held = Entry("u", "space", "a", "main", (Seat("GPU-0", 300, 1 << 30),), "team", held_ns=5)
    entries = [replace(held, container=name) for name in ("main", "helper")]
    over = ClosedInterval(
        "v", "space", "b", "main", held.seats, "team", "", 3, 4, GpuTime(1700, 200, 30)
    )
    node = GpuNode(
        "n",
        entries=tuple(entries),
        slots=(SlotUse("u", "main", spent=GpuTime(0)), SlotUse("u", "helper")),
    )
    said = ClusterNodeIn.model_validate(build_statement(node, 1, [over]))
    assert [one.gpu_milliseconds for one in said.held] == [0, None]
    (ended,) = said.ended
    sums = (ended.gpu_milliseconds, ended.borrowed_milliseconds, ended.denied_milliseconds)
    assert sums == (1700, 200, 30)
    assert said.held[0].borrowed_milliseconds is None


def test_what_is_left_in_pages_is_newer_than_a_ledger_that_was_made_in_the_same_second() -> None:
    last = build_statement(GpuNode("n", version=900), 7 * NS, ())
    after = build_statement(
        *close_missing_ledger(
            "n", [JournalPage("/one", 5 * NS, []), JournalPage("/two", 7 * NS, [])]
        ),
        (),
    )
    assert age(after) > age(last)
    assert age(after) < age(build_statement(GpuNode("n", version=1), 8 * NS, ())), (
        "and older than a ledger that comes again"
    )


def test_seat_of_a_gang_with_the_longest_names_can_be_told() -> None:
    """A statement that cannot be made holds up the books of the node, also after the seat ended."""
    named = pod("w0", namespace="n" * 63, gang=gang(2, name="g" * 253))
    gang_name = read_pod(named).gang
    assert gang_name != read_pod(pod("w0", namespace="n" * 63, gang=gang(2, name="g" * 252))).gang
    seat = Entry(
        f"{EXPECTED}{gang_name}/{'1f2e3d4c-' * 4}",
        "n" * 63,
        "",
        "main",
        SEATS,
        "t" * 253,
        held_ns=5,
    )
    node = GpuNode("n", entries=(seat,))
    (held,) = ClusterNodeIn.model_validate(build_statement(node, 1, ())).held
    assert held.uid == seat.uid
    other = build_statement(node.with_entries([replace(seat, tenant="t" * 252)]), 1, ())
    assert len(held.tenant) <= 63
    assert held.tenant != other["held"][0]["tenant"]


def test_statement_of_one_node_that_cannot_be_made_leaves_the_others_told() -> None:
    async def run() -> None:
        told = []

        def server(method: str, path: str, said: dict[str, Any] | None) -> Any:
            told.append((method, path))
            return [] if method == "GET" else {"applied": True}

        api = MemoryApi()
        broken = gpu_node("n0")
        broken["status"]["cards"][0]["memoryBytes"] = 0
        for found in (broken, gpu_node("n1")):
            found["metadata"]["creationTimestamp"] = CREATED
            api.put(f"{ledger.NODES}/{found['metadata']['name']}", found)
        meter = Meter(api, "gpupool", server)
        for found in api.objects.values():
            meter._note(found, False)
        assert not await meter._round(), "it is tried again"
        assert told == [("PUT", "cluster/nodes/n1")]

    asyncio.run(run())


def test_node_that_is_gone_and_told_is_forgotten() -> None:
    """Nodes of an autoscaler have new names each time."""

    async def run() -> None:
        def server(method: str, path: str, said: dict[str, Any] | None) -> Any:
            return ["n0"] if method == "GET" else {"applied": True}

        api = MemoryApi()
        found = gpu_node("n0")
        found["metadata"]["creationTimestamp"] = CREATED
        meter = Meter(api, "gpupool", server)
        meter._note(found, False)
        assert await meter._round()
        meter._note(found, True)
        assert await meter._round()
        assert (meter._nodes, meter._told, meter._gone) == ({}, {}, set())

    asyncio.run(run())


def test_deletion_that_no_watch_has_seen_ends_what_was_known_of_the_ledger() -> None:
    """A list after a break tells of it by name alone, and the server was away until then."""

    async def run() -> None:
        told: list[dict[str, Any]] = []
        is_away = True

        def server(method: str, path: str, said: dict[str, Any] | None) -> Any:
            if is_away:
                raise ServiceUnavailable("no answer")
            if said is not None:
                told.append(said)
            return [] if method == "GET" else {"applied": True}

        found = gpu_node("n0", version=7)
        found["metadata"] |= {"creationTimestamp": CREATED, "uid": "uid-n0"}
        over = ClosedInterval("u", "space", "a", "main", SEATS, "team", "", 3 * NS, 4 * NS)
        found["spec"]["ended"] = [over.to_json()]
        meter = Meter(MemoryApi(), "gpupool", server)
        meter._note(found, False)
        assert not await meter._round()
        meter._note({"metadata": {"name": "n0", "namespace": None, "uid": "uid-n0"}}, True)
        is_away = False
        assert await meter._round()
        (said,) = told
        assert said["generation"] == found["metadata"]["generation"]
        assert said["born_ns"] > 0
        assert [one["ended_ns"] for one in said["ended"]] == [4 * NS]
        assert said["held"] == []

    asyncio.run(run())
