"""Which node, card and piece a claim to a partition gets, and which claims get none."""

from __future__ import annotations

from dataclasses import replace

from gpupool.base.units import WHOLE
from gpupool.model.claim import RejectionReason, Shape
from gpupool.scheduling.admission.claim import judge_claim
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.explain.explain import explain_claim
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import NO_CARD, FreeCapacity
from gpupool.scheduling.scoring.partitions import weigh_profiles
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from gpupool.scheduling.workspace.planning_state import PlanningState
from tests.support.partition_builders import H200, asked, part, piece, pool, starts, with_jobs
from tests.support.scheduling_builders import snapshot, tenant, waiting, whole


def test_small_partitions_gather_on_one_card_and_leave_the_half_that_has_most_profiles() -> None:
    plan = cycle(
        snapshot(pool("2xH200:mig"), asked("1g.18gb", "a", "b", "c"), asked("4g.71gb", "d")), 0
    )
    assert {start for _, start in list(starts(plan).values())[:3]} == {4, 5, 6}
    assert {card for card, _ in starts(plan).values()} == {"sim-0:0"}
    assert starts(plan)["d"] == ("sim-0:0", 0)


def test_a_broken_card_of_any_node_is_taken_before_a_whole_one_is_broken() -> None:
    cards = pool("1xH200:mig,1xH200:mig,1xH200:mig", {"sim-1:0": [(6, "1g.18gb")]})
    assert starts(cycle(snapshot(cards, asked("1g.18gb", "a")), 0))["a"][0] == "sim-1:0"


def test_what_the_pool_is_asked_for_decides_what_is_kept() -> None:
    """A 2g may take units 0, 2 or 4; where only 3g is asked for, a half stays whole wherever one
    can."""
    cards = pool("1xH200:mig", {"sim-0:0": [(3, "1g.18gb")]})
    three = ExpectedDemand((part("3g.71gb"),), (100.0,))
    plan = cycle(replace(snapshot(cards, asked("2g.35gb", "a")), expected=three), 0)
    assert starts(plan)["a"] == ("sim-0:0", 0)


def test_a_profile_that_nobody_asked_for_yet_is_worth_something() -> None:
    cards = pool("1xH200:mig")
    weights = weigh_profiles(cards, ExpectedDemand((part("1g.18gb"), whole()), (10.0, 5.0))) or {}
    assert weights["1g.18gb"] > weights["7g.141gb"] > 0
    assert weigh_profiles(cards, ExpectedDemand((whole(),), (1.0,))) is None


def test_several_partitions_of_a_claim_are_on_as_many_cards_of_one_node() -> None:
    plan = cycle(snapshot(pool("1xH200:mig,3xH200:mig"), asked("3g.71gb", "a", count=3)), 0)
    (placement,) = plan.placements
    assert placement.node == "sim-1"
    assert len({seat.device for seat in placement.seats}) == 3


def test_shares_and_whole_claims_pass_over_cards_in_partition_mode_and_partitions_over_the_others() -> (
    None
):
    cards = pool("1xH200:mig+1xH200")
    plan = cycle(
        snapshot(
            cards,
            waiting("share", want=Shape(300)),
            waiting("card", want=whole()),
            asked("1g.18gb", "part"),
        ),
        0,
    )
    where = {placement.job: placement.seats[0].device for placement in plan.placements}
    assert where == {"card": "sim-0:1", "part": "sim-0:0"}
    said = plan.rejections[waiting("share", want=Shape(300)).key]
    assert said.cards == {RejectionReason.PARTITIONED: 1, RejectionReason.COMPUTE: 1}
    assert "of 2 cards 1 is in partition mode, 1 lacks compute (most free: 0.00)" in said.sentence


def test_a_partition_that_has_no_place_now_waits_and_is_told_how_many_cards_lack_one() -> None:
    cards = pool(
        "2xH200:mig+1xH200",
        {"sim-0:0": [(0, "7g.141gb")], "sim-0:1": [(0, "1g.18gb"), (4, "1g.18gb")]},
    )
    said = cycle(snapshot(cards, asked("4g.71gb", "a")), 0).rejections[asked("4g.71gb").key]
    assert said.cards == {RejectionReason.PROFILE: 1, RejectionReason.PLACE: 2}
    assert said.dominant is RejectionReason.PLACE
    assert said.fits_ever
    assert said.sentence == (
        "needs a partition of 4g.71gb: 0.571 GPU (57.1 % compute) + 71168 MiB on one card; "
        "of 3 cards 2 have no free place for it, 1 has no such profile"
    )


def test_explain_offers_the_largest_profile_that_has_a_place_now() -> None:
    cards = pool("1xH200:mig", {"sim-0:0": [(0, "3g.71gb"), (4, "1g.18gb")]})
    found = explain_claim(snapshot(cards, asked("3g.71gb", "a")), asked("3g.71gb", "a"), 0)
    assert found.nearest is not None
    assert found.nearest.profile == "1g.35gb"


def test_what_no_card_publishes_is_refused_with_what_the_cards_can_be_cut_into() -> None:
    said = judge_claim(
        Shape(142, profile="1g.17gb"), tenant(), pool("1xH200:mig"), tenant_name="nlp"
    )
    assert said is not None
    assert not said.fits_ever
    assert said.dominant is RejectionReason.PROFILE
    assert "1g.18gb, 1g.18gb+me" in said.hint
    none = judge_claim(part("1g.18gb"), tenant(), pool("2xH200"), tenant_name="nlp")
    assert none is not None
    assert none.sentence == "no card of this pool can be cut into partitions"


def test_a_share_of_a_pool_that_is_all_in_partition_mode_is_refused_for_good() -> None:
    said = judge_claim(Shape(WHOLE, model="H200"), tenant(), pool("2xH200:mig"), tenant_name="nlp")
    assert said is not None
    assert not said.fits_ever
    assert said.dominant is RejectionReason.PARTITIONED
    assert said.sentence == (
        "all 2 H200 cards of this pool are in partition mode (MIG) and take partitions alone"
    )


def test_an_empty_partitioned_card_is_no_free_whole_card() -> None:
    free = FreeCapacity(pool("1xH200:mig+1xH200"))
    assert free.is_untouched().tolist() == [False, True]
    assert free.get_compute_grid(free.order).tolist() == [[NO_CARD, WHOLE]]


def test_a_trial_leaves_every_piece_as_it_was() -> None:
    before = snapshot(pool("1xH200:mig", {"sim-0:0": [(0, "2g.35gb")]}))
    board = PlanningState(before)
    was = dict(board.free.layouts)
    mark = board.mark()
    board.take_seats(board.get_ranking(part("1g.18gb")).fit, 0, board.free.get_node_rows(0))
    assert board.free.layouts != was
    board.rollback(mark)
    assert board.free.layouts == was


def test_the_board_follows_what_the_ledger_says_of_pieces() -> None:
    board = PlanningState(snapshot(pool("1xH200:mig", {"sim-0:0": [(0, "2g.35gb")]})))
    fit = board.get_ranking(part("7g.141gb")).fit
    assert not fit.roomy.any()
    board.follow(snapshot(pool("1xH200:mig")))
    assert board.get_ranking(part("7g.141gb")).fit is fit
    assert fit.roomy.all()


def test_a_pool_without_partitions_is_looked_at_no_more_often_than_before() -> None:
    shares = [waiting(f"j{n}", want=Shape(300)) for n in range(4)]
    plain = cycle(snapshot(pool("4xH200"), *shares), 0)
    beside = cycle(with_jobs(pool("4xH200"), [], *shares), 0)
    assert plain.effort == beside.effort


def test_memory_of_a_partition_is_what_its_card_says() -> None:
    free = FreeCapacity(pool("1xH200:mig+1xH200"))
    fit = ClaimFit(part("1g.18gb"), free)
    assert fit.need.tolist() == [H200["1g.18gb"].memory_bytes, 0]
    assert fit.least_bytes == H200["1g.18gb"].memory_bytes
    assert piece(0, "1g.18gb").size == 1
