from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.host_resource import MAIN_MEMORY, PROCESSORS
from gpupool.scheduling.scoring.stream_fill.model import (
    FINE_STEP_BELOW,
    SCATTERED_STEP,
    STEP,
    StreamFillModel,
)
from gpupool.scheduling.snapshot.claims import ExpectedDemand
from tests.support.scheduling_builders import cards


def test_processors_count_where_they_are_scarcer_and_where_claims_end() -> None:
    pool = cards("2x2xT4", hosts=(100_000, 64 * GIB))
    free = FreeCapacity(pool, compiled=False)
    for asked, returned_pct, resource in [
        (Shape(1000, 0, cpu_milli=50_000, host_bytes=GIB), 0, PROCESSORS),
        (Shape(1000, 0, cpu_milli=1_000, host_bytes=32 * GIB), 0, MAIN_MEMORY),
        (Shape(1000, 0, cpu_milli=1_000, host_bytes=32 * GIB), 100, PROCESSORS),
    ]:
        assert (
            StreamFillModel.choose(free, ExpectedDemand((asked,), (1,), returned_pct)).resource
            is resource
        )
    unknown = FreeCapacity(cards("2x2xT4"), compiled=False)
    assert (
        StreamFillModel.choose(
            unknown, ExpectedDemand((Shape(1000, 0, host_bytes=GIB),), (1,), 0)
        ).resource
        is PROCESSORS
    )


def test_many_sizes_alike_are_rated_by_the_next_claim_also_while_a_pool_fills() -> None:
    free = FreeCapacity(cards("2x2xT4"), compiled=False)
    many = tuple(Shape(size, 0) for size in range(50, 1000, 50))
    look = StreamFillModel.choose(free, ExpectedDemand(many, (1,) * len(many), 0))
    assert (look.near, look.ending, look.step) == (True, False, SCATTERED_STEP)
    few = many[::4]
    assert not StreamFillModel.choose(free, ExpectedDemand(few, (1,) * len(few), 0)).near


def test_where_hosts_are_gone_before_cards_streams_see_them_and_cuts_count_nothing() -> None:
    """A half of a card beside a host that is used up is worth nothing, however well it was cut."""
    many = range(50, 1000, 50)
    for host_gib, short in [(1, False), (40, True)]:
        free = FreeCapacity(cards("2x2xT4", hosts=(100_000, 64 * GIB)), compiled=False)
        shapes = tuple(
            Shape(size, 0, cpu_milli=size, host_bytes=host_gib * size * GIB // 1000)
            for size in many
        )
        look = StreamFillModel.choose(free, ExpectedDemand(shapes, (1,) * len(shapes), 0))
        assert (look.scattered, look.short, look.near) == (True, short, not short)
        assert look.resource is (MAIN_MEMORY if short else PROCESSORS)
        assert look.build_part_values(look.build_kinds(free)).worth.any() == (not short)
        assert not StreamFillModel.choose(
            free, ExpectedDemand(shapes, (1,) * len(shapes), 100)
        ).short


def test_small_shares_are_told_apart_in_finer_steps() -> None:
    free = FreeCapacity(cards("2x2xT4"), compiled=False)
    steps = []
    for sizes in [(500,), (600, 810), (60, 120), (10,), ()]:
        shapes = (Shape(1000, 0), *(Shape(size, 0) for size in sizes))
        steps.append(
            StreamFillModel.choose(free, ExpectedDemand(shapes, (1,) * len(shapes), 0)).step
        )
    assert steps == [STEP, STEP, STEP * 90**2 // FINE_STEP_BELOW**2, 1, STEP]


def test_steps_are_as_they_were_where_memory_of_cards_counts() -> None:
    free = FreeCapacity(cards("2x2xT4"), compiled=False)
    served = Shape(100, 8 * GIB)
    look = StreamFillModel.choose(free, ExpectedDemand((served,), (1,), 0))
    assert len(look.likely.memory)
    assert look.step == STEP
