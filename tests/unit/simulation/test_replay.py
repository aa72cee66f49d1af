"""A pool's life over a virtual clock: what starts when, what ends, what is refused, what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpupool.base.units import GIB
from gpupool.model.claim import Rejection, Shape
from gpupool.model.quota import UNLIMITED, Amount, Quota
from gpupool.scheduling.snapshot import Eviction, Placement, Snapshot, TenantView
from gpupool.simulation.replay import Outcome, Replay, jobs_of
from gpupool.simulation.trace import NS, Arrival, Node
from gpupool.simulation.world import Job, World, columns_of

WHOLE = Shape(1000)


class Diary:
    """Writes down what it hears: (seconds, what, job)."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str, str]] = []

    def moved(self, world: World, before_ns: int, now_ns: int) -> None:
        assert before_ns < now_ns

    def came(self, jobs: Sequence[Job], refused: Rejection | None, now_ns: int) -> None:
        self.lines.append((now_ns // NS, "came" if refused is None else "refused", jobs[0].id))

    def started(self, job: Job, placement: Placement, now_ns: int) -> None:
        self.lines.append((now_ns // NS, "started", job.id))

    def ended(self, job: Job, now_ns: int) -> None:
        self.lines.append((now_ns // NS, "ended", job.id))

    def evicted(self, job: Job, eviction: Eviction, now_ns: int) -> None:
        self.lines.append((now_ns // NS, "evicted", job.id))


def world(*cards_per_node: int, quota: Quota = UNLIMITED) -> World:
    nodes = [Node(f"n{n}", (("H200", 140 * GIB),) * cards) for n, cards in enumerate(cards_per_node)]
    return World(Snapshot(0, columns_of(nodes), {"default": TenantView(quota, Amount())}, ()))


def job(name: str, at: int, seconds: int, shape: Shape = WHOLE) -> Arrival:
    return Arrival(name, at * NS, shape, seconds * NS)


def life(place: World, *arrivals: Arrival, until: int | None = None) -> tuple[Diary, Outcome]:
    diary = Diary()
    replay = Replay(place, [diary], until_ns=None if until is None else until * NS)
    return diary, replay.run(arrivals)


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


def test_everything_is_free_again_when_all_has_ended() -> None:
    place = world(2, 2)
    life(place, *(job(f"j{n}", n, 7, Shape(300 + 100 * (n % 3), GIB)) for n in range(40)))
    assert (place.cards.free_milli == 1000).all()
    assert (place.cards.free_bytes == place.cards.memory_bytes).all()
    assert place.tenants["default"].held == Amount()
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
    Replay(world(1)).run([job("a", 0, 1), job("b", 0, 1)], progress=lambda done, all_: told.append((done, all_)))
    assert told == [(0, 2), (1, 2), (2, 2)]


def test_members_of_an_arrival_are_a_gang_and_roles_of_a_gang_are_one() -> None:
    alone = list(jobs_of([job("a", 0, 1)]))
    assert [(one.id, one.gang) for one in alone] == [("a", None)]
    workers = Arrival("w", 0, WHOLE, NS, gang="g", members=3, limit_seconds=60)
    server = Arrival("ps", 0, Shape(500), NS, gang="g", limit_seconds=90)
    jobs = list(jobs_of([workers, server]))
    assert [one.id for one in jobs] == ["w.0", "w.1", "w.2", "ps"]
    assert len({one.key for one in jobs}) == 1
    assert (jobs[0].key.gang, jobs[0].key.seconds) == ("g", 90)
    assert [one.shape for one in jobs] == [WHOLE, WHOLE, WHOLE, Shape(500)]
    assert [one.counts for one in jobs] == [True, False, False, False]
    assert jobs[0].gang is not None
    assert jobs[0].gang.minimum == 4


def test_an_owner_starts_after_one_eviction_however_high_the_borrowers_priority_is() -> None:
    """In 19 minutes a borrower was evicted 22 times for an owner that never started."""
    place = world(1)
    tenants = {"owner": TenantView(Quota(1000, 0), Amount()), "lab": TenantView(Quota(0, None), Amount())}
    place = World(Snapshot(0, place.cards, tenants, ()))
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
