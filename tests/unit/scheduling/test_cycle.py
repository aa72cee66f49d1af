"""What one run of the scheduler places, where, in which order, and what it says of the rest."""

from dataclasses import replace

import pytest

from gpupool.base.units import GIB, MIB
from gpupool.model.allocation import Seat
from gpupool.model.claim import Reason, Shape, Sharing
from gpupool.scheduling.cycle import cycle
from gpupool.scheduling.snapshot import CardStatus, Plan, Snapshot
from tests.support.quota_builders import cohort, member, runs
from tests.support.scheduling_builders import apply, cards, shape, snapshot, tenant, waiting, whole

SPREAD = "spread"


def seated(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Job -> names of its cards."""
    return {placement.job: tuple(seat.device for seat in placement.seats) for placement in plan.placements}


def sentence(before: Snapshot) -> str:
    """What the only class of the snapshot is told."""
    plan = cycle(before, 0)
    (said,) = plan.rejections.values()
    assert plan.placements == ()
    return said.sentence


def test_a_share_gets_a_seat_with_its_compute_and_its_memory() -> None:
    plan = cycle(snapshot("1xH200", waiting("a", want=shape(300, 8 * GIB))), 0)
    (placement,) = plan.placements
    assert placement.seats == (Seat("node-1/0", 300, 8 * GIB),)
    assert (placement.job, placement.node, placement.generations, plan.generation) == ("a", "node-1", (1,), 1)
    assert plan.rejections == {}


def test_binpack_takes_the_card_with_the_least_compute_left() -> None:
    used = {"node-1/1": (300, 8 * GIB), "node-1/2": (500, 8 * GIB), "node-1/3": (600, 8 * GIB)}
    plan = cycle(snapshot("4xL40S", waiting("a"), used=used), 0)
    assert seated(plan) == {"a": ("node-1/2",)}


def test_binpack_prefers_less_memory_left_among_cards_of_equal_compute() -> None:
    used = {"node-1/0": (300, 8 * GIB), "node-1/1": (300, 9 * GIB)}
    assert seated(cycle(snapshot("3xL40S", waiting("a"), used=used), 0)) == {"a": ("node-1/1",)}


def test_binpack_prefers_a_card_used_by_best_effort_to_a_smaller_untouched_one() -> None:
    pool = cards("mixed:T4,H200", used={"node-1/1": (0, 10 * GIB)})
    assert seated(cycle(snapshot(pool, waiting("a")), 0)) == {"a": ("node-1/1",)}


def test_spread_takes_the_emptiest_card_of_the_emptiest_node() -> None:
    used = {"node-1/0": (100, 0), "node-2/0": (400, 0), "node-3/0": (300, 0), "node-3/1": (200, 0)}
    plan = cycle(snapshot("3x2xH200", waiting("a", "b"), used=used, policy=SPREAD), 0)
    assert seated(plan) == {"a": ("node-1/1",), "b": ("node-2/1",)}


def test_binpack_fills_the_fullest_node_first() -> None:
    used = {"node-2/0": (400, 0)}
    plan = cycle(snapshot("3x2xH200", waiting("a", "b", "c"), used=used), 0)
    assert seated(plan) == {"a": ("node-2/0",), "b": ("node-2/1",), "c": ("node-2/1",)}


def test_whole_cards_go_to_the_node_with_the_fewest_whole_cards_that_fits() -> None:
    used = {"node-1/0": (100, GIB), "node-2/0": (100, GIB), "node-2/1": (100, GIB)}
    plan = cycle(snapshot("3x4xH200", waiting("a", want=whole(2)), used=used), 0)
    assert seated(plan) == {"a": ("node-2/2", "node-2/3")}


def test_a_whole_card_holds_all_of_its_memory() -> None:
    plan = cycle(snapshot("1xH200", waiting("a", want=whole())), 0)
    assert plan.placements[0].seats == (Seat("node-1/0", 1000, 140 * GIB),)


def test_a_card_with_a_best_effort_tenant_on_it_is_not_a_whole_card() -> None:
    before = snapshot("1xH200", waiting("a", want=whole()), used={"node-1/0": (0, GIB)})
    assert sentence(before) == "needs a whole card; the only card is in use"


def test_best_effort_takes_memory_but_no_compute() -> None:
    want = shape(500, 8 * GIB, sharing=Sharing.BEST_EFFORT)
    plan = cycle(snapshot("1xH200", waiting("a", want=want), used={"node-1/0": (1000, 8 * GIB)}), 0)
    assert plan.placements[0].seats == (Seat("node-1/0", 0, 8 * GIB),)


def test_memory_that_is_not_given_is_the_same_part_of_the_card_as_its_compute() -> None:
    plan = cycle(snapshot("1xH200", waiting("a", want=Shape(333))), 0)
    assert plan.placements[0].seats == (Seat("node-1/0", 333, 140 * GIB * 333 // 1000 // MIB * MIB),)


def test_several_cards_come_from_one_node_or_not_at_all() -> None:
    used = {"node-1/0": (1000, GIB), "node-2/0": (1000, GIB)}
    before = snapshot("2x2xH200", waiting("a", want=whole(2)), used=used)
    assert sentence(before) == ("needs 2 whole cards on one node; node-1 has 1 whole card free, node-2 1")


def test_a_model_family_matches_its_members_and_no_other() -> None:
    pool = cards("1x1xH100+1x1xA100-80G")
    assert seated(cycle(snapshot(pool, waiting("a", want=shape(model="a100"))), 0)) == {"a": ("node-2/0",)}
    assert cycle(snapshot(pool, waiting("a", want=shape(model="A10"))), 0).placements == ()


def test_every_label_of_a_claim_must_be_on_the_node() -> None:
    pool = cards("3x1xH100", labels={"node-2": {"zone": "a"}, "node-3": {"zone": "a", "disk": "ssd"}})
    plan = cycle(snapshot(pool, waiting("a", want=shape(zone="a", disk="ssd"))), 0)
    assert seated(plan) == {"a": ("node-3/0",)}


@pytest.mark.parametrize(
    ("status", "reason", "text"),
    [
        (CardStatus.NOT_ADOPTED, Reason.NOT_ADOPTED, "the only card is not adopted"),
        (CardStatus.DRAINING, Reason.DRAINING, "the only card is draining"),
        (CardStatus.UNHEALTHY, Reason.UNHEALTHY, "the only card is not healthy"),
    ],
)
def test_only_open_cards_are_given_out(status: CardStatus, reason: Reason, text: str) -> None:
    plan = cycle(snapshot(cards("1xT4", status={"node-1/0": status}), waiting("a")), 0)
    (said,) = plan.rejections.values()
    assert said.sentence == f"needs 0.50 GPU (50 % compute) + 8192 MiB on one card; {text}"
    assert (said.dominant, said.cards, said.nodes, said.fits_ever) == (reason, {reason: 1}, {reason: 1}, True)


def test_the_sentence_counts_cards_by_reason() -> None:
    used = {f"node-1/{i}": (600 + 10 * i, GIB) for i in range(8)} | {f"node-2/{i}": (600, GIB) for i in range(4)}
    used |= {f"node-2/{i}": (100, 140 * GIB - 2048 * MIB) for i in range(4, 8)}
    before = snapshot("2x8xH200", waiting("a"), used=used)
    assert sentence(before) == (
        "needs 0.50 GPU (50 % compute) + 8192 MiB on one card; of 16 cards 12 lack compute (most free: 0.40), "
        "4 lack memory (most free: 2048 MiB)"
    )
    (said,) = cycle(before, 0).rejections.values()
    assert said.cards == {Reason.COMPUTE: 12, Reason.MEMORY: 4}
    assert said.nodes == {Reason.COMPUTE: 1, Reason.MEMORY: 1}
    assert said.dominant is Reason.COMPUTE


def test_the_sentence_names_the_nodes_that_come_nearest() -> None:
    used = {"node-1/0": (100, GIB), "node-2/0": (100, GIB), "node-2/1": (100, GIB)}
    before = snapshot("2x8xH200", waiting("a", want=whole(8)), used=used)
    assert sentence(before) == "needs 8 whole cards on one node; node-1 has 7 whole cards free, node-2 6"


def test_a_queue_without_the_quota_waits_with_its_tenants_numbers() -> None:
    before = snapshot("8xH200", waiting("a"), tenants={"nlp": tenant(1000, 1000, held=1800)})
    assert sentence(before) == "tenant nlp holds 1.80 of its maximum 2.00 GPU; this claim needs 0.50 more"
    (said,) = cycle(before, 0).rejections.values()
    assert (said.dominant, said.fits_ever) == (Reason.QUOTA, True)


def test_a_quota_of_memory_is_kept_as_well() -> None:
    view = tenant(memory=16 * GIB, held_memory=10 * GIB)
    before = snapshot("8xH200", waiting("a"), tenants={"nlp": view})
    assert sentence(before) == "tenant nlp holds 10240 of its maximum 16384 MiB; this claim needs 8192 MiB more"


def test_a_quota_stops_in_the_middle_of_a_class_and_only_its_tenant() -> None:
    both = waiting("a", "b", "c", priority=100), waiting("x", tenant="vision")
    plan = cycle(snapshot("8xH200", *both, tenants={"nlp": tenant(1000)}), 0)
    assert set(seated(plan)) == {"a", "b", "x"}
    assert [key[0] for key in plan.rejections] == ["nlp"]


def test_a_proportional_share_takes_the_card_its_memory_quota_can_pay() -> None:
    pool = cards("mixed:H200,T4")
    before = snapshot(pool, waiting("a", want=Shape(500)), tenants={"nlp": tenant(memory=10 * GIB)})
    assert seated(cycle(before, 0)) == {"a": ("node-1/1",)}


def test_a_proportional_share_waits_for_the_only_card_its_memory_quota_can_pay() -> None:
    pool = cards("mixed:H200,T4", used={"node-1/1": (1000, 15 * GIB)})
    before = snapshot(pool, waiting("a", want=Shape(500)), tenants={"nlp": tenant(memory=10 * GIB)})
    assert sentence(before) == "tenant nlp holds 0 of its maximum 10240 MiB; this claim needs 71680 MiB more"


def test_higher_priority_goes_first() -> None:
    classes = waiting("old", want=whole(), at=1), waiting("urgent", want=whole(), priority=100, at=9)
    assert seated(cycle(snapshot("1xT4", *classes), 0)) == {"urgent": ("node-1/0",)}


def test_claims_inside_the_nominal_quota_go_before_those_that_borrow() -> None:
    classes = waiting("borrows", tenant="big", want=whole(), at=1), waiting("owns", want=whole(), at=9)
    tenants = {"big": tenant(1000, 8000, held=1000), "nlp": tenant(1000)}
    assert seated(cycle(snapshot("1xT4", *classes, tenants=tenants), 0)) == {"owns": ("node-1/0",)}


def test_a_class_that_starts_to_borrow_in_the_middle_lets_others_go_first() -> None:
    classes = waiting("a", "b", "c", tenant="big", want=whole(), at=1), waiting("x", want=whole(), at=9)
    tenants = {"big": tenant(1000, 8000), "nlp": tenant(1000)}
    plan = cycle(snapshot("3xT4", *classes, tenants=tenants), 0)
    assert [placement.job for placement in plan.placements] == ["a", "x", "b"]


def test_the_oldest_goes_first_across_classes_of_equal_rank() -> None:
    classes = waiting("a", "c", ages=(1, 3)), waiting("b", tenant="vision", at=2)
    plan = cycle(snapshot("8xT4", *classes), 0)
    assert [placement.job for placement in plan.placements] == ["a", "b", "c"]


def test_a_large_claim_that_finds_no_room_does_not_hold_back_a_small_one() -> None:
    classes = waiting("large", want=whole(8), priority=100), waiting("small")
    plan = cycle(snapshot("8xT4", *classes, used={"node-1/0": (500, GIB)}), 0)
    assert seated(plan) == {"small": ("node-1/0",)}
    assert [key[1] for key in plan.rejections] == [100]


def test_a_plan_stops_at_its_limit_and_says_that_there_is_room() -> None:
    before = snapshot("8xH200", waiting("a", "b", "c"))
    plan = cycle(before, 0, limit=2)
    (said,) = plan.rejections.values()
    assert len(plan.placements) == 2
    assert said.sentence == "there is room; it comes in the next round, after 2 claims placed in this one"
    assert said.dominant is Reason.BEHIND
    assert seated(cycle(apply(before, plan), 0)) == {"c": ("node-1/1",)}


def test_a_class_with_more_jobs_than_heads_says_why_the_rest_waits() -> None:
    plan = cycle(snapshot("1xT4", waiting("a", count=1000)), 0)
    (said,) = plan.rejections.values()
    assert said.sentence == (
        "needs 0.50 GPU (50 % compute) + 8192 MiB on one card; the only card lacks memory (free: 7168 MiB)"
    )


def test_what_a_plan_says_describes_the_pool_as_the_plan_leaves_it() -> None:
    classes = waiting("large", want=whole(), priority=100), waiting("small", want=shape(250, GIB))
    plan = cycle(snapshot("1xT4", *classes, used={"node-1/0": (500, GIB)}), 0)
    assert seated(plan) == {"small": ("node-1/0",)}
    (said,) = cycle(snapshot("1xT4", waiting("big"), used={"node-1/0": (700, GIB)}), 0).rejections.values()
    assert said.sentence.endswith("the only card lacks compute (free: 0.30)")


def test_a_claim_larger_than_what_its_quota_became_fits_never() -> None:
    before = snapshot("8xH200", waiting("a"), tenants={"nlp": tenant(200, 100)})
    (said,) = cycle(before, 0).rejections.values()
    assert said.sentence == ("0.50 GPU is beyond tenant nlp's maximum of 0.30 GPU (nominal 0.20 + borrowing 0.10)")
    assert not said.fits_ever


def test_a_claim_whose_cards_left_the_pool_fits_never() -> None:
    (said,) = cycle(snapshot("2x4xT4", waiting("a", want=whole(8))), 0).rejections.values()
    assert (said.sentence, said.fits_ever) == ("needs 8 cards on one node; the largest node has 4", False)


def test_work_does_not_grow_with_the_number_of_jobs_behind_the_heads() -> None:
    few, many = (cycle(snapshot("50x8xH200", waiting("a", "b", count=n)), 0) for n in (3, 100_000))
    assert (few.effort.rows, few.placements) == (many.effort.rows, many.placements)


def test_placing_many_heads_looks_at_each_card_once_and_then_at_the_changed_node() -> None:
    heads = tuple(f"j{i:02}" for i in range(64))
    plan = cycle(snapshot("50x8xH200", waiting(*heads, count=100_000)), 0)
    assert len(plan.placements) == 64
    assert plan.effort.rows <= 400 + 64 * 8


def test_classes_of_one_shape_share_one_look_at_the_cards() -> None:
    classes = [waiting(f"j{i}", tenant=f"t{i}") for i in range(20)]
    plan = cycle(snapshot("50x8xH200", *classes), 0)
    assert len(plan.placements) == 20
    assert plan.effort.rows <= 400 + 20 * 8


def test_placements_say_what_decided_them() -> None:
    before = snapshot("3x2xH200", waiting("a"), waiting("b", tenant="x", want=whole(2)), waiting("c", want=whole()))
    whys = [placement.why for placement in cycle(before, 0).placements]
    assert whys == [
        "node-1 is the fullest of 3 nodes that fit; on its fullest card",
        "node-2 is the fullest of 2 nodes that fit; on its fullest 2 cards",
        "node-1 is the fullest of 2 nodes that fit; on its fullest card",
    ]
    alone = cycle(replace(before, policy=SPREAD, cards=cards("1xT4"), waiting=(waiting("a"),)), 0)
    assert alone.placements[0].why == "node-1 is the only node that fits; on its emptiest card"


def test_proportional_seats_on_unlike_cards_stay_within_the_memory_quota_together() -> None:
    pool = cards("mixed:H200,T4,A100-40G", used={"node-1/0": (500, GIB)})
    before = snapshot(pool, waiting("a", want=Shape(500, None, 2)), tenants={"nlp": tenant(memory=30 * GIB)})
    assert seated(cycle(before, 0)) == {"a": ("node-1/1", "node-1/2")}
    richer = replace(before, tenants={"nlp": tenant(memory=80 * GIB)})
    assert seated(cycle(richer, 0)) == {"a": ("node-1/0", "node-1/1")}


def test_a_claim_is_told_which_cohort_has_nothing_left_of_which_model() -> None:
    views = {"nlp": member("research"), "vision": member("research")}
    lab = {"research": cohort(H200=(12, 0))}
    running = tuple(runs(f"v{n}", "vision", n) for n in range(12))
    taken = {f"node-{1 + n // 8}/{n % 8}": (1000, GIB) for n in range(12)}
    before = snapshot("2x8xH200", waiting("a", want=whole(2, "H200")), tenants=views, used=taken)
    plan = cycle(replace(before, cohorts=lab, running=running), 0)
    (said,) = plan.rejections.values()
    assert said.sentence == "cohort research holds 12.00 of its maximum 12.00 H200; this claim needs 2.00 more"


def test_a_claim_to_any_card_goes_where_its_tenant_may_hold_more() -> None:
    view = member(H200=(1, 0))
    before = snapshot("mixed:H200,H200,L40S", waiting("a", "b", "c", want=whole()), tenants={"nlp": view})
    plan = cycle(before, 0)
    assert sorted(placement.seats[0].device for placement in plan.placements) == ["node-1/0", "node-1/2"]
    assert [said.sentence for said in plan.rejections.values()] == [
        (
            "needs a whole L40S card; of 3 cards 2 are of another model, 1 is in use;"
            " tenant nlp holds 1.00 of its maximum 1.00 H200; this claim needs 1.00 more"
        )
    ]


def test_a_node_that_is_promised_whole_is_left_to_whom_it_was_promised() -> None:
    views = {"nlp": member(nodes=(1, None, 0)), "guest": member()}
    classes = [waiting("g0", "g1", "g2", want=whole(), tenant="guest"), waiting("n", want=whole(2), tenant="nlp", at=9)]
    plan = cycle(snapshot("2x2xH200", *classes, tenants=views), 0)
    assert sorted(placement.job for placement in plan.placements) == ["g0", "g1", "n"]
    alone = cycle(snapshot("2x2xH200", classes[0], tenants=views), 0)
    assert [said.sentence for said in alone.rejections.values()] == [
        "needs a whole card; the 2 cards that fit are on nodes kept whole for other tenants"
    ]


def test_a_plan_of_which_nobody_reads_the_rejections_is_the_same_without_them() -> None:
    before = snapshot("1x2xT4", waiting("a", want=whole()), waiting("b", "c", want=whole(), tenant="other"))
    full, silent = cycle(before, 0), cycle(before, 0, said=False)
    assert full.rejections != {}
    assert (silent.placements, silent.starts, silent.rejections) == (full.placements, full.starts, {})
