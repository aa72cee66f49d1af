"""The simulated card's engine: who runs when, on a clock that the test moves."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.native.front_pool import SANITIZERS, WARNINGS, compiler
from tests.unit.native.simgpu_engine import (
    COPY_IN,
    COPY_OUT,
    ENGINE_SOURCES,
    GRAPH,
    HOST,
    KERNEL,
    MODEL,
    MS,
    NEVER,
    NON_BLOCKING,
    NOTHING,
    QUEUE,
    TOGETHER,
    US,
    WAIT,
    Engine,
    Refused,
    compile_engine,
)


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return compile_engine(tmp_path_factory.mktemp("engine"))


Make = Callable[..., Engine]


@pytest.fixture
def make(library: Any) -> Iterator[Make]:
    made: list[Engine] = []

    def make_one(**config: Any) -> Engine:
        made.append(Engine(library, **config))
        return made[-1]

    yield make_one
    for engine in made:
        assert engine.check() is None
        engine.close()


def test_a_kernel_alone_takes_its_time_and_is_done_at_that_moment_exactly(make: Make) -> None:
    engine = make()
    ticket = engine.kernel(engine.context(), 5 * MS)
    engine.advance(5 * MS - 1)
    assert not engine.done(ticket)
    assert engine.next_event() == 5 * MS
    engine.advance(5 * MS)
    assert engine.done(ticket)


def test_a_stream_is_a_queue(make: Make) -> None:
    engine = make()
    context = engine.context()
    tickets = [engine.kernel(context, MS) for _ in range(3)]
    assert [engine.when_done(t) for t in tickets] == [MS, 2 * MS, 3 * MS]


def test_events_stamp_the_moment_between_the_kernels_even_when_nobody_looked_then(
    make: Make,
) -> None:
    engine = make()
    context = engine.context()
    first = engine.record(context)
    engine.kernel(context, 3 * MS)
    middle = engine.record(context)
    engine.kernel(context, 4 * MS)
    last = engine.record(context)
    engine.advance(900 * MS)
    assert [engine.event_ns(context, e) for e in (first, middle, last)] == [0, 3 * MS, 7 * MS]


def test_two_processes_take_turns_of_two_milliseconds_and_each_kernel_is_preempted(
    make: Make,
) -> None:
    engine = make()
    a, b = engine.context(owner=1), engine.context(owner=2)
    long, short = engine.kernel(a, 6 * MS), engine.kernel(b, 3 * MS)
    assert engine.when_done(short) == 7 * MS  # a b a b: 2 2 2 1
    assert engine.when_done(long) == 9 * MS


def test_the_time_between_two_events_contains_the_neighbours_slices(make: Make) -> None:
    engine = make()
    a, b = engine.context(owner=1), engine.context(owner=2)
    engine.kernel(b, 50 * MS)
    engine.advance(MS)
    start = engine.record(a)
    engine.kernel(a, 3 * MS)
    end = engine.record(a)
    engine.advance(100 * MS)
    assert engine.event_ns(a, start) == 2 * MS, "a record needs the context's turn"
    assert engine.event_ns(a, end) - engine.event_ns(a, start) == 5 * MS


def test_a_turn_nobody_needs_any_more_passes_on_at_once(make: Make) -> None:
    engine = make()
    a, b = engine.context(owner=1), engine.context(owner=2)
    engine.kernel(a, 100 * US)
    ticket = engine.kernel(b, MS)
    assert engine.when_done(ticket) == MS + 100 * US


def test_passing_the_card_on_costs_what_is_configured_and_coming_back_to_it_does_not(
    make: Make,
) -> None:
    engine = make(switch_ns=50 * US)
    a, b = engine.context(owner=1), engine.context(owner=2)
    assert engine.when_done(engine.kernel(a, MS)) == MS
    assert engine.when_done(engine.kernel(a, MS)) == 2 * MS
    assert engine.when_done(engine.kernel(b, MS)) == 3 * MS + 50 * US


def test_under_mps_like_sharing_all_run_together_at_half_the_rate(make: Make) -> None:
    engine = make(mode=TOGETHER)
    a, b = engine.context(owner=1), engine.context(owner=2)
    first, second = engine.kernel(a, 2 * MS), engine.kernel(b, 3 * MS)
    assert engine.when_done(first) == 4 * MS
    assert engine.when_done(second) == 5 * MS


def test_streams_whose_widths_fit_run_at_full_rate_and_share_beyond(make: Make) -> None:
    engine = make()
    context = engine.context()
    one, two, three = (engine.stream(context) for _ in range(3))
    fit = [engine.kernel(context, MS, 500, one), engine.kernel(context, MS, 500, two)]
    assert [engine.when_done(t) for t in fit] == [MS, MS]
    crowd = [engine.kernel(context, MS, 500, s) for s in (one, two, three)]
    assert [engine.when_done(t) for t in crowd] == [MS + 3 * MS // 2] * 3


def test_a_stream_of_higher_priority_gets_its_width_first(make: Make) -> None:
    engine = make()
    context = engine.context()
    low, high = engine.stream(context, priority=0), engine.stream(context, priority=-5)
    waits = engine.kernel(context, MS, 800, low)
    urgent = engine.kernel(context, MS, 600, high)
    assert engine.when_done(urgent) == MS
    assert engine.when_done(waits) == 3 * MS // 2  # half its rate (400 of 800) for 1 ms, then all


def test_copies_of_each_direction_share_their_link_and_do_not_take_turns_with_kernels(
    make: Make,
) -> None:
    engine = make()
    a, b = engine.context(owner=1), engine.context(owner=2)
    streams = [engine.stream(a) for _ in range(3)]
    engine.kernel(b, 100 * MS)
    inward = [engine.submit(a, s, COPY_IN, MS) for s in streams[:2]]
    outward = engine.submit(a, streams[2], COPY_OUT, MS)
    stamp = engine.record(a, streams[2])
    assert engine.when_done(outward) == MS
    assert engine.event_ns(a, stamp) == MS, "behind a copy a record needs no turn"
    assert [engine.when_done(t) for t in inward] == [2 * MS, 2 * MS]


def test_a_wait_holds_its_stream_until_the_other_is_there_also_across_cards_and_processes(
    make: Make,
) -> None:
    engine = make(cards=2)
    a, b = engine.context(0, owner=1), engine.context(1, owner=2)
    awaited = engine.kernel(a, 5 * MS)
    engine.submit(b, 0, WAIT, after=awaited)
    assert engine.when_done(engine.kernel(b, MS)) == 6 * MS


def test_the_legacy_default_stream_waits_for_blocking_streams_and_they_for_it(make: Make) -> None:
    engine = make()
    context = engine.context()
    blocking, free = engine.stream(context, flags=0), engine.stream(context, flags=NON_BLOCKING)
    first = engine.kernel(context, MS, 100, blocking)
    legacy = engine.kernel(context, MS, 100)
    after = engine.kernel(context, MS, 100, blocking)
    beside = engine.kernel(context, MS, 100, free)
    assert [engine.when_done(t) for t in (first, beside, legacy, after)] == [MS, MS, 2 * MS, 3 * MS]


def test_a_host_callback_holds_its_stream_until_the_host_says_so(make: Make) -> None:
    engine = make()
    context = engine.context()
    engine.kernel(context, MS)
    engine.submit(context, 0, HOST, cookie=77)
    after = engine.kernel(context, MS)
    assert engine.host_ready(context) is None
    assert engine.host_bound(context) == MS
    assert engine.bound(after) == NEVER
    engine.advance(4 * MS)
    ready = engine.host_ready(context)
    assert ready is not None
    assert ready[0] == 77
    assert engine.host_ready(context) is None, "told once"
    assert not engine.done(after)
    engine.release(ready[1])
    assert engine.when_done(after) == 5 * MS


def test_a_host_item_released_before_its_turn_stops_nobody(make: Make) -> None:
    engine = make()
    context = engine.context()
    engine.kernel(context, MS)
    waiting = engine.submit(context, 0, HOST)
    after = engine.kernel(context, MS)
    engine.release(waiting)
    assert engine.when_done(after) == 2 * MS


def test_a_context_that_waits_for_the_host_leaves_the_card_to_its_neighbour(make: Make) -> None:
    engine = make()
    a, b = engine.context(owner=1), engine.context(owner=2)
    engine.submit(a, 0, HOST)
    assert engine.when_done(engine.kernel(b, 7 * MS)) == 7 * MS


def test_a_full_queue_says_so_and_when_there_is_room_again(make: Make) -> None:
    engine = make()
    context = engine.context()
    for _ in range(QUEUE):
        engine.kernel(context, 10 * US)
    with pytest.raises(Refused) as refused:
        engine.kernel(context, 10 * US)
    assert refused.value.code == -errno.EAGAIN
    assert engine.next_event() == 10 * US
    engine.advance(10 * US)
    engine.kernel(context, 10 * US)


def test_the_work_of_a_killed_process_is_gone_and_waits_for_it_are_over(make: Make) -> None:
    engine = make()
    a, b = engine.context(owner=1), engine.context(owner=2)
    doomed = engine.kernel(a, 1000 * MS)
    engine.submit(b, 0, WAIT, after=doomed)
    after = engine.kernel(b, MS)
    engine.advance(5 * MS)
    engine.destroy(a)
    assert engine.done(doomed)
    assert engine.when_done(after) == 6 * MS
    again = engine.context(owner=3)
    assert again == a, "its place is free"
    engine.kernel(again, MS)
    assert engine.done(doomed), "the old ticket does not speak of the new context"


def test_a_failed_context_drops_its_work_and_answers_with_its_error_for_good(make: Make) -> None:
    engine = make()
    a, b = engine.context(owner=1), engine.context(owner=2)
    dropped, kept = engine.kernel(a, 9 * MS), engine.kernel(b, 3 * MS)
    engine.advance(MS)
    engine.fail(a, 700)
    assert engine.done(dropped)
    with pytest.raises(Refused) as refused:
        engine.kernel(a, MS)
    assert refused.value.code == 700
    assert engine.when_done(kept) == 4 * MS, "the neighbour goes on"


def test_a_closed_stream_still_does_what_is_queued_and_is_then_used_again(make: Make) -> None:
    engine = make()
    context = engine.context()
    stream = engine.stream(context)
    ticket = engine.kernel(context, MS, stream=stream)
    engine.library.engine_stream_destroy(engine.at, context, stream)
    with pytest.raises(Refused):
        engine.kernel(context, MS, stream=stream)
    assert engine.stream(context) != stream
    assert engine.when_done(ticket) == MS
    assert engine.stream(context) == stream
    assert engine.done(ticket)


@pytest.mark.parametrize(
    "work",
    [
        {"kind": 0},
        {"kind": 11},
        {"kind": KERNEL, "width_milli": 1001},
        {"kind": KERNEL, "duration": 2**60},
        {"kind": 7, "event": 5},
    ],
)
def test_work_that_makes_no_sense_is_refused(make: Make, work: dict[str, int]) -> None:
    engine = make()
    context = engine.context()
    with pytest.raises(Refused) as refused:
        engine.submit(context, 0, **work)
    assert refused.value.code == -errno.EINVAL
    with pytest.raises(Refused):
        engine.submit(context, 200, NOTHING)


def test_there_are_no_more_contexts_streams_and_events_than_there_are(make: Make) -> None:
    engine = make()
    context = engine.context()
    assert len({engine.stream(context) for _ in range(255)}) == 255
    with pytest.raises(Refused):
        engine.stream(context)
    events = [engine.event(context) for _ in range(16384)]
    with pytest.raises(Refused):
        engine.event(context)
    engine.library.engine_event_destroy(engine.at, context, events[77])
    assert engine.event(context) == events[77]
    for _ in range(1023):
        engine.context()
    with pytest.raises(Refused) as refused:
        engine.context()
    assert refused.value.code == -errno.ENOSPC


def test_the_load_of_the_last_seconds_is_remembered_by_card_and_by_context(make: Make) -> None:
    engine = make()
    a, b = engine.context(owner=1), engine.context(owner=2)
    engine.kernel(a, 300 * MS)
    engine.advance(1000 * MS)
    engine.submit(b, 0, GRAPH, 200 * MS, launches=50)
    engine.advance(2000 * MS)
    assert engine.busy(0, 1000 * MS) == 300 * MS
    assert engine.busy(1000 * MS, 2000 * MS) == 200 * MS
    assert engine.context_busy(a, 0, 2000 * MS) == 300 * MS
    assert engine.context_busy(b, 0, 2000 * MS) == 200 * MS
    engine.advance(60_000 * MS)
    assert engine.busy(50_000 * MS, 60_000 * MS) == 0, "what was long ago is not taken for now"


durations = st.lists(st.integers(1, 9 * MS), min_size=1, max_size=12)


@settings(max_examples=40, deadline=None)
@given(
    queues=st.lists(durations, min_size=1, max_size=5),
    hops=st.lists(st.integers(1, 4 * MS), max_size=30),
)
def test_the_card_never_idles_nor_runs_two_at_once_and_nobody_starves(
    library: Any, queues: list[list[int]], hops: list[int]
) -> None:
    engine = Engine(library)
    contexts = [engine.context(owner=i + 1) for i in range(len(queues))]
    tickets = [
        [engine.kernel(c, d) for d in queue] for c, queue in zip(contexts, queues, strict=True)
    ]
    marks = [engine.record(c) for c in contexts]
    for hop in hops:  # looking in between changes nothing
        engine.advance(engine.now + hop)
    for row in tickets:
        engine.when_done(row[-1])
    total = sum(map(sum, queues))
    assert engine.now == max(total, sum(hops))
    assert engine.busy(0, 3200 * MS) == total
    for context, mark, row in zip(contexts, marks, queues, strict=True):
        end, turns = engine.event_ns(context, mark), sum(row) // (2 * MS) + 1
        assert end <= sum(row) + (len(queues) - 1) * turns * 2 * MS, (
            "more than its neighbours' turns was waited for"
        )
    assert engine.check() is None
    engine.close()


@settings(max_examples=40, deadline=None)
@given(
    queues=st.lists(durations, min_size=1, max_size=4),
    cuts=st.lists(st.integers(1, 60 * MS), max_size=20),
)
def test_what_happens_does_not_depend_on_how_often_somebody_looks(
    library: Any, queues: list[list[int]], cuts: list[int]
) -> None:
    stamps = []
    for looks in ([], sorted(cuts)):
        engine = Engine(library, switch_ns=10 * US)
        contexts = [engine.context(owner=i + 1) for i in range(len(queues))]
        events = []
        for context, queue in zip(contexts, queues, strict=True):
            for duration in queue:
                engine.kernel(context, duration)
                events.append((context, engine.record(context)))
        for moment in looks:
            engine.advance(moment)
        engine.advance(10_000 * MS)
        stamps.append([engine.event_ns(*event) for event in events])
        engine.close()
    assert stamps[0] == stamps[1]


def test_a_process_killed_between_any_two_stores_leaves_an_engine_that_can_be_repaired(
    library: Any, tmp_path: Path
) -> None:
    hooked = compile_engine(tmp_path, "-DENGINE_STEP_HOOK=engine_step_hook")
    killed, step, died = 0, 0, 1
    while died == 1:
        step += 7 if step > 60 else 1
        engine = Engine(hooked)
        died = hooked.engine_probe_die_at(engine.at, step)
        assert died >= 0
        killed += died
        engine.repair()
        assert engine.check() is None, f"after store {step}"
        engine.advance(1000 * MS)
        assert engine.next_event() == NEVER, f"after store {step} something never ends"
        after = engine.context(owner=9)
        assert engine.when_done(engine.kernel(after, MS)) == 1001 * MS
        engine.close()
    assert killed > 100


def test_the_engine_is_clean_under_the_sanitizers(tmp_path: Path) -> None:
    program = tmp_path / "storm"
    source = Path(__file__).parent / "engine_storm.c"
    subprocess.run(
        [compiler(), "-std=gnu11", f"-I{MODEL}", *WARNINGS, *SANITIZERS, *map(str, ENGINE_SOURCES), str(source),
         "-o", str(program)],
        check=True,
    )  # fmt: skip
    done = subprocess.run(
        [str(program), "20000"], check=False, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
