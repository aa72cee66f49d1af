"""What the pool could still give, by card and by model."""

from gpupool.base.units import GIB, MIB
from gpupool.scheduling.capacity import Room, largest_placeable, placeable
from gpupool.scheduling.snapshot import CardStatus
from tests.support.scheduling_builders import cards


def test_the_largest_share_of_a_card_is_what_it_has_free_in_whole_mib() -> None:
    milli, size = placeable(cards("2xT4", used={"node-1/0": (300, 5 * GIB - 1)}))
    assert list(zip(milli.tolist(), size.tolist(), strict=True)) == [(700, 10 * GIB), (1000, 15 * GIB)]


def test_a_card_that_is_not_open_gives_nothing() -> None:
    milli, size = placeable(cards("1xT4", status={"node-1/0": CardStatus.DRAINING}))
    assert (milli.tolist(), size.tolist()) == ([0], [0])


def test_a_card_that_is_overcommitted_gives_nothing_rather_than_less() -> None:
    milli, size = placeable(cards("1xT4", used={"node-1/0": (1100, 16 * GIB)}))
    assert (milli.tolist(), size.tolist()) == ([0], [0])


def test_the_room_of_a_model_is_its_best_card_and_its_whole_cards() -> None:
    used = {"node-1/0": (300, GIB), "node-1/1": (1000, GIB), "node-2/0": (200, 2 * GIB), "node-2/1": (200, MIB)}
    assert largest_placeable(cards("1x4xH200+1x2xT4", used=used)) == (
        Room("H200", 1000, 140 * GIB, 2, 4),
        Room("T4", 800, 15 * GIB - MIB, 0, 2),
    )


def test_an_empty_pool_has_no_rooms() -> None:
    assert largest_placeable(cards("")) == ()
