"""A replay that is written down as an event log is read back as the trace that was played."""

from __future__ import annotations

import json

from gpupool.model.claim import Shape
from gpupool.model.quota import UNLIMITED
from gpupool.simulation.replay.record import EventLogRecorder
from gpupool.simulation.replay.replay import Replay
from gpupool.simulation.traces.eventlog import read_events
from gpupool.simulation.traces.trace import JobArrival
from tests.support.simulation_builders import HALF, WHOLE, job, nodes, world


def record(*arrivals: JobArrival) -> EventLogRecorder:
    recorder = EventLogRecorder(nodes(2), {"default": UNLIMITED}, {"default": 3})
    Replay(world(2), [recorder]).play_arrivals(arrivals)
    return recorder


def test_recorded_log_reads_back_as_the_trace_that_was_played() -> None:
    arrivals = (job("a", 1, 10), job("b", 2, 5, HALF))
    trace = read_events("log", "\n".join(record(*arrivals).format_lines()))
    assert [(one.job, one.shape, one.run_ns) for one in trace.arrivals] == [
        (one.job, one.shape, one.run_ns) for one in arrivals
    ]
    assert trace.weights == {"default": 3}
    assert len(trace.nodes[0].cards) == 2


def test_recorded_gang_is_one_submission_of_each_role() -> None:
    workers = JobArrival("w", 0, HALF, 10, gang="g", members=2, limit_seconds=60)
    events = [json.loads(line) for line in record(workers).format_lines()]
    (submission,) = [one["data"] for one in events if one["kind"] == "job.submitted"]
    assert (submission["name"], submission["count"]) == ("w", 2)
    assert (submission["gang"], submission["max_seconds"]) == ("g", 60)
    assert [one["seq"] for one in events] == list(range(1, len(events) + 1))


def test_recorded_log_has_no_line_of_a_refused_job() -> None:
    lines = [
        json.loads(line) for line in record(job("wide", 0, 1, Shape(1000, count=3))).format_lines()
    ]
    assert {one["kind"] for one in lines} == {"device.added", "tenant.created"}


def test_list_placements_has_instant_node_and_cards() -> None:
    placements = record(
        job("a", 1, 10, Shape(1000, count=2)), job("b", 2, 5, WHOLE)
    ).list_placements()
    assert placements == [
        (10**9, "a", "n0", ("n0:0", "n0:1")),
        (11 * 10**9, "b", "n0", placements[1][3]),
    ]
