"""What is refused at submission, forever: whole sentences, and what to type instead."""

import pytest

from gpupool.base.units import GIB, MIB
from gpupool.model.claim import EvenGang, Rejection, RejectionReason, Shape, SharingKind
from gpupool.scheduling.admission.claim import judge_claim
from gpupool.scheduling.snapshot.cards import CardStatus, CardTable
from gpupool.scheduling.snapshot.snapshot import TenantView
from tests.support.scheduling_builders import cards, shape, tenant, whole


def refused(
    want: Shape,
    pool: str | CardTable = "2x8xH200",
    view: TenantView | None = None,
    typed: str | None = None,
) -> Rejection:
    columns = cards(pool) if isinstance(pool, str) else pool
    said = judge_claim(want, view or tenant(), columns, tenant_name="nlp", memory_typed=typed)
    assert said is not None
    assert not said.fits_ever
    return said


def test_a_share_larger_than_any_card_is_refused() -> None:
    said = refused(shape(500, 200 * GIB), "2x8xH200+4xT4")
    assert said.sentence == "no card has 200 GiB (largest: H200 with 140 GiB)"
    assert (said.dominant, said.cards) == (
        RejectionReason.CARD_TOO_SMALL,
        {RejectionReason.CARD_TOO_SMALL: 20},
    )
    assert said.hint == "write --memory 143360MiB or less"
    assert said.nearest == shape(500, 140 * GIB)


def test_a_refusal_repeats_the_memory_as_it_was_typed() -> None:
    said = refused(shape(500, 200 * GIB), typed="204800MiB")
    assert said.sentence == "no card has 204800MiB (largest: H200 with 140 GiB)"


def test_sizes_that_read_alike_in_gib_are_told_in_mib() -> None:
    said = refused(shape(500, 140 * GIB + MIB))
    assert said.sentence == "no card has 143361 MiB (largest: H200 with 143360 MiB)"


def test_a_share_larger_than_any_card_of_its_model_is_refused() -> None:
    said = refused(shape(500, 20 * GIB, model="T4"), "2x8xH200+4xT4")
    assert said.sentence == "no T4 card has 20 GiB (largest: T4 with 15 GiB)"


def test_a_share_larger_than_any_card_with_its_labels_is_refused() -> None:
    pool = cards("1x8xH200+4xT4", labels={"node-2": {"zone": "a"}})
    said = refused(shape(500, 20 * GIB, zone="a"), pool)
    assert said.sentence == "no card on a node with zone=a has 20 GiB (largest: T4 with 15 GiB)"


def test_more_cards_than_any_node_has_are_refused() -> None:
    said = refused(whole(16))
    assert said.sentence == "needs 16 cards on one node; the largest node has 8"
    assert said.dominant is RejectionReason.TOO_FEW_CARDS
    assert said.hint == "ask for at most 8 cards, or for a gang of 2 members with 8 cards each"
    assert said.gang == EvenGang(2, 8)
    assert (refused(whole(15)).hint, refused(whole(15)).gang) == ("ask for at most 8 cards", None)
    assert refused(whole(12)).gang == EvenGang(2, 6)
    assert refused(whole(32)).gang is None
    # Two cards each would be 5 members on 2 nodes: a node would run the command several times.
    assert refused(whole(10), "2x4xH200").gang is None
    assert refused(whole(3), "4x1xH200").gang == EvenGang(3, 1)
    assert str(said.nearest) == "8 × [1.00 GPU (100 % compute) + 143360 MiB]"


def test_more_cards_of_a_kind_than_any_node_has_are_refused() -> None:
    assert refused(whole(5, "T4"), "8xH200+4xT4").sentence == (
        "needs 5 T4 cards on one node; no node has more than 4 of them"
    )
    assert refused(shape(100, 30 * GIB, 9), "8xH200+16xT4").sentence == (
        "needs 9 cards of at least 30 GiB on one node; no node has more than 8 of them"
    )


def test_an_unknown_model_is_refused_with_the_nearest_name() -> None:
    said = refused(whole(1, "H2000"), "2x8xH200+4xT4")
    assert said.sentence == 'no card of model "H2000" in this pool; nearest: H200'
    assert (said.dominant, said.hint) == (RejectionReason.MODEL, "write --model H200")
    assert said.nearest == Shape(1000, 140 * GIB, 1, "H200")


def test_a_real_model_that_the_pool_does_not_have_is_told_apart_from_a_mistyped_one() -> None:
    said = refused(whole(1, "H100"), "2x8xH200")
    assert said.sentence == 'no card of model "H100" in this pool; nearest: H200'
    assert said.hint == "H100 is a model that no card here has; write --model H200"


def test_a_model_like_nothing_in_the_pool_is_refused_with_what_the_pool_has() -> None:
    assert (
        refused(whole(1, "xyz"), "4xT4+2xL40S").sentence
        == 'no card of model "xyz" in this pool; it has T4 and L40S'
    )


def test_labels_that_no_node_has_are_refused() -> None:
    said = refused(shape(zone="a", disk="ssd", model="H200"))
    assert said.sentence == "no H200 card of this pool is on a node with disk=ssd and zone=a"
    assert said.dominant is RejectionReason.LABELS


def test_a_pool_without_cards_refuses_everything() -> None:
    assert refused(whole(), "").sentence == "this pool has no cards"


def test_compute_beyond_the_tenants_maximum_is_refused() -> None:
    said = refused(shape(900), view=tenant(500))
    assert said.sentence == (
        "0.90 GPU is beyond tenant nlp's maximum of 0.50 GPU (nominal 0.50 + borrowing 0.00)"
    )
    assert (said.dominant, said.nearest) == (RejectionReason.QUOTA, shape(500))


def test_the_quota_is_counted_over_all_cards_of_a_claim() -> None:
    said = refused(whole(3), view=tenant(2000, 500))
    assert said.sentence == (
        "3.00 GPU is beyond tenant nlp's maximum of 2.50 GPU (nominal 2.00 + borrowing 0.50)"
    )


def test_memory_beyond_the_tenants_maximum_is_refused() -> None:
    said = refused(shape(300, 20 * GIB), view=tenant(memory=8 * GIB))
    assert said.sentence == (
        "20480 MiB is beyond tenant nlp's maximum of 8192 MiB (nominal 8192 + borrowing 0)"
    )


def test_a_proportional_share_is_judged_by_the_smallest_card_that_could_take_it() -> None:
    pool, view = cards("8xH200+4xT4"), tenant(memory=10 * GIB)
    assert judge_claim(Shape(500), view, pool, tenant_name="nlp") is None
    assert refused(Shape(500, model="H200"), pool, view).sentence == (
        "71680 MiB is beyond tenant nlp's maximum of 10240 MiB (nominal 10240 + borrowing 0)"
    )


@pytest.mark.parametrize("sharing", [SharingKind.BEST_EFFORT, SharingKind.OFFLINE])
def test_a_share_without_a_promise_holds_memory_alone_of_the_quota(sharing: SharingKind) -> None:
    want = shape(900, sharing=sharing)
    limited = judge_claim(want, tenant(0, memory=GIB // 2), cards("1xT4"), tenant_name="nlp")
    assert limited is not None
    assert limited.dominant is RejectionReason.QUOTA
    assert judge_claim(want, tenant(0), cards("1xT4"), tenant_name="nlp") is None


@pytest.mark.parametrize(
    "status", [CardStatus.NOT_ADOPTED, CardStatus.DRAINING, CardStatus.UNHEALTHY]
)
def test_a_claim_that_only_a_closed_card_could_take_is_not_refused(status: CardStatus) -> None:
    pool = cards("1xT4", status={"node-1/0": status})
    assert judge_claim(shape(), tenant(), pool, tenant_name="nlp") is None


def test_a_claim_that_only_waits_for_room_or_quota_is_not_refused() -> None:
    pool = cards("1xT4", used={"node-1/0": (1000, 15 * GIB)})
    assert judge_claim(shape(), tenant(1000, held=900), pool, tenant_name="nlp") is None
