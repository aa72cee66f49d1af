"""What a pool draws and costs while it fills and while claims come and go, by policy.

Power is that of `scheduling.term_power`, the price that of the nodes in use. The nodes of the trace have no price; each
gets that of its cards, from a public cloud's list of November 2024 (on demand, per card and hour; G2 and G3 are not
disclosed and count as A10G and A100).
"""

import statistics
from dataclasses import dataclass, replace
from random import Random

import numpy as np

from bench import churn
from gpupool.scheduling.free import Free
from gpupool.scheduling.snapshot import Cards
from gpupool.scheduling.term_power import PowerTerm
from gpupool.scheduling.term_price import LABEL, MICRO, PriceTerm
from gpupool.simulation.choosing import Chooser
from gpupool.simulation.foreknowledge import ONLINE, Foreknowledge
from gpupool.simulation.openb import Pods
from gpupool.simulation.protocol import arrivals, expected_of

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


def with_prices(cards: Cards) -> Cards:
    """The nodes with what they cost as labels."""
    counts = np.bincount(cards.node, minlength=len(cards.nodes))
    first = np.searchsorted(cards.node, np.arange(len(cards.nodes)))
    models = [cards.models[cards.model[row]] for row in first]
    prices = [PER_CARD_HOUR[model] * int(count) for model, count in zip(models, counts, strict=True)]
    return replace(cards, node_labels=tuple({LABEL: f"{price:.2f}"} for price in prices))


def filling(
    cards: Cards, pods: Pods, policy: str, seed: int, levels: tuple[int, ...], knowledge: str = ONLINE
) -> dict[int, Drawn]:
    """The pool when so many percent of its compute have been asked for, by the protocol of the FGD paper."""
    chance = Random(seed)
    order = list(range(len(cards.nodes)))
    chance.shuffle(order)
    free = Free(cards, np.array(order, dtype=np.int64))
    capacity = int(free.milli.sum())
    arriving = arrivals(pods, capacity, chance)
    known = Foreknowledge(knowledge, expected_of(pods), capacity)
    chooser = Chooser(policy, free, pods.shapes, seed)
    gauge, found, asked, used = _Gauge(free), dict[int, Drawn](), 0, 0
    for number in arriving:
        shape = pods.shapes[number]
        asked += shape.held_milli * shape.count
        known.claim_came(shape)
        chooser.expect(known.expected)
        seat = chooser.choose(number)
        if seat is not None:
            chooser.take(number, seat)
            known.claim_started(shape)
            used += shape.held_milli * shape.count
        for level in levels:
            if level not in found and 100 * asked >= level * capacity:
                found[level] = Drawn(100 * used / capacity, gauge.watts(), gauge.price())
    return found


def living(cards: Cards, pods: Pods, policy: str, load: float, seed: int, knowledge: str = ONLINE) -> Drawn:
    """The mean over time of a pool in which claims come and go, read every so often."""
    seen: list[tuple[int, float]] = []
    since = EVERY

    def watch(free: Free, span: float) -> None:
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
    def __init__(self, free: Free) -> None:
        self._power = PowerTerm(free)
        self._price = PriceTerm(free)

    def watts(self) -> int:
        return self._power.of_pool()

    def price(self) -> float:
        return self._price.of_pool() / MICRO
