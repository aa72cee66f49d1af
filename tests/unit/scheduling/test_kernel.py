from pathlib import Path

import numpy as np
import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import Shape, Sharing
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.kernel import MAX_CARDS, Kernel, adopt, adopted
from gpupool.scheduling.snapshot import Cards, CardStatus
from tests.support.scheduling_builders import cards

SHAPES = (
    Shape(300, 4 * GIB),
    Shape(300, None, 2),
    Shape(1000, None, 2, "T4"),
    Shape(500, 8 * GIB, 1, "T4|L40S", (("zone", "a"),), cpu_milli=4000),
    Shape(1000, 2 * GIB, sharing=Sharing.BEST_EFFORT, host_bytes=GIB),
    Shape(0, 0, 0, cpu_milli=2000),
)


def pool() -> Cards:
    """Nodes of several widths and models, with closed cards, labels and hosts."""
    return cards(
        "20x4xT4+mixed:T4,L40S+10x8xL40S+5x1xH200",
        status={"node-1/0": CardStatus.DRAINING, "node-2/3": CardStatus.UNHEALTHY},
        labels={f"node-{n}": {"zone": "a"} for n in range(1, 40, 2)},
        hosts=(6_000, 8 * GIB),
    )


@pytest.mark.parametrize("wanted", SHAPES, ids=str)
def test_the_kernel_judges_cards_as_numpy_does_while_they_are_taken_and_given_back(
    kernel: Kernel, wanted: Shape
) -> None:
    compiled, plain = Free(pool(), compiled=True), Free(pool(), compiled=False)
    ours, theirs = Fit(wanted, compiled), Fit(wanted, plain)
    chance, held = np.random.default_rng(1), list[tuple[int, np.ndarray, int, np.ndarray, int, int]]()
    for _ in range(60):
        if held and chance.random() < 0.4:
            note = held.pop(int(chance.integers(len(held))))
            compiled.give(*note)
            plain.give(*note)
        node = int(chance.integers(len(plain.cards.nodes)))
        rows = plain.of_node(node)[:2]
        milli, sizes = int(chance.integers(0, 1 + plain.milli[rows].min())), plain.size[rows] // 3
        held.append((node, rows, milli, sizes, 500, GIB))
        compiled.take(*held[-1])
        plain.take(*held[-1])
        ours.refresh(compiled)
        theirs.refresh(plain)
        assert ours.why.tolist() == theirs.why.tolist()
        assert ours.fitting.tolist() == theirs.fitting.tolist()
        assert ours.roomy.tolist() == theirs.roomy.tolist()
    assert compiled.rows == plain.rows, "as many cards were looked at"
    assert len(set(theirs.why.tolist())) > 1


def test_a_pool_that_is_too_wide_or_empty_is_left_to_numpy(kernel: Kernel) -> None:
    assert Free(cards(f"2x{MAX_CARDS}xT4")).kernel is kernel
    assert Free(cards(f"1x{MAX_CARDS + 1}xT4")).kernel is None
    assert Free(cards("")).kernel is None
    with pytest.raises(LookupError, match="not for it"):
        Free(cards(""), compiled=True)


def test_numpy_is_used_where_no_library_was_adopted(kernel: Kernel, tmp_path: Path) -> None:
    path = adopted()
    assert path is not None
    assert not adopt(tmp_path / "none.so")
    assert adopted() is None
    assert Free(cards("1x1xT4")).kernel is None
    with pytest.raises(LookupError, match="none was adopted"):
        Free(cards("1x1xT4"), compiled=True)
    assert adopt(path)
    assert Free(cards("1x1xT4")).kernel is not None


def test_the_places_are_the_free_columns_themselves(kernel: Kernel) -> None:
    free = Free(cards("2x2xT4"), compiled=True)
    places = free.places
    free.take(1, free.of_node(1)[:1], 300, np.array([GIB]))
    assert places.grid.tolist() == [[1000, 1000], [700, 1000]]
    assert places.rows.tolist() == [[0, 1], [2, 3]]
    assert places.cards.tolist() == [2, 2]
