"""A card in use serves the MPS shares of one owner, or shares without MPS."""

from dataclasses import replace

import numpy as np
import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import RejectionReason, Shape, SharingKind
from gpupool.scheduling.filtering.capacity_columns import build_empty_columns, get_free_columns
from gpupool.scheduling.filtering.card_owners import CardOwners
from gpupool.scheduling.filtering.feasibility import CODE, FITS, ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.native_library import NativeLibrary
from gpupool.scheduling.filtering.node_counts import RoomyNodeCounts
from gpupool.scheduling.filtering.seat_count import count_seats
from gpupool.scheduling.snapshot.cards import CardTable
from tests.support.scheduling_builders import cards

SERVES = CODE[RejectionReason.SERVES_MPS]
NOT_MPS = CODE[RejectionReason.NOT_MPS]
FENCED = Shape(300, 8 * GIB)


def mps(owner: str = "nlp/alice", milli: int = 300) -> Shape:
    return Shape(milli, 8 * GIB, sharing=SharingKind.MPS, owner=owner)


def pool() -> CardTable:
    """Three cards: of MPS clients of alice, in use without MPS, and empty."""
    used = {"node-1/0": (300, 8 * GIB), "node-1/1": (300, 8 * GIB)}
    return replace(cards("3xH200", used=used), owners={0: "nlp/alice"})


def take(free: FreeCapacity, shape: Shape, row: int) -> None:
    sizes = np.array([shape.memory_bytes or 0])
    free.take_seats(0, np.array([row]), shape.held_milli, sizes, owner=shape.owner)


def release(free: FreeCapacity, shape: Shape, row: int) -> None:
    free.release_seats(0, np.array([row]), shape.held_milli, np.array([shape.memory_bytes or 0]))


@pytest.fixture(params=["numpy", "compiled"])
def free(request: pytest.FixtureRequest, kernel: NativeLibrary) -> FreeCapacity:
    return FreeCapacity(pool(), compiled=request.param == "compiled")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (mps(), [FITS, NOT_MPS, FITS]),
        (mps("nlp/bob"), [SERVES, NOT_MPS, FITS]),
        (FENCED, [SERVES, FITS, FITS]),
        (replace(FENCED, sharing=SharingKind.BEST_EFFORT), [SERVES, FITS, FITS]),
        (Shape(1000, None), [SERVES, CODE[RejectionReason.NOT_WHOLE], FITS]),
        (
            Shape(1000, None, sharing=SharingKind.MPS, owner="nlp/alice"),
            [CODE[RejectionReason.NOT_WHOLE], NOT_MPS, FITS],
        ),
    ],
)
def test_a_claim_fits_on_cards_of_its_owner_and_on_empty_ones(
    free: FreeCapacity, shape: Shape, expected: list[int]
) -> None:
    fit = ClaimFit(shape, free)
    assert fit.why.tolist() == expected
    assert fit.fitting.tolist() == [expected.count(FITS)]


def test_the_first_mps_share_gives_a_card_its_owner_and_the_last_end_takes_it(
    free: FreeCapacity,
) -> None:
    fenced = ClaimFit(FENCED, free)
    other = ClaimFit(mps("nlp/bob"), free)
    take(free, mps(), 2)
    assert fenced.refresh(free).why[2] == SERVES
    assert other.refresh(free).why[2] == SERVES
    take(free, mps(), 2)
    release(free, mps(), 2)
    assert fenced.refresh(free).why[2] == SERVES, "one share is left"
    release(free, mps(), 2)
    assert fenced.refresh(free).why[2] == FITS
    take(free, FENCED, 2)
    assert other.refresh(free).why[2] == NOT_MPS, "the owner of before means nothing"


def test_a_rollback_brings_back_owners(free: FreeCapacity) -> None:
    fenced = ClaimFit(FENCED, free)
    mark = free.begin_trial()
    release(free, mps(), 0)
    take(free, mps("nlp/bob"), 0)
    assert ClaimFit(mps("nlp/bob"), free).why[0] == FITS
    free.rollback_trial(mark)
    assert ClaimFit(mps(), free).why[0] == FITS
    assert fenced.refresh(free).why[0] == SERVES


def test_a_seat_that_is_held_on_a_card_in_use_leaves_its_owner(free: FreeCapacity) -> None:
    take(free, FENCED, 0)
    assert ClaimFit(mps(), free).why[0] == FITS
    assert ClaimFit(FENCED, free).why[0] == SERVES


def test_owners_follow_what_a_later_snapshot_says(free: FreeCapacity) -> None:
    fit = ClaimFit(mps("nlp/bob"), free)
    free.set_owners({1: "nlp/bob"})
    assert fit.refresh(free).why.tolist() == [NOT_MPS, FITS, FITS]
    assert ClaimFit(FENCED, free).why.tolist() == [FITS, SERVES, FITS]


def test_an_empty_card_of_a_future_instant_is_open_to_all(free: FreeCapacity) -> None:
    now = get_free_columns(free)
    then = build_empty_columns(free)
    for shape, here in ((FENCED, [0, 2, 3]), (mps("nlp/bob"), [0, 0, 3])):
        fit = ClaimFit(shape, free)
        assert count_seats(fit, free, now).tolist() == here
        assert count_seats(fit, free, then).tolist() == [3, 3, 3]


def test_counts_of_nodes_leave_claims_for_mps_out(free: FreeCapacity) -> None:
    # Counts are by amounts alone; a claim for MPS is judged card by card.
    assert RoomyNodeCounts(free).register_shape(mps()) is None
    assert RoomyNodeCounts(free).register_shape(FENCED) == 0


def test_owners_have_the_same_number_at_every_call() -> None:
    owners = CardOwners(pool())
    assert owners.number_owner("") == 0
    assert owners.number_owner("a/b") == owners.number_owner("a/b") != owners.number_owner("a/c")
    assert owners.get_owner(0) == "nlp/alice"
    rows = np.array([0, 1, 2])
    used = cards("3xH200", used={"node-1/1": (1, GIB)})
    changes = owners.list_changes("nlp/alice", rows, used.free_milli, used.free_bytes)
    assert changes == ((2, 0, 1),), "card 0 has the owner, card 1 is in use"
