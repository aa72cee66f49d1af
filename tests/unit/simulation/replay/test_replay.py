"""A pool's life over a virtual clock: what starts when, what ends, what is refused, what is
left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.base.units import NANOS_PER_SECOND as NS
from gpupool.model.claim import Rejection, Shape
from gpupool.model.isolation.claim_needs import ClaimNeeds, IsolationKind
from gpupool.model.quota import Quota, ResourceAmount
from gpupool.scheduling.snapshot.plan import Eviction, JobPlacement
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.simulation.replay.replay import Replay, ReplayOutcome
from gpupool.simulation.replay.world import SimulatedJob, SimulatedPool
from gpupool.simulation.traces.trace import JobArrival
from tests.support.simulation_builders import job, world


class Diary:
    """Writes down what it hears: (seconds, what, job)."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str, str]] = []

    def on_clock_advance(self, world: SimulatedPool, before_ns: int, now_ns: int) -> None:
        assert before_ns < now_ns

    def on_arrival(
        self, jobs: Sequence[SimulatedJob], refused: Rejection | None, now_ns: int
    ) -> None:
        self.lines.append((now_ns // NS, "came" if refused is None else "refused", jobs[0].id))

    def on_start(self, job: SimulatedJob, placement: JobPlacement, now_ns: int) -> None:
        self.lines.append((now_ns // NS, "started", job.id))

    def on_end(self, job: SimulatedJob, now_ns: int) -> None:
        self.lines.append((now_ns // NS, "ended", job.id))

    def on_eviction(self, job: SimulatedJob, eviction: Eviction, now_ns: int) -> None:
        self.lines.append((now_ns // NS, "evicted", job.id))


def life(
    place: SimulatedPool, *arrivals: JobArrival, until: int | None = None
) -> tuple[Diary, ReplayOutcome]:
    diary = Diary()
    replay = Replay(place, [diary], until_ns=None if until is None else until * NS)
    return diary, replay.play_arrivals(arrivals)


def test_who_finds_no_room_starts_at_the_instant_a_card_comes_back() -> None:
    diary, outcome = life(world(1), job("a", 0, 10), job("b", 3, 5))
    assert diary.lines == [
        (0, "came", "a"),
        (0, "started", "a"),
        (3, "came", "b"),
        (10, "ended", "a"),
        (10, "started", "b"),
        (15, "ended", "b"),
    ]
    assert (outcome.ended_ns, outcome.decisions, outcome.left_waiting) == (15 * NS, 2, 0)


def test_an_end_frees_its_card_for_who_comes_at_that_very_instant() -> None:
    diary, _ = life(world(1), job("a", 0, 10), job("b", 10, 1))
    assert (10, "started", "b") in diary.lines


def test_a_month_takes_as_many_cycles_as_things_happen() -> None:
    _, outcome = life(world(1), *(job(f"j{n}", n * 86400, 3600) for n in range(30)))
    assert outcome.cycles == 30  # one decision each; nothing waits at the ends


def test_what_no_emptying_would_let_in_is_refused_as_a_pool_refuses_it() -> None:
    diary, outcome = life(world(2), job("wide", 0, 10, Shape(1000, count=4)), job("late", 1, 1))
    assert diary.lines[0] == (0, "refused", "wide")
    assert outcome.refused == {"too few fitting cards on the node": 1}
    assert outcome.left_waiting == 0


def test_a_demand_that_no_card_of_the_trace_is_known_to_meet_is_refused() -> None:
    hard = replace(Shape(300), needs=ClaimNeeds(IsolationKind.HARD))
    diary, outcome = life(world(2), job("a", 0, 10, hard), job("b", 1, 1, Shape(300)))
    assert diary.lines[0] == (0, "refused", "a")
    assert outcome.refused == {"does not isolate as asked": 1}


def test_everything_is_free_again_when_all_has_ended() -> None:
    place = world(2, 2)
    life(place, *(job(f"j{n}", n, 7, Shape(300 + 100 * (n % 3), GIB)) for n in range(40)))
    assert (place.cards.free_milli == 1000).all()
    assert (place.cards.free_bytes == place.cards.memory_bytes).all()
    assert place.tenants["default"].held == ResourceAmount()
    assert not place.running


def test_the_quota_holds_in_a_simulation_too() -> None:
    diary, _ = life(world(4, quota=Quota(1000, 0, None, None)), job("a", 0, 10), job("b", 0, 10))
    assert (0, "started", "a") in diary.lines
    assert (10, "started", "b") in diary.lines


def test_it_can_be_ended_early_and_tells_what_is_left() -> None:
    diary, outcome = life(world(1), job("a", 0, 100), job("b", 1, 1), until=50)
    assert (outcome.ended_ns, outcome.left_running, outcome.left_waiting) == (50 * NS, 1, 1)
    assert diary.lines[-1] == (1, "came", "b")


def test_two_replays_of_one_trace_are_one_life() -> None:
    arrivals = [job(f"j{n}", n // 3, 5 + n % 7, Shape(100 * (1 + n % 10))) for n in range(60)]
    assert life(world(2, 1), *arrivals)[0].lines == life(world(2, 1), *arrivals)[0].lines


def test_progress_is_told_and_ends_at_all() -> None:
    told: list[tuple[int, int]] = []
    Replay(world(1)).play_arrivals(
        [job("a", 0, 1), job("b", 0, 1)], progress=lambda done, all_: told.append((done, all_))
    )
    assert told == [(0, 2), (1, 2), (2, 2)]


def test_an_owner_starts_after_one_eviction_however_high_the_borrowers_priority_is() -> None:
    """In 19 minutes a borrower was evicted 22 times for an owner that never started."""
    place = world(1)
    tenants = {
        "owner": TenantView(Quota(1000, 0), ResourceAmount()),
        "lab": TenantView(Quota(0, None), ResourceAmount()),
    }
    place = SimulatedPool(Snapshot(0, place.cards, tenants, ()))
    borrower = replace(job("b", 0, 10_000), tenant="lab", priority=100, preemptible=True)
    diary, _ = life(place, borrower, replace(job("o", 60, 600), tenant="owner"), until=1200)
    assert diary.lines == [
        (0, "came", "b"),
        (0, "started", "b"),
        (60, "came", "o"),
        (60, "evicted", "b"),
        (60, "started", "o"),
        (660, "ended", "o"),
        (660, "started", "b"),
    ]
