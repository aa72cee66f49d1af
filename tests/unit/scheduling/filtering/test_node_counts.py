"""Counted for many shapes at once is what each shape's fit says, whatever changes; in NumPy and
compiled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import CardSelector, Shape, SharingKind
from gpupool.scheduling.filtering import native_library
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.node_counts import RoomyNodeCounts
from gpupool.scheduling.snapshot.cards import CardStatus, CardTable
from tests.support.scheduling_builders import cards


@pytest.fixture(params=["numpy", "compiled"], autouse=True)
def library(request: pytest.FixtureRequest, kernel_library: Path) -> Iterator[None]:
    before = native_library.get_native_library_path()
    native_library.adopt_native_library(kernel_library if request.param == "compiled" else None)
    yield
    native_library.adopt_native_library(before)


def pool() -> CardTable:
    """Nodes of several kinds; one drains, one has a label, processors differ."""
    status = {"node-2/0": CardStatus.DRAINING, "node-5/1": CardStatus.UNHEALTHY}
    made = cards(
        "3x8xH200+4x2xT4+mixed:T4,L40S",
        status=status,
        labels={"node-4": {"zone": "a"}},
        hosts=(32_000, GIB),
    )
    assert made.hosts is not None
    return made


def shape(chance: Random) -> Shape:
    milli = chance.choice((100, 250, 500, 999, WHOLE, WHOLE))
    return Shape(
        milli,
        chance.choice((None, 0, GIB, 14 * GIB, 60 * GIB, 300 * GIB)),
        chance.choice((1, 1, 1, 2, 4, 8)),
        chance.choice((None, None, "T4", "H200|L40S", "A100")),
        chance.choice(((), (("zone", "a"),))) if chance.random() < 0.3 else (),
        chance.choice((SharingKind.FIXED, SharingKind.FIXED, SharingKind.BEST_EFFORT))
        if milli < WHOLE
        else SharingKind.FIXED,
        cpu_milli=chance.choice((0, 4_000, 40_000)),
        host_bytes=chance.choice((0, GIB // 4)),
        memory_milli=chance.choice((None, 300)),
        selector=CardSelector(not_models=("T4",)) if chance.random() < 0.1 else CardSelector(),
    )


def change(free: FreeCapacity, chance: Random) -> None:
    """A claim of any kind takes or gives back on a node, also more than there is."""
    node = chance.randrange(len(free.cards.nodes))
    rows = free.get_node_rows(node)
    rows = rows[: chance.randint(1, len(rows))]
    act = chance.choice((free.take_seats, free.take_seats, free.release_seats))
    sizes = np.full(len(rows), chance.choice((GIB, 7 * GIB)), dtype=np.int64)
    act(
        node,
        rows,
        chance.choice((100, 500, WHOLE)),
        sizes,
        chance.choice((0, 9_000)),
        chance.choice((0, GIB // 3)),
    )


@pytest.mark.parametrize("seed", range(8))
def test_shapes_have_room_on_as_many_nodes_as_their_fits_say(seed: int) -> None:
    chance = Random(seed)
    free = FreeCapacity(pool())
    rooms, shapes = RoomyNodeCounts(free), list[Shape]()
    for _ in range(12):
        shapes += [shape(chance) for _ in range(chance.randint(0, 40))]
        numbers = [rooms.register_shape(one) for one in shapes]
        found = rooms.count_nodes()
        counts = [int(np.count_nonzero(ClaimFit(one, free).roomy)) for one in shapes]
        assert [int(found[number]) for number in numbers if number is not None] == counts
        mark = free.begin_trial()
        for _ in range(chance.randint(0, 6)):
            change(free, chance)
        if chance.random() < 0.5:
            free.rollback_trial(mark)
        else:
            free.commit_trial(mark)


def test_shapes_of_one_kind_could_use_the_same_cards() -> None:
    chance, free = Random(1), FreeCapacity(pool())
    rooms = RoomyNodeCounts(free)
    seen: dict[object, bytes] = {}
    for _ in range(300):
        one = replace(shape(chance), labels=())
        possible = ClaimFit(one, free).possible.tobytes()
        assert seen.setdefault(rooms.get_shape_group(one), possible) == possible


def test_partitions_are_not_counted() -> None:
    assert (
        RoomyNodeCounts(FreeCapacity(pool())).register_shape(Shape(142, None, profile="1g.18gb"))
        is None
    )
