"""A pool's event log becomes a trace; what a replay writes down is such a log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpupool.base.errors import BadTrace
from gpupool.base.units import GIB
from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.model.claim import Shape, SharingKind
from gpupool.model.quota import Quota
from gpupool.simulation.traces.eventlog import is_event_log, read_events
from gpupool.simulation.traces.trace import TraceNode

BEGIN = 1_795_000_000 * NS


def event(at: int, kind: str, subject: str, **data: Any) -> str:
    return json.dumps(
        {"at_ns": BEGIN + at * NS, "kind": kind, "subject": subject, "tenant": "nlp", "data": data}
    )


def submitted(at: int, name: str, **more: Any) -> str:
    shape = {"gpu_milli": 300, "memory_bytes": 8 * GIB, "count": 1, "sharing": "burst"}
    return event(
        at, "job.submitted", f"j-{name}", **{"name": name, "count": 1, "shape": shape, **more}
    )


LOG = "\n".join(
    [
        event(0, "device.added", "node-1:1", model="T4", memory_bytes=15 * GIB, state="adopted"),
        event(0, "device.added", "node-1:0", model="H200", memory_bytes=140 * GIB, state="adopted"),
        event(1, "quota.changed", "nlp", nominal_milli=2000, borrowing_milli=0, weight=3),
        submitted(10, "train", priority=100, max_seconds=60),
        event(12, "job.placed", "j-train", name="train", node="node-1", cards=["GPU-1"]),
        event(13, "job.running", "j-train", name="train"),
        submitted(14, "never"),
        event(15, "job.ended", "j-never", name="never", state="stopped"),
        event(42, "job.ended", "j-train", name="train", state="done"),
        submitted(50, "train"),
        event(50, "job.placed", "j-2", name="train", node="node-1", cards=["GPU-1"]),
        event(90, "pool.stopped", "pool"),
    ]
)


def test_a_log_gives_nodes_quotas_and_the_jobs_that_were_placed() -> None:
    trace = read_events("events.jsonl", LOG)
    assert trace.nodes == (TraceNode("node-1", (("H200", 140 * GIB), ("T4", 15 * GIB))),)
    assert trace.quotas == {"nlp": Quota(2000, 0)}
    assert trace.weights == {"nlp": 3}
    first, second = trace.arrivals
    assert (first.job, first.at_ns, first.run_ns, first.priority, first.limit_seconds) == (
        "train",
        10 * NS,
        30 * NS,
        100,
        60,
    )
    assert first.shape == Shape(300, 8 * GIB, sharing=SharingKind.BURST)
    assert (second.job, second.run_ns) == ("train@2", 40 * NS)  # it runs still when the log ends


def test_a_job_that_was_placed_again_runs_from_its_last_placement() -> None:
    log = "\n".join(
        [
            submitted(0, "a"),
            event(1, "job.placed", "j-a", name="a"),
            event(5, "job.requeued", "j-a", name="a", reason="its node was lost"),
            event(7, "job.placed", "j-a", name="a"),
            event(9, "job.ended", "j-a", name="a"),
        ]
    )
    assert read_events("log", log).arrivals[0].run_ns == 2 * NS


def test_members_of_an_array_are_jobs_of_their_own_and_those_of_a_gang_are_one() -> None:
    ends = [
        line
        for n in (0, 1)
        for line in (
            event(1, "job.placed", f"x{n}", name=f"a.{n}"),
            event(2 + n, "job.ended", f"x{n}", name=f"a.{n}"),
        )
    ]
    ends.sort(key=lambda line: int(json.loads(line)["at_ns"]))
    array = read_events("log", "\n".join([submitted(0, "a", count=2), *ends])).arrivals
    assert [(one.job, one.members, one.run_ns // NS) for one in array] == [
        ("a.0", 1, 1),
        ("a.1", 1, 2),
    ]
    gang = read_events("log", "\n".join([submitted(0, "a", count=2, gang="g"), *ends])).arrivals
    assert [(one.job, one.gang, one.members, one.run_ns // NS) for one in gang] == [
        ("a", "g", 2, 2)
    ]


@pytest.mark.parametrize(
    ("log", "says"),
    [
        ("{not json", "log, line 1: no JSON"),
        ('{"at_ns": "soon"}', "log, line 1: the field at_ns is missing or not a whole number"),
        (
            event(5, "x", "y") + "\n" + event(4, "x", "y"),
            "log, line 2: at_ns goes back by 1000000000 ns",
        ),
        (
            event(0, "job.submitted", "j", name="a", count=1),
            "log, line 1: job.submitted has no shape",
        ),
        (event(0, "job.placed", "j"), "log, line 1: job.placed lacks 'name'"),
        (submitted(0, "a"), "log tells of no job that was placed"),
    ],
)
def test_a_broken_log_is_refused_with_its_line(log: str, says: str) -> None:
    with pytest.raises(BadTrace) as caught:
        read_events("log", log)
    assert says in caught.value.message


def test_a_log_is_told_from_a_table() -> None:
    assert is_event_log('\n {"seq": 1}')
    assert not is_event_log("arrival_seconds,gpu_milli,seconds")


def test_roles_of_a_gang_keep_their_shapes() -> None:
    roles = [{"count": 1, "shape": {"gpu_milli": 200}}, {"count": 2, "shape": {"gpu_milli": 1000}}]
    log = [submitted(0, "a", count=3, gang="g", roles=roles, preemptible=True)]
    log += [event(1, "job.placed", f"x{n}", name=f"a.{n}") for n in range(3)]
    log += [event(5, "job.ended", f"x{n}", name=f"a.{n}") for n in range(3)]
    found = read_events("log", "\n".join(log)).arrivals
    assert [(one.job, one.gang, one.members, one.shape) for one in found] == [
        ("a:0", "g", 1, Shape(200)),
        ("a:1", "g", 2, Shape(1000)),
    ]
    assert all(one.preemptible for one in found)
