"""A simulation decides as a pool does: a replay of what was logged reproduces every decision."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.model.quota import UNLIMITED
from gpupool.simulation.eventlog import read_events
from gpupool.simulation.nodes import read_nodes
from gpupool.simulation.record import Recorder
from gpupool.simulation.replay import Replay
from gpupool.simulation.study import beginning
from gpupool.simulation.synthetic import Parameters, generate
from gpupool.simulation.trace import Trace
from gpupool.simulation.world import World
from tests.support.properties import whole_pools

SMALL = Parameters(days=1, cards=8, cards_per_node=4, median_seconds=14400, longest_seconds=43200)
NODES = read_nodes("2x4xH200")


def recorded(trace: Trace, policy: str) -> Recorder:
    quotas = {name: trace.quotas.get(name, UNLIMITED) for name in trace.weights}
    nodes = trace.nodes or NODES
    recorder = Recorder(nodes, quotas, trace.weights)
    Replay(World(beginning(trace, nodes, policy)), [recorder]).run(trace.arrivals)
    return recorder


@settings(whole_pools, max_examples=3)
@given(seed=st.integers(0, 2**32), load=st.sampled_from([60, 150]), policy=st.sampled_from(["binpack", "spread"]))
def test_replay_of_an_event_log_reproduces_the_same_decisions(seed: int, load: int, policy: str) -> None:
    trace = generate(replace(SMALL, seed=seed, load_pct=load))
    first = recorded(trace, policy)
    again = read_events("the log", "\n".join(first.lines()))
    assert again.arrivals == trace.arrivals
    assert recorded(again, policy).decisions() == first.decisions()
    assert first.decisions()


@settings(whole_pools, max_examples=3)
@given(seed=st.integers(0, 2**32))
def test_no_card_is_given_out_twice_at_any_instant(seed: int) -> None:
    class Watch(Recorder):
        def moved(self, world: World, before_ns: int, now_ns: int) -> None:
            assert (world.cards.free_milli >= 0).all()
            assert (world.cards.free_bytes >= 0).all()

    trace = generate(replace(SMALL, seed=seed, load_pct=150))
    world = World(beginning(trace, NODES, "binpack"))
    Replay(world, [Watch(NODES, {}, {})]).run(trace.arrivals)
    assert (world.cards.free_milli == 1000).all()
