import numpy as np
import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import Shape, SharingKind
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.native_library import (
    NativeLibrary,
)
from gpupool.scheduling.snapshot.cards import CardStatus, CardTable
from tests.support.scheduling_builders import cards

SHAPES = (
    Shape(300, 4 * GIB),
    Shape(300, None, 2),
    Shape(1000, None, 2, "T4"),
    Shape(500, 8 * GIB, 1, "T4|L40S", (("zone", "a"),), cpu_milli=4000),
    Shape(1000, 2 * GIB, sharing=SharingKind.BEST_EFFORT, host_bytes=GIB),
    Shape(0, 0, 0, cpu_milli=2000),
)


def pool() -> CardTable:
    """Nodes of several widths and models, with closed cards, labels and hosts."""
    return cards(
        "20x4xT4+mixed:T4,L40S+10x8xL40S+5x1xH200",
        status={"node-1/0": CardStatus.DRAINING, "node-2/3": CardStatus.UNHEALTHY},
        labels={f"node-{n}": {"zone": "a"} for n in range(1, 40, 2)},
        hosts=(6_000, 8 * GIB),
    )


@pytest.mark.parametrize("wanted", SHAPES, ids=str)
def test_the_kernel_judges_cards_as_numpy_does_while_they_are_taken_and_given_back(
    kernel: NativeLibrary, wanted: Shape
) -> None:
    compiled, plain = FreeCapacity(pool(), compiled=True), FreeCapacity(pool(), compiled=False)
    ours, theirs = ClaimFit(wanted, compiled), ClaimFit(wanted, plain)
    chance, held = (
        np.random.default_rng(1),
        list[tuple[int, np.ndarray, int, np.ndarray, int, int]](),
    )
    for _ in range(60):
        if held and chance.random() < 0.4:
            note = held.pop(int(chance.integers(len(held))))
            compiled.release_seats(*note)
            plain.release_seats(*note)
        node = int(chance.integers(len(plain.cards.nodes)))
        rows = plain.get_node_rows(node)[:2]
        milli, sizes = int(chance.integers(0, 1 + plain.milli[rows].min())), plain.size[rows] // 3
        held.append((node, rows, milli, sizes, 500, GIB))
        compiled.take_seats(*held[-1])
        plain.take_seats(*held[-1])
        ours.refresh(compiled)
        theirs.refresh(plain)
        assert ours.why.tolist() == theirs.why.tolist()
        assert ours.fitting.tolist() == theirs.fitting.tolist()
        assert ours.roomy.tolist() == theirs.roomy.tolist()
    assert compiled.examined_cards == plain.examined_cards, "as many cards were looked at"
    assert len(set(theirs.why.tolist())) > 1
