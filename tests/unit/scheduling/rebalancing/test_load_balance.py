"""Moves that spread load: what they even out, what they cost, and what they leave alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpupool.model.claim import SharingKind
from gpupool.scheduling.rebalancing.load_balance import (
    LoadSpread,
    RebalancePlan,
    measure_loads,
    plan_rebalancing,
)
from gpupool.scheduling.rebalancing.move_limits import RebalancingLimits
from gpupool.scheduling.snapshot.claims import MigrationHold, RunningJob
from gpupool.scheduling.snapshot.snapshot import Snapshot
from tests.support.moving_builders import NOW, job, pool

LIMITS = (
    RebalancingLimits(moves=1),
    RebalancingLimits(lost_seconds=120),
    RebalancingLimits(per_tenant=1),
)


def share(name: str, row: int, milli: int, **more: object) -> RunningJob:
    return job(name, row, milli=milli, **more)  # type: ignore[arg-type]


def moved(plan: RebalancePlan) -> dict[str, tuple[int, ...]]:
    return {move.job: move.rows for move in plan.moves}


def crowded(seed: int) -> Snapshot:
    """Four nodes of four cards of two models, some free, with shares of any size thrown on the
    others."""
    random = np.random.default_rng(seed)
    room, jobs = np.full(16, 1000), list[RunningJob]()
    for number in range(60):
        row, milli = int(random.integers(14)), int(random.choice([100, 200, 300, 600]))
        sharing = SharingKind.BEST_EFFORT if random.random() < 0.3 else SharingKind.BURST
        if sharing is SharingKind.BURST and milli > room[row]:
            continue
        room[row] -= milli if sharing is SharingKind.BURST else 0
        more = {
            "ran": int(random.integers(1, 999)),
            "stays": bool(random.random() < 0.3),
            "sharing": sharing,
        }
        jobs.append(
            share(f"j{number}", row, milli, tenant=str(random.choice(["nlp", "vision"])), **more)
        )
    return pool("2x4xH200+2x4xH100", *jobs)


def test_a_share_goes_from_the_fullest_card_in_use_to_the_emptiest() -> None:
    before = pool(
        "1x4xH200", *(share(name, 0, 300) for name in "abc"), share("d", 1, 600), share("e", 2, 200)
    )
    plan = plan_rebalancing(before, NOW)
    assert moved(plan) == {"a": (2,)}
    assert plan.before == LoadSpread(3, 900, 566, pytest.approx(1700**2 / (3 * 1_210_000)))
    assert plan.after == LoadSpread(3, 600, 566, pytest.approx(1700**2 / (3 * 970_000)))
    assert plan.lost_seconds == 60


def test_a_card_that_nobody_uses_stays_free_unless_it_may_be_used() -> None:
    before = pool("1x2xH200", share("a", 0, 400), share("b", 0, 400))
    assert plan_rebalancing(before, NOW).moves == ()
    plan = plan_rebalancing(before, NOW, use_free_cards=True)
    assert (moved(plan), plan.before.cards, plan.after.cards) == ({"a": (1,)}, 1, 2)
    assert (plan.before.highest_milli, plan.after.highest_milli) == (800, 400)


def test_best_effort_counts_what_it_asked_for() -> None:
    lazy = [share(name, 0, 500, sharing=SharingKind.BEST_EFFORT) for name in ("x", "y")]
    before = pool(
        "1x2xH200", *lazy, share("held", 0, 600, stays=True), share("other", 1, 100, stays=True)
    )
    assert measure_loads(before).tolist() == [1600, 100]
    plan = plan_rebalancing(before, NOW)
    assert moved(plan) == {"x": (1,)}
    assert (plan.before.highest_milli, plan.after.highest_milli) == (1600, 1100)


def test_of_shares_that_even_out_alike_the_one_that_loses_least_moves() -> None:
    before = pool(
        "1x2xH200", share("old", 0, 300, ran=900), share("new", 0, 300, ran=9), share("b", 1, 100)
    )
    assert moved(plan_rebalancing(before, NOW)) == {"new": (1,)}
    before = pool(
        "1x2xH200",
        share("saved", 0, 300, ran=900, saved=1),
        share("new", 0, 300, ran=9),
        share("b", 1, 100),
    )
    assert moved(plan_rebalancing(before, NOW)) == {"saved": (1,)}


def test_what_brings_two_cards_nearer_by_no_more_than_the_step_stays() -> None:
    before = pool("1x2xH200", share("a", 0, 200), share("b", 0, 400), share("c", 1, 400))
    assert plan_rebalancing(before, NOW, step_milli=0).moves == (), (
        "the difference is only turned around"
    )
    before = pool(
        "1x2xH200", share("a", 0, 100), share("b", 0, 500), share("c", 1, 400, stays=True)
    )
    assert moved(plan_rebalancing(before, NOW, step_milli=199)) == {"a": (1,)}
    assert plan_rebalancing(before, NOW, step_milli=200).moves == ()


def test_whole_cards_gangs_shares_of_several_cards_and_who_may_not_move_stay() -> None:
    full = [job("whole", 0), job("two", 1, 2, milli=900)]
    stuck = [
        share("fixed", 3, 900, stays=True),
        share("member", 4, 900, gang="g"),
        share("low", 5, 50),
    ]
    assert plan_rebalancing(pool("1x6xH200", *full, *stuck), NOW).moves == ()


def test_cards_of_whole_card_jobs_are_no_part_of_the_figures() -> None:
    before = pool(
        "1x4xH200", job("whole", 0), share("a", 1, 300), share("b", 1, 300), share("c", 2, 100)
    )
    plan = plan_rebalancing(before, NOW)
    assert (plan.before.cards, plan.before.highest_milli, plan.before.mean_milli) == (2, 600, 350)
    assert (plan.after.highest_milli, plan.after.mean_milli) == (400, 350)


def test_a_pool_without_shares_has_no_load_and_no_plan() -> None:
    plan = plan_rebalancing(pool("1x2xH200", job("whole", 0)), NOW)
    assert (plan.moves, plan.before, plan.after) == (
        (),
        LoadSpread(0, 0, 0, 1.0),
        LoadSpread(0, 0, 0, 1.0),
    )


def test_a_share_stays_on_its_model_even_where_it_named_none() -> None:
    crowd = [share("a", 0, 400), share("b", 0, 400)]
    assert plan_rebalancing(pool("1x1xH200+1x1xH100", *crowd, share("c", 1, 100)), NOW).moves == ()
    assert moved(plan_rebalancing(pool("2x1xH200", *crowd, share("c", 1, 100)), NOW)) == {"a": (1,)}


def test_a_plan_made_while_another_is_carried_out_counts_its_moves_as_made() -> None:
    before = pool("1x2xH200", share("a", 0, 400), share("b", 0, 400), share("c", 1, 100))
    leaving = replace(before.running[0], preemptible=False, beneficiary="a")
    kept = MigrationHold("a", leaving.shape, (1,), leaving.sizes)
    during = replace(before, running=(leaving, *before.running[1:]), migration_holds=(kept,))
    assert measure_loads(during).tolist() == [400, 500]
    assert plan_rebalancing(during, NOW).moves == ()


def test_a_card_that_comes_free_by_a_move_is_not_filled_again() -> None:
    crowd = [share("a", 1, 400), share("b", 1, 400)]
    leaving = replace(share("z", 0, 100), preemptible=False, beneficiary="z")
    before = pool("1x3xH200", leaving, *crowd)
    during = replace(
        before, migration_holds=(MigrationHold("z", leaving.shape, (2,), leaving.sizes),)
    )
    assert moved(plan_rebalancing(during, NOW)) == {"a": (2,)}


@pytest.mark.parametrize("limits", LIMITS)
def test_limits_hold(limits: RebalancingLimits) -> None:
    crowd = [share(name, 0, 200) for name in "abcd"]
    before = pool("1x3xH200", *crowd, share("e", 1, 100), share("f", 2, 100))
    assert len(plan_rebalancing(before, NOW).moves) == 2
    within = 2 if limits.lost_seconds else 1
    assert len(plan_rebalancing(before, NOW, limits=limits).moves) == within
    assert plan_rebalancing(before, NOW, limits=RebalancingLimits(lost_seconds=59)).moves == ()


@pytest.mark.parametrize("use_free_cards", [False, True])
@pytest.mark.parametrize("seed", range(15))
def test_every_move_fits_beside_all_that_runs_and_evens_two_cards_out(
    seed: int, use_free_cards: bool
) -> None:
    before = crowded(seed)
    plan = plan_rebalancing(before, NOW, use_free_cards=use_free_cards)
    free, load = before.cards.free_milli.copy(), measure_loads(before)
    running = {one.job: one for one in before.running}
    assert plan.moves
    for move in plan.moves:
        moving, (old,), (new,) = running.pop(move.job), move.from_rows, move.rows
        assert moving.preemptible
        assert moving.rows == (old,)
        assert before.cards.model[old] == before.cards.model[new]
        assert use_free_cards or load[new] > 0
        free[new] -= moving.shape.held_milli
        apart = load[old] - load[new]
        load[old] -= moving.shape.gpu_milli
        load[new] += moving.shape.gpu_milli
        assert free[new] >= 0
        assert apart - abs(load[old] - load[new]) > 100
    assert plan.after.highest_milli == load.max() <= plan.before.highest_milli
    assert plan.after.cards >= plan.before.cards
    assert plan.after.jain > plan.before.jain


@pytest.mark.parametrize("seed", range(5))
def test_a_plan_leaves_nothing_that_it_could_still_even_out(seed: int) -> None:
    before = crowded(seed)
    plan = plan_rebalancing(before, NOW)
    to = {move.job: move.rows for move in plan.moves}
    after = [
        replace(one, rows=to[one.job], preemptible=False) if one.job in to else one
        for one in before.running
    ]
    pool_after = pool("2x4xH200+2x4xH100", *after)
    kept_too = before.cards.free_milli.copy()
    for move in plan.moves:
        kept_too[move.rows[0]] -= next(
            one for one in before.running if one.job == move.job
        ).shape.held_milli
    pool_after = replace(pool_after, cards=replace(pool_after.cards, free_milli=kept_too))
    assert plan_rebalancing(pool_after, NOW).moves == ()


def test_the_same_pool_has_the_same_plan_and_names_play_no_part() -> None:
    before = crowded(3)
    plan = plan_rebalancing(before, NOW)
    assert plan == plan_rebalancing(before, NOW)
    renamed = replace(before, cards=replace(before.cards, nodes=("z", "y", "x", "w")))
    assert moved(plan_rebalancing(renamed, NOW)) == moved(plan)
