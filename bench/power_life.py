"""What a pool draws and costs while it fills and while claims come and go, by policy.

Power is that of `scheduling.scoring.cost_terms.power_term`, the price that of the nodes in use. The nodes of
the trace have no price; each gets that of its cards, from a public cloud's list of November 2024
(on demand, per card and hour; G2 and G3 are not disclosed and count as A10G and A100).
"""

import statistics
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from bench import churn
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.cost_terms.power_term import PowerTerm
from gpupool.scheduling.scoring.cost_terms.price_term import LABEL, MICRO, PriceTerm
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.simulation.replay.foreknowledge import ONLINE, Foreknowledge
from gpupool.simulation.replay.protocol import count_pods, draw_arrivals
from gpupool.simulation.replay.seat_chooser import SeatChooser
from gpupool.simulation.traces.openb import PodList

PER_CARD_HOUR = {
    "T4": 0.35,
    "P100": 1.46,
    "V100M16": 2.48,
    "V100M32": 2.48,
    "A10": 1.01,
    "G2": 1.01,
    "G3": 2.93,
}


#: Mean lifetimes of a claim between two looks at the pool.
EVERY = 0.01


@dataclass(frozen=True)
class Drawn:
    """The pool at one instant, or its mean over time."""

    allocation_pct: float
    watts: float
    price_per_hour: float


def with_prices(cards: CardTable) -> CardTable:
    """The nodes with what they cost as labels."""
    counts = np.bincount(cards.node, minlength=len(cards.nodes))
    first = np.searchsorted(cards.node, np.arange(len(cards.nodes)))
    models = [cards.models[cards.model[row]] for row in first]
    prices = [
        PER_CARD_HOUR[model] * int(count) for model, count in zip(models, counts, strict=True)
    ]
    return replace(cards, node_labels=tuple({LABEL: f"{price:.2f}"} for price in prices))


def filling(
    cards: CardTable,
    pods: PodList,
    policy: str,
    seed: int,
    levels: tuple[int, ...],
    knowledge: str = ONLINE,
) -> dict[int, Drawn]:
    """The pool when so many percent of its compute have been asked for, by the protocol of the FGD
    paper."""
    chance = Random(seed)
    order = list(range(len(cards.nodes)))
    chance.shuffle(order)
    free = FreeCapacity(cards, np.array(order, dtype=np.int64))
    capacity = int(free.milli.sum())
    arriving = draw_arrivals(pods, capacity, chance)
    known = Foreknowledge(knowledge, count_pods(pods), capacity)
    chooser = SeatChooser(policy, free, pods.shapes, seed)
    gauge, found, asked, used = _Gauge(free), dict[int, Drawn](), 0, 0
    for number in arriving:
        shape = pods.shapes[number]
        asked += shape.held_milli * shape.count
        known.note_arrival(shape)
        chooser.set_expected(known.expected_demand)
        seat = chooser.choose_seat(number)
        if seat is not None:
            chooser.take_seat(number, seat)
            known.note_start(shape)
            used += shape.held_milli * shape.count
        for level in levels:
            if level not in found and 100 * asked >= level * capacity:
                found[level] = Drawn(100 * used / capacity, gauge.watts(), gauge.price())
    return found


def living(
    cards: CardTable, pods: PodList, policy: str, load: float, seed: int, knowledge: str = ONLINE
) -> Drawn:
    """The mean over time of a pool in which claims come and go, read every so often."""
    seen: list[tuple[int, float]] = []
    since = EVERY

    def watch(free: FreeCapacity, span: float) -> None:
        nonlocal since
        since += span
        if since >= EVERY:
            gauge = _Gauge(free)
            seen.append((gauge.watts(), gauge.price()))
            since = 0.0

    life = churn.live(cards, pods, policy, load, seed, knowledge, watch)
    watts, prices = zip(*seen, strict=True)
    return Drawn(life.allocation_pct, statistics.fmean(watts), statistics.fmean(prices))


class _Gauge:
    def __init__(self, free: FreeCapacity) -> None:
        self._power = PowerTerm(free)
        self._price = PriceTerm(free)

    def watts(self) -> int:
        return self._power.compute_pool_watts()

    def price(self) -> float:
        return self._price.compute_pool_price() / MICRO
