"""Gangs: all or none, minimum and desired, roles, groups, and how near together they end up."""

from collections import Counter
from dataclasses import replace

import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import RejectionReason, Shape, TopologyConstraint
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.admission.gang import judge_gang
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.snapshot.plan import Plan
from tests.support.gang_builders import gang, group, nodes_of, racked, role, running
from tests.support.gang_plans import FULL, searches, sentence
from tests.support.scheduling_builders import apply, cards, shape, snapshot, tenant, waiting, whole


def nodes(plan: Plan) -> Counter[str]:
    """How many members each node got."""
    return Counter(placement.node for placement in plan.placements)


def test_a_gang_starts_as_a_whole_and_its_placements_name_it() -> None:
    plan = cycle(snapshot("2x4xH200", gang("g", role("worker", whole(), 6))), 0)
    assert [placement.job for placement in plan.placements] == [f"g-{n}" for n in range(6)]
    assert {placement.gang for placement in plan.placements} == {"g"}
    assert plan.rejections == {}


def test_what_a_gang_tried_in_vain_is_free_for_the_next() -> None:
    large = gang("g", role("worker", whole(), 6), priority=100)
    used = {f"node-1/{n}": FULL for n in range(3)}
    plan = cycle(snapshot("2x4xH200", large, waiting("small", want=whole(4)), used=used), 0)
    assert nodes_of(plan.placements) == {"small": "node-2"}


def test_roles_of_different_shape_start_together() -> None:
    parts = role("launcher", shape(100, GIB), 1, launcher=True), role("worker", whole(4), 2)
    plan = cycle(snapshot("2x4xH200+1x1xH200", gang("g", *parts)), 0)
    assert nodes_of(plan.placements)["g-0"] == "node-3"
    assert nodes(plan) == {"node-1": 1, "node-2": 1, "node-3": 1}
    tight = snapshot("2x4xH200", gang("g", *parts))
    assert (
        sentence(tight)
        == "3 members must start together; each role has room by itself, all have not"
    )


def test_a_gang_may_go_over_the_limit_of_a_plan_and_is_not_cut() -> None:
    before = snapshot(
        "2x8xH200",
        waiting("a", priority=100),
        gang("g", role("worker", whole(), 10)),
        waiting("z", at=1),
    )
    plan = cycle(before, 0, limit=2)
    assert len(plan.placements) == 11
    (said,) = plan.rejections.values()
    assert said.dominant is RejectionReason.BEHIND


def test_a_quota_counts_the_whole_gang() -> None:
    before = snapshot(
        "8xH200", gang("g", role("worker", whole(), 3)), tenants={"nlp": tenant(4000, held=2000)}
    )
    assert (
        sentence(before)
        == "tenant nlp holds 2.00 of its maximum 4.00 GPU; this claim needs 3.00 more"
    )


def test_a_quota_stops_the_members_over_the_minimum() -> None:
    before = snapshot(
        "8xH200", gang("g", role("worker", whole(), 2, 5)), tenants={"nlp": tenant(3000)}
    )
    assert len(cycle(before, 0).placements) == 3


RACKS = {"block": (0, 0, 0, 0, 1, 1, 1, 1), "rack": (0, 0, 1, 1, 2, 2, 3, 3)}


def test_a_required_rack_holds_the_whole_gang() -> None:
    used = {f"node-{n}/0": FULL for n in (1, 3, 5)}
    pool = racked("8x4xH200", used=used, **RACKS)
    plan = cycle(
        snapshot(pool, gang("g", role("worker", whole(), 8), within=TopologyConstraint("rack"))), 0
    )
    assert nodes(plan) == {"node-7": 4, "node-8": 4}


def test_the_tightest_rack_that_fits_is_taken() -> None:
    used = {"node-3/0": FULL, "node-3/1": FULL, "node-5/0": FULL}
    pool = racked("8x4xH200", used=used, **RACKS)
    plan = cycle(
        snapshot(pool, gang("g", role("worker", whole(), 6), within=TopologyConstraint("rack"))), 0
    )
    assert nodes(plan) == {"node-3": 2, "node-4": 4}


def test_a_gang_that_no_required_rack_holds_waits() -> None:
    used = {f"node-{n}/0": FULL for n in (1, 3, 5, 7)}
    before = snapshot(
        racked("8x4xH200", used=used, **RACKS),
        gang("g", role("worker", whole(), 8), within=TopologyConstraint("rack")),
    )
    assert sentence(before) == (
        "8 of role worker must start together in one rack and 7 find room;"
        " each needs a whole card; of 32 cards 4 are in use"
    )


def test_a_preferred_rack_gives_way_to_the_block_around_it() -> None:
    used = {f"node-{n}/0": FULL for n in (1, 3, 5, 7)}
    pool = racked("8x4xH200", used=used, **RACKS)
    asked = gang("g", role("worker", whole(), 10), within=TopologyConstraint(preferred="rack"))
    plan = cycle(snapshot(pool, asked), 0)
    assert set(nodes(plan)) <= {"node-1", "node-2", "node-3", "node-4"}
    assert nodes(plan).total() == 10
    few = cycle(
        snapshot(
            pool, gang("g", role("worker", whole(), 7), within=TopologyConstraint(preferred="rack"))
        ),
        0,
    )
    assert nodes(few) == {"node-1": 3, "node-2": 4}


def test_a_preferred_level_never_leaves_the_required_one() -> None:
    pool = racked("8x4xH200", **RACKS)
    asked = gang("g", role("worker", whole(), 12), within=TopologyConstraint("block", "rack"))
    plan = cycle(snapshot(pool, asked), 0)
    assert nodes(plan).total() == 12
    assert len({RACKS["block"][int(name[-1]) - 1] for name in nodes(plan)}) == 1
    larger = snapshot(
        pool, gang("g", role("worker", whole(), 17), within=TopologyConstraint("block", "rack"))
    )
    assert cycle(larger, 0).placements == ()


def test_inside_a_required_block_the_fullest_racks_are_filled_and_the_empty_one_stays_whole() -> (
    None
):
    used = {f"node-{n}/{place}": FULL for n in (1, 2) for place in range(3)} | {
        f"node-{n}/0": FULL for n in range(5, 9)
    }
    pool = racked("8x4xH200", used=used, block=(0,) * 8, rack=(0, 0, 1, 1, 2, 2, 3, 3))
    plan = cycle(
        snapshot(pool, gang("g", role("worker", whole(), 14), within=TopologyConstraint("block"))),
        0,
    )
    assert nodes(plan) == {
        "node-1": 1,
        "node-2": 1,
        "node-5": 3,
        "node-6": 3,
        "node-7": 3,
        "node-8": 3,
    }


def test_a_gang_may_ask_for_one_node() -> None:
    pool = cards("3x4xH200", used={"node-1/0": FULL})
    plan = cycle(
        snapshot(pool, gang("g", role("worker", whole(), 4), within=TopologyConstraint("node"))), 0
    )
    assert nodes(plan) == {"node-2": 4}


def test_groups_inside_a_group_each_get_a_domain_of_their_own_inside_its_domain() -> None:
    pool = racked("8x4xH200", **RACKS)
    parts = (
        group(f"stage-{n}", role("worker", whole(), 8), within=TopologyConstraint("rack"))
        for n in range(2)
    )
    plan = cycle(snapshot(pool, gang("g", *parts, within=TopologyConstraint("block"))), 0)
    racks = [RACKS["rack"][int(placement.node[-1]) - 1] for placement in plan.placements]
    assert racks[:8] == [racks[0]] * 8
    assert racks[8:] == [racks[8]] * 8
    assert {racks[0], racks[8]} in ({0, 1}, {2, 3})


def test_an_inner_group_that_finds_no_room_sends_the_gang_to_another_block() -> None:
    used = {f"node-{n}/{place}": FULL for n in (1, 3) for place in range(2)}
    pool = racked("8x4xH200", used=used, **RACKS)
    parts = (
        group(f"stage-{n}", role("worker", whole(), 6), within=TopologyConstraint("rack"))
        for n in range(2)
    )
    assert set(
        nodes(cycle(snapshot(pool, gang("g", *parts, within=TopologyConstraint("block"))), 0))
    ) <= {f"node-{n}" for n in range(1, 5)}
    used |= {"node-4/0": FULL}
    pool = racked("8x4xH200", used=used, **RACKS)
    parts = (
        group(f"stage-{n}", role("worker", whole(), 6), within=TopologyConstraint("rack"))
        for n in range(2)
    )
    assert set(
        nodes(cycle(snapshot(pool, gang("g", *parts, within=TopologyConstraint("block"))), 0))
    ) <= {f"node-{n}" for n in range(5, 9)}


def test_who_joins_a_gang_that_runs_joins_its_rack() -> None:
    pool = racked("8x4xH200", used={f"node-5/{n}": FULL for n in range(4)}, **RACKS)
    asked = gang("g", role("worker", whole(), 4, 12), within=TopologyConstraint("rack"), gone=4)
    members = tuple(
        running(pool, f"g-{n}", f"node-5/{n}", want=whole(), gang="g") for n in range(4)
    )
    plan = cycle(replace(snapshot(pool, asked), running=members), 0)
    assert nodes(plan) == {"node-6": 4}
    (said,) = plan.rejections.values()
    assert said.sentence == "its gang runs; there is room for one more, but not in one rack with it"


def test_a_level_that_no_node_says_is_never_found_when_it_is_required_and_ignored_when_preferred() -> (
    None
):
    assert (
        cycle(
            snapshot(
                "4xH200", gang("g", role("worker", whole(), 2), within=TopologyConstraint("rack"))
            ),
            0,
        ).placements
        == ()
    )
    assert (
        len(
            cycle(
                snapshot(
                    "4xH200",
                    gang("g", role("worker", whole(), 2), within=TopologyConstraint(None, "rack")),
                ),
                0,
            ).placements
        )
        == 2
    )


def test_gangs_and_single_claims_take_turns_by_rank() -> None:
    classes = (
        waiting("old", want=whole(4), at=1),
        gang("g", role("worker", whole(), 4), at=2),
        waiting("young", at=3),
    )
    plan = cycle(snapshot("8xH200", *classes), 0)
    assert [placement.job for placement in plan.placements] == ["old", "g-0", "g-1", "g-2", "g-3"]


def test_seats_of_a_gang_are_counted_for_its_tenant() -> None:
    before = snapshot(
        "2x4xH200", gang("g", role("worker", whole(), 6)), tenants={"nlp": tenant(6000)}
    )
    after = apply(before, cycle(before, 0))
    assert after.tenants["nlp"].held == ResourceAmount(6000, 6 * 140 * GIB)


@pytest.mark.parametrize("nodes_", [8, 64])
def test_looks_at_cards_grow_with_the_gang_and_not_with_the_gang_times_the_pool(
    nodes_: int,
) -> None:
    plan = cycle(snapshot(f"{nodes_}x8xH200", gang("g", role("worker", Shape(1000), 16))), 0)
    assert len(plan.placements) == 16
    assert plan.effort.rows <= 2 * nodes_ * 8 + 2 * 16 * 8


@pytest.mark.parametrize("limit", [None, 4000])
def test_members_by_the_thousand_cost_a_search_for_each_card(
    monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> None:
    asked = gang("g", role("worker", shape(1, GIB // 64), 2000))
    tenants = {"nlp": tenant() if limit is None else tenant(limit)}
    before, found = snapshot("2x4xL40S", asked, tenants=tenants), searches(monkeypatch)
    assert len(cycle(before, 0).placements) == 2000
    assert len(found) <= 8 + 1
    found.clear()
    assert asked.gang is not None
    assert judge_gang(asked.gang, tenants["nlp"], before.cards, tenant_name="nlp") is None
    assert len(found) <= 8 + 1
