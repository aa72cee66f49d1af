"""A simulation decides as a pool does: a replay of what was logged reproduces every decision."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.model.quota import UNLIMITED
from gpupool.simulation.replay.record import EventLogRecorder
from gpupool.simulation.replay.replay import Replay
from gpupool.simulation.replay.world import SimulatedPool
from gpupool.simulation.studies.study import build_empty_pool
from gpupool.simulation.traces.eventlog import read_events
from gpupool.simulation.traces.nodes import read_nodes
from gpupool.simulation.traces.synthetic import TraceParameters, generate_trace
from gpupool.simulation.traces.trace import WorkloadTrace
from tests.support.properties import whole_pools

SMALL = TraceParameters(
    days=1, cards=8, cards_per_node=4, median_seconds=14400, longest_seconds=43200
)
NODES = read_nodes("2x4xH200")


def recorded(trace: WorkloadTrace, policy: str) -> EventLogRecorder:
    quotas = {name: trace.quotas.get(name, UNLIMITED) for name in trace.weights}
    nodes = trace.nodes or NODES
    recorder = EventLogRecorder(nodes, quotas, trace.weights)
    Replay(SimulatedPool(build_empty_pool(trace, nodes, policy)), [recorder]).play_arrivals(
        trace.arrivals
    )
    return recorder


@settings(whole_pools, max_examples=3)
@given(
    seed=st.integers(0, 2**32),
    load=st.sampled_from([60, 150]),
    policy=st.sampled_from(["binpack", "spread"]),
)
def test_replay_of_an_event_log_reproduces_the_same_decisions(
    seed: int, load: int, policy: str
) -> None:
    trace = generate_trace(replace(SMALL, seed=seed, load_pct=load))
    first = recorded(trace, policy)
    again = read_events("the log", "\n".join(first.format_lines()))
    assert again.arrivals == trace.arrivals
    assert recorded(again, policy).list_placements() == first.list_placements()
    assert first.list_placements()


@settings(whole_pools, max_examples=3)
@given(seed=st.integers(0, 2**32))
def test_no_card_is_given_out_twice_at_any_instant(seed: int) -> None:
    class Watch(EventLogRecorder):
        def on_clock_advance(self, world: SimulatedPool, before_ns: int, now_ns: int) -> None:
            assert (world.cards.free_milli >= 0).all()
            assert (world.cards.free_bytes >= 0).all()

    trace = generate_trace(replace(SMALL, seed=seed, load_pct=150))
    world = SimulatedPool(build_empty_pool(trace, NODES, "binpack"))
    Replay(world, [Watch(NODES, {}, {})]).play_arrivals(trace.arrivals)
    assert (world.cards.free_milli == 1000).all()
