"""What holds of cards in partition mode, whatever is asked for, ends, is evicted or promised."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.partition_life import MIXES, Rule, accepted
from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.model.claim import PRIORITIES, Shape
from gpupool.model.partition import is_valid_set
from gpupool.probes.mig_tables import list_mig_profiles
from gpupool.scheduling.filtering.partition_fit import choose_slot, count_fitting
from gpupool.simulation.replay.profile_resolution import resolve_trace
from gpupool.simulation.replay.record import EventLogRecorder
from gpupool.simulation.replay.replay import Replay
from gpupool.simulation.replay.world import SimulatedPool
from gpupool.simulation.studies.study import build_empty_pool
from gpupool.simulation.traces.nodes import read_nodes
from gpupool.simulation.traces.trace import (
    JobArrival,
    WorkloadTrace,
    build_trace,
    read_csv,
    write_csv,
)

NODES = read_nodes("1x2xH200:mig,1xA100-80G:mig+1xH200,2xA30:mig")
BOARDS = ("A30", "A100-80G", "H100", "H200")
NAMES = (
    "1g.18gb",
    "2g.35gb",
    "3g.71gb",
    "4g.71gb",
    "7g.141gb",
    "1g.18gb+me",
    "1g.10gb",
    "3g.40gb",
    "1g.6gb",
    "2g.12gb",
)

arrivals = st.lists(
    st.tuples(
        st.sampled_from((*NAMES, "")),
        st.integers(0, 200),
        st.integers(1, 300),
        st.sampled_from((*PRIORITIES.values(),)),
        st.sampled_from((None, 100, 400)),
        st.sampled_from((1, 1, 1, 2)),
        st.booleans(),
    ),
    min_size=1,
    max_size=40,
)


def trace(drawn: list[tuple[str, int, int, int, int | None, int, bool]]) -> WorkloadTrace:
    jobs = [
        JobArrival(
            f"job-{number}",
            at * NS,
            Shape(0, None, cards, profile=name) if name else Shape(400, None),
            seconds * NS,
            priority=priority,
            limit_seconds=limit,
            preemptible=preemptible,
        )
        for number, (name, at, seconds, priority, limit, cards, preemptible) in enumerate(drawn)
    ]
    return resolve_trace(build_trace("drawn", jobs, {"default": 1}), NODES)


class Watch(EventLogRecorder):
    """At every step: what is cut is a valid set, and exactly what the running jobs hold."""

    def on_clock_advance(self, world: SimulatedPool, before_ns: int, now_ns: int) -> None:
        held: dict[int, list[object]] = {row: [] for row in world.cards.layouts}
        milli = dict.fromkeys(held, 1000)
        for job in world.running.values():
            assert job.run is not None
            for row, piece in (
                zip(job.run.rows, job.run.slots, strict=True) if job.run.slots else ()
            ):
                held[row].append(piece)
                milli[row] -= job.run.milli[0]
            assert bool(job.run.slots) == (job.shape.profile is not None)
        for row, cut in world.cards.layouts.items():
            assert is_valid_set(cut.profiles, cut.slots)
            assert sorted(cut.slots) == sorted(held[row])  # type: ignore[type-var]
            assert int(world.cards.free_milli[row]) == milli[row]


def lived(asked: WorkloadTrace, policy: str) -> Watch:
    watch = Watch(NODES, {}, asked.weights)
    world = SimulatedPool(build_empty_pool(asked, NODES, policy))
    Replay(world, [watch]).play_arrivals(asked.arrivals)
    assert all(not cut.slots for cut in world.cards.layouts.values()) or world.running
    return watch


@settings(max_examples=40, deadline=None)
@given(drawn=arrivals, policy=st.sampled_from(["default", "binpack"]))
def test_what_is_cut_is_valid_at_every_instant_and_is_what_jobs_hold(
    drawn: list, policy: str
) -> None:
    lived(trace(drawn), policy)


@settings(max_examples=10, deadline=None)
@given(drawn=arrivals)
def test_the_same_trace_is_decided_the_same_again_also_after_it_was_written_down(
    drawn: list,
) -> None:
    asked = trace(drawn)
    again = resolve_trace(read_csv("again", write_csv(asked)), NODES)
    assert replace(again, name="drawn", weights=asked.weights) == asked
    assert lived(again, "default").list_placements() == lived(asked, "default").list_placements()


@settings(max_examples=40, deadline=None)
@given(model=st.sampled_from(BOARDS), data=st.data())
def test_of_one_profile_alone_as_many_are_cut_as_the_board_can_hold(
    model: str, data: st.DataObject
) -> None:
    """The rule may choose any order of places: it never strands one of them."""
    profiles = list_mig_profiles(model)
    profile = data.draw(st.sampled_from(profiles))
    weights = {one.name: float(data.draw(st.integers(0, 5))) + 0.01 for one in profiles}
    taken = list(data.draw(st.sampled_from([(), *[(p,) for p in _pieces(profiles)]])))
    wanted = count_fitting(profiles, taken, profile)
    for _ in range(wanted):
        cut = choose_slot(profiles, taken, profile.name, weights)
        assert cut is not None
        taken.append(cut[0])
    assert choose_slot(profiles, taken, profile.name, weights) is None


def _pieces(profiles: tuple) -> list:
    from gpupool.model.partition import list_slots

    return list(list_slots(profiles))


def test_the_rule_places_more_than_the_lowest_free_place_does_in_every_kind_of_stream() -> None:
    for mix in MIXES:
        ours = sum(accepted(mix, Rule.BEST, seed, claims=400).milli_lives for seed in range(3))
        first = sum(
            accepted(mix, Rule.FIRST_FIT, seed, claims=400).milli_lives for seed in range(3)
        )
        assert ours > first, mix
