"""What one run of the scheduler places, where, in which order, and what it says of the rest."""

import pytest

from gpupool.base.units import GIB, MIB
from gpupool.model.allocation import Seat
from gpupool.model.claim import RejectionReason, Shape, SharingKind
from gpupool.scheduling.engine.cycle import cycle
from gpupool.scheduling.snapshot.cards import CardStatus
from tests.support.cycle_builders import SPREAD, seated, sentence
from tests.support.scheduling_builders import cards, shape, snapshot, tenant, waiting, whole


def test_a_share_gets_a_seat_with_its_compute_and_its_memory() -> None:
    plan = cycle(snapshot("1xH200", waiting("a", want=shape(300, 8 * GIB))), 0)
    (placement,) = plan.placements
    assert placement.seats == (Seat("node-1/0", 300, 8 * GIB),)
    assert (placement.job, placement.node, placement.generations, plan.generation) == (
        "a",
        "node-1",
        (1,),
        1,
    )
    assert plan.rejections == {}


def test_spread_takes_the_emptiest_card_of_the_emptiest_node() -> None:
    used = {"node-1/0": (100, 0), "node-2/0": (400, 0), "node-3/0": (300, 0), "node-3/1": (200, 0)}
    plan = cycle(snapshot("3x2xH200", waiting("a", "b"), used=used, policy=SPREAD), 0)
    assert seated(plan) == {"a": ("node-1/1",), "b": ("node-2/1",)}


def test_a_whole_card_holds_all_of_its_memory() -> None:
    plan = cycle(snapshot("1xH200", waiting("a", want=whole())), 0)
    assert plan.placements[0].seats == (Seat("node-1/0", 1000, 140 * GIB),)


def test_a_card_with_a_best_effort_tenant_on_it_is_not_a_whole_card() -> None:
    before = snapshot("1xH200", waiting("a", want=whole()), used={"node-1/0": (0, GIB)})
    assert sentence(before) == "needs a whole card; the only card is in use"


def test_best_effort_takes_memory_but_no_compute() -> None:
    want = shape(500, 8 * GIB, sharing=SharingKind.BEST_EFFORT)
    plan = cycle(snapshot("1xH200", waiting("a", want=want), used={"node-1/0": (1000, 8 * GIB)}), 0)
    assert plan.placements[0].seats == (Seat("node-1/0", 0, 8 * GIB),)


def test_memory_that_is_not_given_is_the_same_part_of_the_card_as_its_compute() -> None:
    plan = cycle(snapshot("1xH200", waiting("a", want=Shape(333))), 0)
    assert plan.placements[0].seats == (
        Seat("node-1/0", 333, 140 * GIB * 333 // 1000 // MIB * MIB),
    )


def test_a_model_family_matches_its_members_and_no_other() -> None:
    pool = cards("1x1xH100+1x1xA100-80G")
    assert seated(cycle(snapshot(pool, waiting("a", want=shape(model="a100"))), 0)) == {
        "a": ("node-2/0",)
    }
    assert cycle(snapshot(pool, waiting("a", want=shape(model="A10"))), 0).placements == ()


def test_every_label_of_a_claim_must_be_on_the_node() -> None:
    pool = cards(
        "3x1xH100", labels={"node-2": {"zone": "a"}, "node-3": {"zone": "a", "disk": "ssd"}}
    )
    plan = cycle(snapshot(pool, waiting("a", want=shape(zone="a", disk="ssd"))), 0)
    assert seated(plan) == {"a": ("node-3/0",)}


@pytest.mark.parametrize(
    ("status", "reason", "text"),
    [
        (CardStatus.NOT_ADOPTED, RejectionReason.NOT_ADOPTED, "the only card is not adopted"),
        (CardStatus.DRAINING, RejectionReason.DRAINING, "the only card is draining"),
        (CardStatus.UNHEALTHY, RejectionReason.UNHEALTHY, "the only card is not healthy"),
    ],
)
def test_only_open_cards_are_given_out(
    status: CardStatus, reason: RejectionReason, text: str
) -> None:
    plan = cycle(snapshot(cards("1xT4", status={"node-1/0": status}), waiting("a")), 0)
    (said,) = plan.rejections.values()
    assert said.sentence == f"needs 0.50 GPU (50 % compute) + 8192 MiB on one card; {text}"
    assert (said.dominant, said.cards, said.nodes, said.fits_ever) == (
        reason,
        {reason: 1},
        {reason: 1},
        True,
    )


def test_a_quota_of_memory_is_kept_as_well() -> None:
    view = tenant(memory=16 * GIB, held_memory=10 * GIB)
    before = snapshot("8xH200", waiting("a"), tenants={"nlp": view})
    assert (
        sentence(before)
        == "tenant nlp holds 10240 of its maximum 16384 MiB; this claim needs 8192 MiB more"
    )


def test_a_quota_stops_in_the_middle_of_a_class_and_only_its_tenant() -> None:
    both = waiting("a", "b", "c", priority=100), waiting("x", tenant="vision")
    plan = cycle(snapshot("8xH200", *both, tenants={"nlp": tenant(1000)}), 0)
    assert set(seated(plan)) == {"a", "b", "x"}
    assert [key[0] for key in plan.rejections] == ["nlp"]


def test_a_plan_of_which_nobody_reads_the_rejections_is_the_same_without_them() -> None:
    before = snapshot(
        "1x2xT4", waiting("a", want=whole()), waiting("b", "c", want=whole(), tenant="other")
    )
    full, silent = cycle(before, 0), cycle(before, 0, said=False)
    assert full.rejections != {}
    assert (silent.placements, silent.starts, silent.rejections) == (
        full.placements,
        full.starts,
        {},
    )
