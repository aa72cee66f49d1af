"""Jobs from submission to the last report, on the real store."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import sqlalchemy as sa

from gpupool.allocations import intake, progress
from gpupool.allocations.job_pages import Filter
from gpupool.allocations.notes import CardNote
from gpupool.allocations.tables import launches
from gpupool.base.errors import (
    BadFraction,
    BadOption,
    LargerThanAnyCard,
    NameTaken,
    NoRoomNow,
    NotAllowed,
    NotFound,
    QuotaExceeded,
    TooManyCards,
    UnknownModel,
    WrongState,
)
from gpupool.base.units import GIB
from gpupool.fleet.tables import devices
from gpupool.model.claim import Shape
from gpupool.model.tenant import Role
from gpupool.simulation.eventlog import read_events
from gpupool.tenancy.tables import tenants
from gpupool.wire.fleet import ReportIn
from gpupool.wire.people import QuotaIn
from tests.support.house import House


def used(house: House) -> list[tuple[int, int, int]]:
    with house.store.read() as connection:
        query = sa.select(devices.c.used_milli, devices.c.used_bytes, devices.c.shares).order_by(devices.c.idx)
        return [tuple(row) for row in connection.execute(query)]  # type: ignore[misc]


def held(house: House, tenant: str = "default") -> tuple[int, int]:
    with house.store.read() as connection:
        query = sa.select(tenants.c.held_milli, tenants.c.held_memory_bytes).where(tenants.c.name == tenant)
        return tuple(connection.execute(query).one())  # type: ignore[return-value]


def test_a_job_is_placed_runs_ends_and_gives_everything_back(house: House) -> None:
    job = house.submit(name="train")
    assert (job.state, job.device, job.share) == ("starting", "node-1:0", "0.30 GPU (30 % compute) + 8192 MiB")
    assert used(house)[0] == (300, 8 * GIB, 1)
    assert held(house) == (300, 8 * GIB)
    (item,) = house.work()
    assert (item.want, item.argv, item.env) == ("run", ["true"], {"SECRET": "x"})
    house.report(item, "running", started_ns=5)
    assert house.job("train").state == "running"
    house.report(item, "ended", exit_code=0, started_ns=5, cpu_milliseconds=12)
    ended = house.job("train")
    assert (ended.state, ended.exit_code, ended.cpu_milliseconds) == ("done", 0, 12)
    assert used(house) == [(0, 0, 0)] * 2
    assert held(house) == (0, 0)
    assert house.work() == []


def test_a_job_that_ended_keeps_no_environment(house: House) -> None:
    house.submit(name="train")
    house.finish("train")
    with house.store.read() as connection:
        assert connection.execute(sa.select(launches)).all() == []


def test_telling_the_end_twice_gives_back_once(house: House) -> None:
    house.submit(name="a")
    house.submit(name="b")
    item = next(item for item in house.work() if item.job_name == "a")
    for _ in range(2):
        assert house.report(item, "ended", exit_code=0) == []
    assert used(house)[0] == (300, 8 * GIB, 1)


def test_a_report_of_another_generation_changes_nothing(house: House) -> None:
    house.submit(name="a")
    (item,) = house.work()
    stale = item.model_copy(update={"generation": item.generation - 1})
    assert house.report(stale, "ended", exit_code=0) == [item.allocation]
    assert house.job("a").state == "starting"


@pytest.mark.parametrize(
    ("more", "state", "reason"),
    [
        ({"exit_code": 3}, "failed", "exit code 3"),
        ({"signal": 9, "reason": "signalled"}, "failed", "killed by SIGKILL"),
        ({"signal": 2, "reason": "signalled"}, "stopped", "interrupted (SIGINT)"),
        ({"exit_code": 143, "reason": "max_time"}, "failed", "ran longer than its --max-time"),
        ({"signal": 9, "reason": "interrupted"}, "stopped", "interrupted (Ctrl-C, twice)"),
        ({"signal": 9, "reason": "stopped"}, "failed", "stopped on its node"),
    ],
)
def test_how_a_command_ended_decides_the_last_state(
    house: House, more: dict[str, object], state: str, reason: str
) -> None:
    house.submit(name="a")
    (item,) = house.work()
    house.report(item, "ended", **more)
    assert (house.job("a").state, house.job("a").reason) == (state, reason)


def test_a_lost_supervisor_loses_the_job_and_frees_the_share(house: House) -> None:
    house.submit(name="a")
    (item,) = house.work()
    house.report(item, "lost")
    assert house.job("a").state == "lost"
    assert used(house)[0] == (0, 0, 0)


def test_a_job_that_never_started_waits_again_and_is_placed_anew(house: House) -> None:
    house.submit(name="a")
    (item,) = house.work()
    house.report(item, "not_started", reason="prepare failed")
    house.allocations.placer.run_once()
    again = house.work()
    assert [(other.job, other.allocation != item.allocation) for other in again] == [(item.job, True)]
    assert used(house)[0] == (300, 8 * GIB, 1)


def test_what_does_not_fit_now_waits_with_numbers_and_starts_when_room_comes(house: House) -> None:
    for n in range(2):
        house.submit(1000, None, name=f"whole-{n}")
    waiting = house.submit(500, 8, name="later")
    assert waiting.state == "pending"
    assert "0.50 GPU (50 % compute) + 8192 MiB" in waiting.reason
    house.finish("whole-1")
    house.allocations.placer.run_once()
    assert house.job("later").device == "node-1:1"


def test_explain_names_who_holds_the_cards(house: House) -> None:
    for n in range(2):
        house.submit(1000, None, name=f"whole-{n}")
    house.submit(500, 8, name="later")
    answer = house.allocations.explain("last", house.admin)
    assert answer.state == "pending"
    assert answer.cards
    assert [holder.split()[0] for holder in answer.holders] == ["whole-0", "whole-1"]


def test_no_wait_is_refused_with_numbers_and_leaves_no_trace(house: House) -> None:
    for n in range(2):
        house.submit(1000, None, name=f"whole-{n}")
    before = house.allocations.events(house.admin, 0, 1000)
    with pytest.raises(NoRoomNow, match="2 cards"):
        house.submit(500, 8, name="now", wait=False)
    assert house.allocations.events(house.admin, 0, 1000) == before
    with pytest.raises(NotFound):
        house.job("now")


def test_no_wait_is_placed_at_once_when_there_is_room(house: House) -> None:
    assert house.submit(name="now", wait=False).state == "starting"


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"memory_gib": 200, "memory_typed": "200Gi"}, LargerThanAnyCard, "200Gi"),
        ({"count": 16}, TooManyCards, "16 cards"),
        ({"model": "H20O"}, UnknownModel, "H20O"),
        ({"gpu_milli": 0}, BadFraction, "0 of a card"),
        ({"gpu_milli": 1500}, BadFraction, "1.5 of a card"),
        ({"count": 0}, BadOption, "--count 0"),
        ({"priority": "urgent"}, BadOption, "urgent"),
    ],
)
def test_what_can_never_be_placed_is_refused_with_the_numbers(
    house: House, asked: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        house.submit(**asked)  # type: ignore[arg-type]
    assert house.allocations.list_jobs(house.admin, Filter(everything=True), None, 10).items == []


def test_beyond_the_tenants_maximum_is_refused_and_beyond_what_it_has_left_waits(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "nlp", None)
    house.tenancy.put_quota(house.admin, "nlp", QuotaIn(nominal_milli=500, borrowing_milli=0))
    with pytest.raises(QuotaExceeded, match=r"0\.50"):
        house.submit(900, 8, tenant="nlp")
    assert house.submit(400, 8, tenant="nlp", name="first").state == "starting"
    second = house.submit(400, 8, tenant="nlp", name="second")
    assert second.state == "pending"
    assert "nlp" in second.reason
    house.finish("first")
    house.allocations.placer.run_once()
    assert house.job("second").state == "starting"


def test_a_live_jobs_name_is_taken_and_free_again_when_it_ended(house: House) -> None:
    house.submit(name="a")
    with pytest.raises(NameTaken):
        house.submit(name="a")
    house.finish("a")
    assert house.submit(name="a").state == "starting"


def test_nobody_is_refused_for_a_name_that_the_pool_has_made(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = iter(["j-aaaaaa4444", "j-bbbbbb4444", "j-cccccc4444", "j-dddddd4445"])
    monkeypatch.setattr(intake, "new_id", lambda _kind: next(ids))
    assert (house.submit().name, house.submit().name) == ("true-4444", "true-bbbbb4444")
    first = house.submit(array=2)
    assert (first.name, first.array) == ("true-ccccc4444.0", "true-ccccc4444")


def test_stopping_a_waiting_job_ends_it_at_once(house: House) -> None:
    for n in range(2):
        house.submit(1000, None, name=f"whole-{n}")
    house.submit(name="later")
    (stopped,) = house.allocations.stop("later", house.admin, None)
    assert (stopped.state, stopped.reason) == ("stopped", "stopped by its user")
    house.finish("whole-0")
    house.allocations.placer.run_once()
    assert house.job("later").state == "stopped"


def test_stopping_a_running_job_asks_its_node_and_counts_until_the_node_says_so(house: House) -> None:
    house.submit(name="a")
    (item,) = house.work()
    house.report(item, "running")
    cursor = house.allocations.agents.work("node-1", 0).cursor
    house.allocations.stop("a", house.admin, 3)
    (stop,) = house.work(cursor)
    assert (stop.want, stop.grace_seconds, stop.generation) == ("stop", 3, item.generation)
    assert used(house)[0][2] == 1
    house.report(stop, "ended", signal=15)
    assert (house.job("a").state, used(house)[0]) == ("stopped", (0, 0, 0))
    with pytest.raises(WrongState):
        house.allocations.stop("a", house.admin, None)


@pytest.mark.parametrize(
    ("how", "state", "reason"),
    [
        ({"exit_code": 0, "reason": "exited"}, "done", ""),
        ({"signal": 11, "reason": "signalled"}, "failed", "killed by SIGSEGV"),
    ],
)
def test_a_stop_that_comes_after_the_commands_own_end_changes_no_state(
    house: House, how: dict[str, object], state: str, reason: str
) -> None:
    house.submit(name="a")
    (item,) = house.work()
    house.report(item, "running")
    house.allocations.stop("a", house.admin, None)
    house.report(item, "ended", **how)
    assert (house.job("a").state, house.job("a").reason) == (state, reason)


def test_an_array_shares_one_claim_and_is_stopped_by_its_name(house: House) -> None:
    house.submit(500, 8, name="sweep", array=5)
    house.allocations.placer.run_once()
    jobs = house.allocations.list_jobs(house.admin, Filter(), None, 10).items
    assert sorted(job.name for job in jobs) == [f"sweep.{n}" for n in range(5)]
    assert sorted(job.state for job in jobs) == ["pending"] + ["starting"] * 4
    assert {item.env["GPUPOOL_ARRAY_INDEX"] for item in house.work()} <= {"0", "1", "2", "3", "4"}
    assert len(house.allocations.stop("sweep", house.admin, None)) == 5


def test_another_tenants_job_is_not_found(house: House) -> None:
    for name in ("nlp", "vision"):
        house.tenancy.tenants.create(house.admin, name, None)
    ann, bob = house.member("ann", "nlp"), house.member("bob", "vision")
    house.submit(name="secret", principal=ann)
    for action in (
        lambda: house.allocations.job("secret", bob),
        lambda: house.allocations.stop("secret", bob, None),
        lambda: house.allocations.explain("secret", bob),
        lambda: house.submit(tenant="nlp", principal=bob),
    ):
        with pytest.raises(NotFound):
            action()
    assert house.allocations.list_jobs(bob, Filter(), None, 10).items == []
    assert [event.kind for event in house.allocations.events(bob, 0, 1000) if event.tenant == "nlp"] == []


def test_a_colleagues_job_is_seen_but_only_a_tenant_admin_may_stop_it(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "nlp", None)
    ann, bob = house.member("ann", "nlp"), house.member("bob", "nlp")
    chief = house.member("chief", "nlp", Role.TENANT_ADMIN)
    house.submit(name="work", principal=ann)
    with pytest.raises(NotAllowed):
        house.allocations.stop("work", bob, None)
    assert house.allocations.stop("work", chief, None)


def test_only_who_manages_a_tenant_asks_for_more_than_normal_priority(house: House) -> None:
    house.tenancy.tenants.create(house.admin, "nlp", None)
    ann = house.member("ann", "nlp")
    with pytest.raises(NotAllowed):
        house.submit(priority="high", principal=ann)
    assert house.submit(priority="low", principal=ann).priority == -100


def test_pages_show_every_job_once_live_ones_first(house: House) -> None:
    for n in range(5):
        house.submit(100, 1, name=f"done-{n}")
        house.finish(f"done-{n}")
    for n in range(4):
        house.submit(100, 1, name=f"live-{n}")
    seen: list[str] = []
    after = None
    while True:
        page = house.allocations.list_jobs(house.admin, Filter(), after, 2)
        seen += [job.name for job in page.items]
        after = page.next
        if after is None:
            break
    assert seen == [f"live-{n}" for n in (3, 2, 1, 0)] + [f"done-{n}" for n in (4, 3, 2, 1, 0)]


def test_a_stale_mirror_is_noticed_and_nothing_is_overcommitted(house: House) -> None:
    snapshot = house.allocations.mirror.snapshot()
    house.submit(800, 8, name="first")
    house.allocations.mirror._cards.columns = snapshot.cards  # as if the note about the first grant were lost
    house.submit(800, 8, name="second")
    house.allocations.placer.run_once()
    assert [milli for milli, _, _ in used(house)] == [800, 800]


def test_a_restarted_server_finds_its_queue_and_places_it(house: House) -> None:
    for n in range(2):
        house.submit(1000, None, name=f"whole-{n}")
    house.submit(1000, None, name="later")
    again = type(house.allocations)(house.store, house.tenancy, house.fleet, house.metering)
    again.placer.load()
    assert again.mirror.waiting_count() == 1
    house.allocations = again
    house.finish("whole-0")
    again.placer.run_once()
    assert house.job("later").state == "starting"


def test_the_books_count_what_was_held(house: House) -> None:
    house.submit(name="a")
    house.finish("a")
    kinds = [event.kind for event in house.allocations.events(house.admin, 0, 1000)]
    assert [kind for kind in kinds if kind.startswith("job.")] == ["job.submitted", "job.placed", "job.ended"]
    seqs = [event.seq for event in house.allocations.events(house.admin, 0, 1000)]
    assert seqs == list(range(1, len(seqs) + 1))


def test_the_event_log_holds_what_a_replay_needs(house: House) -> None:
    house.submit(300, 8, name="a")
    house.finish("a")
    house.submit(1000, None, name="b")
    house.finish("b")
    log = "\n".join(event.model_dump_json() for event in house.allocations.events(house.admin, 0, 1000))
    trace = read_events("log", log)
    assert [(one.job, one.shape) for one in trace.arrivals] == [("a", Shape(300, 8 * GIB)), ("b", Shape(1000))]
    assert sum(len(node.cards) for node in trace.nodes) == 2


def test_a_no_is_of_now_an_end_that_is_written_but_not_noted_yet_makes_room(house: House) -> None:
    for n in range(2):
        house.submit(1000, None, name=f"whole-{n}")
    item = house.work()[0]
    report = ReportIn(allocation=item.allocation, generation=item.generation, state="ended", exit_code=0)
    with house.store.write() as write:  # what the service does just before it notes it
        progress.take(write, house.metering, house.fleet, "node-1", [report])
    assert house.submit(1000, None, name="now", wait=False).state == "starting"


def test_for_a_no_the_cards_are_read_once_more_and_only_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.submit(1000, None, name="holder", count=2)
    read = list[int]()
    note_cards = house.allocations.mirror.note_cards

    def counted(notes: Iterable[CardNote]) -> None:
        read.append(len(told := list(notes)))
        note_cards(told)

    monkeypatch.setattr(house.allocations.mirror, "note_cards", counted)
    with pytest.raises(NoRoomNow):
        house.submit(1000, None, name="now", wait=False)
    assert read == [2]
    house.submit(1000, None, name="later")
    assert read == [2, 0], "who waits reads nothing again"
