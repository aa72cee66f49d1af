import numpy as np

from gpupool.base.units import GIB
from gpupool.model.claim import Shape
from gpupool.scheduling.expected import Kinds, histogram
from gpupool.scheduling.free import Free
from gpupool.scheduling.prices import Prices
from gpupool.scheduling.snapshot import Expected
from tests.support.scheduling_builders import cards

FOUR, ONE = Shape(1000, 0, 4, cpu_milli=8000), Shape(1000, 0, cpu_milli=1000)


def prices(free: Free, *shapes: Shape, counts: tuple[int, ...]) -> Prices:
    return Prices(free, Kinds(free.cards), histogram(Expected(shapes, counts)))


def take(free: Free, node: int, places: int) -> None:
    rows = free.of_node(node)[:places]
    free.take(node, rows, 1000, np.zeros(places, dtype=np.int64), 1000 * places)


def test_hosts_cost_nothing_while_they_go_no_faster_than_the_rest() -> None:
    free = Free(cards("4x4xT4", hosts=(16_000, GIB)))
    of = prices(free, FOUR, ONE, counts=(1, 12))
    assert (of.count.tolist(), of.cpu.tolist(), of.price.tolist()) == ([4], [8000], [0])
    take(free, 0, 4)
    assert of.watch() == 2
    assert of.price.tolist() == [0]  # a quarter of the cards and a quarter of the hosts


def test_hosts_become_dear_when_they_go_faster_and_cheap_again() -> None:
    free = Free(cards("4x4xT4", hosts=(16_000, GIB)))
    of = prices(free, FOUR, ONE, counts=(1, 12))
    for node in (0, 1, 2):
        take(free, node, 1)
    of.watch()
    # Expected while 13000 fill: 13 x 1/16 = 0.8125 claims of four, and one host has room: x = 0.8125. In the empty
    # pool x = 16/16 claims / 4 hosts = 0.25, so y = (0.8125 - 0.25) / (1.0001 - 0.25) and the price is 4000 y^2.
    assert of.price.tolist() == [int(4000 * ((0.8125 - 0.25) / (1.0001 - 0.25)) ** 2)]
    lost = of.lost(np.arange(4), 1, 0)
    assert lost.tolist() == [0, 0, 0, of.price[0]]
    assert of.lost(np.array([3]), 0, 9000).tolist() == [of.price[0]]  # processors for none are left
    for node in (0, 1, 2):
        free.give(node, free.of_node(node)[:1], 1000, np.zeros(1, dtype=np.int64), 1000)
    of.watch()
    assert of.price.tolist() == [0]


def test_prices_stay_while_little_has_changed_hands() -> None:
    free = Free(cards("50x2xT4"))
    of = prices(free, FOUR, ONE, counts=(1, 12))
    free.take(0, free.of_node(0)[:1], 500, np.zeros(1, dtype=np.int64))
    free.take(1, free.of_node(1)[:1], 1000, np.zeros(1, dtype=np.int64))
    assert of.watch() == 1  # 1500 of 100 000
    free.take(2, free.of_node(2)[:1], 500, np.zeros(1, dtype=np.int64))
    assert of.watch() == 2


def test_a_rare_model_is_wanted_by_those_who_can_use_no_other() -> None:
    free = Free(cards("3x1xT4+1x1xH200"))
    typed = Shape(500, 0, model="H200")
    of = prices(free, typed, Shape(500, 0), counts=(1, 3))
    # A quarter of the demand is for H200, 1000 of 4000 as it fills, and 1000 is there.
    assert of.toll.tolist() == [0, 1000]
    assert prices(free, typed, Shape(500, 0), counts=(1, 7)).toll.tolist() == [0, 500]
    assert prices(free, typed, Shape(500, 0), counts=(7, 1)).toll.tolist() == [0, 1000]
    assert prices(free, Shape(500, 0, model="T4|H200"), Shape(500, 0), counts=(1, 1)).toll.tolist() == [500, 500]
