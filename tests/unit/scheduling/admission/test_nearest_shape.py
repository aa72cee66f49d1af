from gpupool.base.units import GIB
from gpupool.model.claim import RejectionReason, Shape
from tests.support.explain_builders import BUSY, WAIT, told
from tests.support.scheduling_builders import shape, whole


def test_a_smaller_share_is_offered_when_compute_is_short() -> None:
    answer = told("8xH200", shape(500), BUSY)
    assert answer.sentence == (
        "needs 0.50 GPU (50 % compute) + 8192 MiB on one card; all 8 cards lack compute (most free: 0.40)"
    )
    assert (answer.dominant, answer.cards) == (
        RejectionReason.COMPUTE,
        {RejectionReason.COMPUTE: 8},
    )
    assert answer.nearest == shape(400)
    assert answer.helps == ("ask for 0.40 GPU (40 % compute) + 8192 MiB: it fits now", WAIT)


def test_less_memory_is_offered_when_memory_is_short() -> None:
    answer = told("1xT4", shape(500, 10 * GIB), {"node-1/0": (100, 9 * GIB)})
    assert answer.nearest == shape(500, 6 * GIB)
    assert answer.sentence.endswith("; the only card lacks memory (free: 6144 MiB)")


def test_fewer_cards_are_offered_before_smaller_shares() -> None:
    answer = told("8xH200", whole(8), {"node-1/0": (300, GIB)})
    assert answer.nearest == Shape(1000, 140 * GIB, 7)
    assert answer.helps == (
        "ask for 7 × [1.00 GPU (100 % compute) + 143360 MiB]: it fits now",
        "ask for 8 × [0.70 GPU (70 % compute) + 100352 MiB]: it fits now",
        WAIT,
    )


def test_another_model_is_offered_when_the_asked_one_has_less_than_half() -> None:
    busy = {f"node-1/{place}": (800, GIB) for place in range(8)}
    answer = told("8xH200+4xL40S", shape(500, model="H200"), busy)
    assert answer.nearest == shape(500, model="L40S")
    assert answer.helps == (
        "ask for 0.20 GPU (20 % compute) + 8192 MiB on H200: it fits now",
        "ask for 0.50 GPU (50 % compute) + 8192 MiB on L40S: it fits now",
        WAIT,
    )


def test_a_node_without_the_labels_is_offered_when_only_those_are_in_the_way() -> None:
    answer = told(
        "2x1xT4", shape(500, zone="a"), {"node-1/0": (1000, GIB)}, labels={"node-1": {"zone": "a"}}
    )
    assert answer.sentence == (
        "needs 0.50 GPU (50 % compute) + 8192 MiB on one card with zone=a; "
        "of 2 cards 1 is on a node with other labels, 1 lacks compute (most free: 0.00)"
    )
    assert answer.nearest == shape(500)


def test_nothing_is_offered_where_nothing_fits() -> None:
    answer = told("2xT4", whole(2), {"node-1/0": (1000, 15 * GIB), "node-1/1": (1000, 15 * GIB)})
    assert answer.sentence == "needs 2 whole cards on one node; all 2 cards are in use"
    assert (answer.nearest, answer.helps) == (None, (WAIT,))


def test_a_card_that_is_not_whole_is_offered_as_almost_one() -> None:
    answer = told("1xT4", shape(1000, 8 * GIB), {"node-1/0": (0, GIB)})
    assert answer.sentence == "needs a whole card with 8192 MiB; the only card is in use"
    assert answer.nearest == shape(999, 8 * GIB)
