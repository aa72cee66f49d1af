import numpy as np
import pytest

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.native_library import NativeLibrary
from gpupool.scheduling.scoring.host_resource import MAIN_MEMORY
from gpupool.scheduling.scoring.stream_fill.model import (
    StreamFillModel,
)
from gpupool.scheduling.scoring.stream_fill.policy import start_rater
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from tests.support.scheduling_builders import cards

SIZES = {
    "few": (190, 300, 500, 810, 1000),
    "many": tuple(range(70, 980, 50)),
    "odd": tuple(range(31, 1000, 13)),
}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("returned_pct", [0, 100])
@pytest.mark.parametrize("host_gib", [1, 64], ids=["processors", "memory"])
def test_the_kernel_scores_and_chooses_as_numpy_does(
    kernel: NativeLibrary, returned_pct: int, sizes: str, host_gib: int
) -> None:
    host = host_gib * GIB // 256
    shapes = (
        *(
            Shape(milli, 0, cpu_milli=milli * 4, host_bytes=milli * host // 4)
            for milli in SIZES[sizes]
        ),
        *(
            Shape(1000, 0, count, cpu_milli=count * 3000, host_bytes=250 * count * host)
            for count in (2, 4)
        ),
        *(
            Shape(500, 0, model="L40S"),
            Shape(300, 0, 2),
            Shape(0, 0, 0, cpu_milli=2000, host_bytes=90 * host),
        ),
    )
    pool = cards("6x4xT4+4x8xL40S+mixed:T4,L40S", hosts=(20_000, 256 * GIB))
    expected = ExpectedDemand(shapes, tuple(range(1, 2 * len(shapes), 2)), returned_pct)
    frees = [FreeCapacity(pool, compiled=compiled) for compiled in (True, False)]
    look = StreamFillModel.choose(frees[0], expected)
    assert look.near == (returned_pct == 100 or (sizes != "few" and not look.short))
    assert (look.resource is MAIN_MEMORY) == (host_gib == 64 and not look.near)
    raters = [start_rater(free, expected, 0) for free in frees]
    chance, held = (
        np.random.default_rng(7),
        list[tuple[int, np.ndarray, int, np.ndarray, int, int]](),
    )
    for _ in range(120):
        shape = shapes[chance.integers(len(shapes))]
        fits = [ClaimFit(shape, free) for free in frees]
        nodes = np.flatnonzero(fits[0].roomy)
        epochs = [rater.epoch for rater in raters]
        scores = [
            rater.rate_nodes(fit, nodes).tolist() for rater, fit in zip(raters, fits, strict=True)
        ]
        assert (epochs[0], scores[0]) == (epochs[1], scores[1])
        if len(nodes) == 0 or (held and chance.random() < 0.3):
            note = held.pop(int(chance.integers(len(held))))
            for free in frees:
                free.release_seats(*note)
            continue
        node = int(nodes[np.argmax(scores[0])])
        chosen = [rater.order_cards(fit, node) for rater, fit in zip(raters, fits, strict=True)]
        assert chosen[0].tolist() == chosen[1].tolist()
        rows = chosen[0][: shape.count]
        none = np.zeros(len(rows), dtype=np.int64)
        held.append((node, rows, shape.held_milli, none, shape.cpu_milli, shape.host_bytes))
        for free in frees:
            free.take_seats(*held[-1])
    assert raters[0].epoch > 5
