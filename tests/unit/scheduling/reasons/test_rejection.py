import numpy as np

from gpupool.base.units import GIB, MIB
from gpupool.model.claim import CardSelector, RejectionReason, Shape
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.reasons.rejection import explain_never, explain_not_now
from tests.support.scheduling_builders import cards

POOL = cards("2x2xT4", hosts=(8000, 32 * GIB))


def test_more_processors_or_main_memory_than_any_node_has_is_refused_for_ever() -> None:
    said = explain_never(
        ClaimFit(Shape(500, GIB, cpu_milli=12_500), FreeCapacity(POOL)), FreeCapacity(POOL)
    )
    assert said is not None
    assert (said.dominant, said.fits_ever) == (RejectionReason.CPU, False)
    assert (
        said.sentence
        == "needs 12.5 processors of its node beside its card; nodes with such cards have at most 8"
    )
    assert said.hint == "ask for at most 8 processors and 32768 MiB of main memory"
    said = explain_never(
        ClaimFit(Shape(500, GIB, 2, host_bytes=64 * GIB), FreeCapacity(POOL)), FreeCapacity(POOL)
    )
    assert said is not None
    assert said.dominant is RejectionReason.HOST_MEMORY
    assert "needs 65536 MiB of its node beside its 2 cards" in said.sentence


def test_processors_and_main_memory_that_are_in_use_are_waited_for() -> None:
    free = FreeCapacity(POOL)
    free.set_hosts(np.array([0, 1]), np.array([500, 8000]), np.array([32 * GIB, 100 * MIB]))
    fit = ClaimFit(Shape(500, GIB, cpu_milli=1000, host_bytes=GIB), free)
    assert explain_never(fit, free) is None
    said = explain_not_now(fit, free)
    assert said.cards == {RejectionReason.CPU: 2, RejectionReason.HOST_MEMORY: 2}
    assert said.sentence == (
        "needs 0.50 GPU (50 % compute) + 1024 MiB on one card; of 4 cards 2 are on nodes that lack processors"
        " (most free: 0.5), 2 are on nodes that lack main memory (most free: 100 MiB)"
    )


def test_several_models_are_told_as_alternatives() -> None:
    free = FreeCapacity(cards("2x2xT4+1x4xH200"))
    none = explain_never(ClaimFit(Shape(1000, None, 3, model="T4|A10"), free), free)
    assert none is not None
    assert none.sentence == "needs 3 T4 or A10 cards on one node; no node has more than 2 of them"


def refused(want: Shape, pool: str) -> tuple[RejectionReason, str]:
    said = explain_never(ClaimFit(want, FreeCapacity(cards(pool))), FreeCapacity(cards(pool)))
    assert said is not None
    return said.dominant, said.sentence


def test_a_choice_of_cards_that_no_card_of_the_pool_meets_is_refused_by_name() -> None:
    assert refused(Shape(1000, selector=CardSelector("ascend")), "2xT4+2xH200") == (
        RejectionReason.VENDOR,
        "no card of vendor ascend in this pool; it has cards of nvidia",
    )
    assert refused(Shape(1000, selector=CardSelector(uuids=("GPU-7",))), "2xT4") == (
        RejectionReason.EXCLUDED,
        "none of the cards GPU-7 is in this pool, of the kind that was asked for",
    )
    assert refused(Shape(1000, selector=CardSelector(not_models=("T4",))), "2xT4") == (
        RejectionReason.MODEL,
        "this pool has only cards of T4, and T4 are excluded",
    )


def test_a_claim_without_a_card_is_told_what_its_nodes_lack() -> None:
    want = Shape(0, None, 0, cpu_milli=2000, host_bytes=GIB)
    free = FreeCapacity(POOL)
    assert explain_never(ClaimFit(want, free), free) is None
    free.set_hosts(np.array([0, 1]), np.array([500, 8000]), np.array([32 * GIB, 100 * MIB]))
    said = explain_not_now(ClaimFit(want, free), free)
    assert said.sentence == (
        "needs 2 processors and 1024 MiB of one node; of 4 cards 2 are on nodes that lack processors"
        " (most free: 0.5), 2 are on nodes that lack main memory (most free: 100 MiB)"
    )
    never = explain_never(ClaimFit(Shape(0, None, 0, cpu_milli=9000), free), free)
    assert never is not None
    assert never.sentence == "needs 9 processors of one node; nodes have at most 8"
