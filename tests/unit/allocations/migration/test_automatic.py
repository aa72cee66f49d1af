"""Defragmentation by itself on a real ledger: its moves, its event, and a budget that no crash
gives back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from gpupool.allocations.cache.migrations import read_migrations
from gpupool.allocations.migration import apply
from gpupool.allocations.migration.automatic import EVENT, AutomaticDefragmentation
from gpupool.allocations.store.tables import allocations, jobs
from gpupool.base.errors import StaleGeneration
from gpupool.scheduling.rebalancing.automatic_defragment import DefragmentBudget, DefragmentSpending
from gpupool.store.database import WriteTransaction
from gpupool.store.tables import events
from gpupool.wire.defrag import MovesIn, MovesOut
from tests.support.house import House

#: Since when jobs run: hours ago by any clock.
LONG_AGO = 5
ONE = DefragmentBudget(moves=1, lost_gpu_seconds=1 << 60)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Three nodes of two cards, each with one card in use by a job that may be moved."""
    made = House(tmp_path)
    made.register(2, "node-2")
    made.register(2, "node-3")
    made.allocations.placer.refresh_cache()
    for name in "abcdef":
        made.submit(1000, None, name=name, preemptible=True)
        report(made, name, "running", started_ns=LONG_AGO)
    for node in ("node-1", "node-2", "node-3"):
        report(
            made,
            next(name for name in "abcdef" if made.job(name).node == node),
            "ended",
            exit_code=0,
        )
    began_long_ago(made)
    yield made
    made.close()


def began_long_ago(house: House) -> None:
    """As if every job had been placed hours ago."""
    with house.store.write() as write:
        write.execute(jobs.update().values(started_ns=LONG_AGO))
        write.execute(allocations.update().values(granted_ns=LONG_AGO))
    house.restart()


def report(house: House, name: str, state: str, **more: object) -> None:
    job = house.job(name)
    item = next(one for one in house.work(node=str(job.node)) if one.job == job.id)
    house.report(item, state, str(job.node), **more)


def quiet(house: House, budget: DefragmentBudget | None = ONE) -> AutomaticDefragmentation:
    return AutomaticDefragmentation(
        house.store, house.allocations.cache, house.allocations.placer, budget
    )


def noted(house: House) -> list[dict[str, int]]:
    with house.store.read() as connection:
        rows = connection.execute(sa.select(events.c.data).where(events.c.kind == EVENT)).all()
    return [row.data for row in rows]


def moving(house: House) -> int:
    with house.store.read() as connection:
        return len(read_migrations(connection))


def settle(house: House) -> None:
    """Whoever was told to move has left and started again."""
    for name in "abcdef":
        job = house.job(name)
        item = next(
            (
                one
                for one in house.work(node=str(job.node))
                if one.job == job.id and one.want == "stop"
            ),
            None,
        )
        if item is not None:
            house.report(item, "ended", str(job.node), reason="stopped", signal=15)
    house.allocations.placer.run_cycle()
    for name in "abcdef":
        if house.job(name).state == "starting":
            report(house, name, "running", started_ns=LONG_AGO)
    began_long_ago(house)


def test_switched_off_nothing_moves(house: House) -> None:
    assert quiet(house, None).run_if_quiet() is None
    assert (moving(house), noted(house)) == (0, [])


def test_a_quiet_pool_moves_a_job_and_writes_it_down(house: House) -> None:
    plan = quiet(house).run_if_quiet()
    assert plan is not None
    assert moving(house) == 1
    assert noted(house) == [
        {
            "moves": 1,
            "lost_gpu_seconds": plan.lost_gpu_seconds,
            "whole_nodes_before": 0,
            "whole_nodes_after": 1,
        }
    ]


def test_the_budget_of_an_hour_is_spent_once(house: House) -> None:
    assert quiet(house).run_if_quiet() is not None
    settle(house)
    assert quiet(house).run_if_quiet() is None, "one move an hour, and it was made"
    assert (
        quiet(house, DefragmentBudget(moves=2, lost_gpu_seconds=1 << 60))
        .read_spent_budget(house.store.clock.now_ns())
        .moves
        == 1
    )


def test_an_hour_later_the_budget_is_there_again(house: House) -> None:
    quiet(house).run_if_quiet()
    now_ns = house.store.clock.now_ns()
    assert quiet(house).read_spent_budget(now_ns + 3600 * 10**9 + 1) == DefragmentSpending()


def test_a_server_that_starts_again_knows_what_was_spent(house: House) -> None:
    assert quiet(house).run_if_quiet() is not None
    house.restart()
    assert moving(house) == 1, "the seats are kept"
    settle(house)
    assert quiet(house).run_if_quiet() is None


def test_a_failure_before_the_commit_leaves_no_move_and_no_event(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(write: WriteTransaction, *_: object, **__: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(WriteTransaction, "event", failing)
        with pytest.raises(OSError, match="disk is full"):
            quiet(house).run_if_quiet()
    assert (moving(house), noted(house)) == (0, [])
    assert quiet(house).run_if_quiet() is not None, "the next look makes it"


def test_a_pool_that_has_changed_since_the_plan_is_left_for_the_next_look(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stale(*_: object) -> MovesOut:
        raise StaleGeneration("card x has changed since the plan was made", hint="")

    monkeypatch.setattr(apply, "apply_moves", stale)
    assert quiet(house).run_if_quiet() is None
    assert (moving(house), noted(house)) == (0, [])


def test_a_job_that_waits_comes_first(house: House) -> None:
    house.submit(1000, None, name="large", count=2)
    assert quiet(house).run_if_quiet() is None


def test_the_moves_are_those_of_the_plan(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[MovesIn] = []
    real = apply.apply_moves

    def watched(*given: object) -> MovesOut:
        asked.append(given[3])  # type: ignore[arg-type]
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(apply, "apply_moves", watched)
    plan = quiet(house).run_if_quiet()
    assert plan is not None
    assert [one.job for one in asked[0].moves] == [move.job for move in plan.moves]
