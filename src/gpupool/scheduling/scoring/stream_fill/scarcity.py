"""Prices of what becomes scarce as a pool fills: rare models, and hosts for several whole cards.

A price is the possible loss times the probability of a shortage. A shortage occurs if the claims
that are still to come and can use nothing else want more than there is. The probability is that of
a normal distribution whose mean is the expected demand while the rest of the pool fills
(`compute_shortage_chance`).

Prices are set at the start of a plan and again after a part of the pool changed hands, so that
scores are comparable in between. They depend on what is free at that start and on what the plan did
since. They are rounded, so that most plans reuse the scores of the plan before. See
docs/decisions/0030-the-whole-cycle.md.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from gpupool.base.units import WHOLE
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.scoring.expected_demand import DemandClasses, NodeKinds
from gpupool.scheduling.snapshot.columns import Bools, Ints

#: Prices are set anew when that much of the pool's compute has changed hands; 5 or 10 do nearly as
#: well.
STEP_PCT = 2

#: Where claims end, hosts are kept also for claims that come while that much of the pool is given
#: back (15 to 40 do).
RETURNING_PCT = 25

#: The same where nothing ends: while a pool fills, what fails first are claims to whole hosts.
SPARE_PCT = 4

#: Where claims end, a host that lacks one card for a claim of the most cards counts so many
#: thousandths of a slot, and each further card that it lacks takes as many thousandths of that: the
#: cards in use will come back. 200 and 400 do nearly as well. For claims of fewer cards too, more
#: claims of most cards are lost; then hosts are no longer emptied.
NEAR_SLOT = 300

#: Prices are told apart by so many binary digits: one that moved with every claim would have every
#: node rated anew.
BITS = 6

_TENTH_OF_THOUSANDTHS = 10_000


class ScarcityPrices:
    """Prices of a pool: `toll` per kind of node, `price` per lost slot of a group.

    A toll is in thousandths of a tenth of the requested compute. A group is all large classes of
    one number of cards that the same kinds of nodes take when empty (`allowed`). A slot of a group
    is `count` cards and the mean `host` amount of its classes. Classes that fit on a subset of the
    kinds count in the group as well, because the hosts must suffice for all of them. `near_slot` is
    in thousandths of a slot, per group and number of cards that a host lacks for one more slot.
    """

    def __init__(
        self, free: FreeCapacity, kinds: NodeKinds, classes: DemandClasses, *, ending: bool = False
    ) -> None:
        self._free = free
        self._kinds = kinds
        self._host_free = kinds.resource.get_free(free)
        self._demand = max(1, int((classes.count * classes.milli * classes.weight).sum()))
        self._typed_on, self._typed = _collect_model_demand(classes, kinds)
        self.count, self.host, self._often, self.allowed = _group_large_classes(
            classes.large, kinds
        )
        self.toll = np.zeros(len(kinds), dtype=np.int64)
        self.price = np.zeros(len(self.count), dtype=np.int64)
        self.near_slot = _compute_near_slots(self.count, NEAR_SLOT if ending else 0)
        self._initialize_sums()
        self._read = free.get_cursor()
        self._at = free.moved_milli
        self._moved = 0
        self.epoch = 0
        capacity = WHOLE * int(free.open.sum())
        self._step = max(1, capacity * STEP_PCT // 100)
        self._returning = capacity * (RETURNING_PCT if ending else SPARE_PCT) // 100
        self._set_prices()

    def begin_plan(self) -> None:
        """Set the prices from what is free, independent of earlier plans."""
        self._update_sums()
        self._set_prices()

    def update_epoch(self) -> int:
        """Set prices anew if enough changed hands, and return the epoch.

        The moment depends only on what was taken and released since the last check.
        """
        if self._moved + self._free.moved_milli - self._at >= self._step:
            self._update_sums()
            # Again, because `moved_milli` counts trials that were rolled back, and the sums do not.
            if self._moved >= self._step:
                self._set_prices()
        return self.epoch

    def compute_tolls(self, asked_milli: int) -> Ints:
        """Return what a claim to so much compute pays on each kind of node."""
        tolls: Ints = self.toll * asked_milli // _TENTH_OF_THOUSANDTHS
        return tolls

    def count_slots(self, whole: Ints, host: Ints, kinds: Ints) -> Ints:
        """Return per node and group for how many of its claims the node has room."""
        by_cards = whole[:, None] // self.count
        slots = np.minimum(by_cards, self._count_host_slots(host, by_cards))
        return np.where(self.allowed[:, kinds].T, slots, 0)

    def price_lost_slots(self, nodes: Ints, fewer: Ints, asked: int) -> Ints:
        """Return per node the price of the slots that a claim destroys, in thousandths of
        milli-devices.

        Args:
            nodes: The nodes.
            fewer: Per node, how many free cards the claim takes.
            asked: How much of the host's resource the claim takes.
        """
        kinds = self._kinds.of_node[nodes]
        whole = self._count_whole_cards(nodes)
        host = self._host_free[nodes]
        before = self._measure_slots(whole, host, kinds)
        after = self._measure_slots(np.maximum(whole - fewer, 0), host - asked, kinds)
        lost: Ints = (before - after) @ self.price
        return lost

    def _measure_slots(self, whole: Ints, host: Ints, kinds: Ints) -> Ints:
        """Return slots in thousandths, with a part for a host that lacks only some cards for one
        more.
        """
        by_cards = whole[:, None] // self.count
        near = self.near_slot[np.arange(len(self.count)), -whole[:, None] % self.count]
        there = self.allowed[:, kinds].T & (self._count_host_slots(host, by_cards + 1) > by_cards)
        return 1000 * self.count_slots(whole, host, kinds) + np.where(there, near, 0)

    def _count_host_slots(self, host: Ints, otherwise: Ints) -> Ints:
        """Return per node and group for how many slots the host's resource suffices.

        `otherwise` is returned where the group asks for none of it.
        """
        return np.where(self.host > 0, host[:, None] // np.maximum(self.host, 1), otherwise)

    def _count_whole_cards(self, nodes: Ints | slice = slice(None)) -> Ints:
        whole: Ints = (self._free.cells[nodes] >= WHOLE).sum(axis=1)
        return whole

    def _initialize_sums(self) -> None:
        """Compute per node its free compute and slots, and the sums that `_update_sums` maintains."""
        kinds = self._kinds.of_node
        self._left = np.maximum(self._free.cells, 0).sum(axis=1)
        self._left_by_kind = np.zeros(len(self._kinds), dtype=np.int64)
        np.add.at(self._left_by_kind, kinds, self._left)
        self._slots = self.count_slots(self._count_whole_cards(), self._host_free, kinds)
        self._there = self._slots.sum(axis=0)

    def _update_sums(self) -> None:
        free = self._free
        nodes = self._free.list_changed_nodes(self._read)
        self._read = free.get_cursor()
        self._at = free.moved_milli
        if not len(nodes):
            return
        kinds = self._kinds.of_node[nodes]
        left = np.maximum(free.cells[nodes], 0).sum(axis=1)
        more = left - self._left[nodes]
        self._moved += int(np.abs(more).sum())
        np.add.at(self._left_by_kind, kinds, more)
        self._left[nodes] = left
        if len(self.count):
            slots = self.count_slots(self._count_whole_cards(nodes), self._host_free[nodes], kinds)
            self._there += (slots - self._slots[nodes]).sum(axis=0)
            self._slots[nodes] = slots

    def _set_prices(self) -> None:
        """Set tolls and prices; increase the epoch only if one of them changes."""
        self._moved = 0
        all_left = int(self._left_by_kind.sum())
        # How often the whole expected mix arrives until what is free is full.
        coming = all_left / self._demand
        longer = (all_left + self._returning) / self._demand
        price = np.zeros_like(self.price)
        toll = np.zeros(len(self.toll))
        for group, (often, slots) in enumerate(
            zip(self._often.tolist(), self._there.tolist(), strict=True)
        ):
            # Arrivals are a Poisson number: its variance is its mean. Less a half, because slots
            # are whole and the normal distribution is not (continuity correction).
            short = compute_shortage_chance(often * longer, often * longer, slots - 0.5)
            # What is at stake is the compute of one claim of the group. Stake times chance is the
            # bid price of network revenue management.
            most = WHOLE * int(self.count[group])
            price[group] = min(most, round_price(round(most * short)))
        for kinds, (demand, square) in zip(self._typed_on, self._typed, strict=True):
            left = float(self._left_by_kind[kinds].sum())
            # A compound Poisson sum: with c claims expected of each size g, its mean is the sum of
            # c g and its variance the sum of c g^2.
            toll[kinds] += compute_shortage_chance(demand * coming, square * coming, left)
        tolls = np.zeros_like(self.toll)
        for kind, one in enumerate(toll.tolist()):
            # Chances of overlapping sets of models add up; no claim pays more than one tenth.
            tolls[kind] = min(WHOLE, round_price(round(WHOLE * min(one, 1.0))))
        # The same prices are the same epoch: otherwise every node would be rated again for nothing.
        if self.epoch and np.array_equal(price, self.price) and np.array_equal(tolls, self.toll):
            return
        self.epoch += 1
        # In place: the library holds the addresses of both columns.
        self.price[:] = price
        self.toll[:] = tolls


def round_price(price: int) -> int:
    """Round a price to BITS binary digits.

    >>> round_price(0), round_price(13), round_price(1000), round_price(8000)
    (0, 13, 1008, 8064)
    """
    dropped = max(0, price.bit_length() - BITS)
    return (price + (1 << dropped >> 1)) >> dropped << dropped


def compute_shortage_chance(mean: float, variance: float, there: float) -> float:
    """Return the probability that the demand is at least `there`, by the normal distribution.

    P(X >= t) = erfc((t - mean) / sqrt(2 variance)) / 2; 0 if nothing is expected.

    >>> compute_shortage_chance(9.0, 9.0, 9.0), round(compute_shortage_chance(9.0, 9.0, 12.0), 3)
    (0.5, 0.159)
    >>> compute_shortage_chance(0.0, 0.0, 0.0)
    0.0
    """
    return 0.5 * math.erfc((there - mean) / math.sqrt(2 * variance)) if variance > 0 else 0.0


def _compute_near_slots(count: Ints, nearness: int) -> Ints:
    """Return per group and number of lacking cards a part of a slot, in thousandths.

    Only the group with most cards has such parts.
    """
    most = int(count.max(initial=0))
    table = np.zeros((len(count), most + 1), dtype=np.int64)
    thousandths = 1000
    for lacks in range(1, most):
        thousandths = thousandths * nearness // 1000
        table[count == most, lacks] = thousandths
    return table


def _collect_model_demand(
    classes: DemandClasses, kinds: NodeKinds
) -> tuple[list[Bools], list[tuple[int, int]]]:
    """Return the sets of kinds to which models bind classes, with the demand inside each set.

    The demand is a pair in milli-devices: the sum, and the sum of squares. The sum of independent
    single claims has a variance of the sum of their squares.
    """
    sums: dict[tuple[bool, ...], tuple[int, int]] = defaultdict(lambda: (0, 0))
    columns = (classes.milli * classes.count, classes.weight, kinds.find_allowed(classes.models))
    for milli, weight, on in zip(*(column.tolist() for column in columns), strict=True):
        if milli and any(on) and not all(on):
            # A class that may run on every kind pays no toll and makes none dear: it is left out.
            demand, square = sums[tuple(on)]
            sums[tuple(on)] = demand + milli * weight, square + milli * milli * weight
    inside = []
    for outer in sums:
        demand = 0
        square = 0
        # Hall's condition: the nodes of a set must suffice for all classes that have no other
        # nodes, so demand of every subset counts in the wider set.
        for inner, (its_demand, its_square) in sums.items():
            if _is_subset(inner, outer):
                demand += its_demand
                square += its_square
        inside.append((demand, square))
    return [np.array(on) for on in sums], inside


def _group_large_classes(large: DemandClasses, kinds: NodeKinds) -> tuple[Ints, Ints, Ints, Bools]:
    """Return per group cards, mean host amount, frequency, and allowed kinds.

    The frequency includes classes that fit on a subset of the kinds.
    """
    found: dict[tuple[int, tuple[bool, ...]], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for count, host, weight, on in zip(
        large.count.tolist(),
        large.host.tolist(),
        large.weight.tolist(),
        kinds.find_hosts(large).tolist(),
        strict=True,
    ):
        if any(on) and weight > 0:
            often, total = found[count, tuple(on)]
            found[count, tuple(on)] = often + weight, total + weight * host
    own = {group: times for group, (times, _) in found.items()}
    numbers = list[tuple[int, int, int]]()
    allowed = list[tuple[bool, ...]]()
    for group, (times, total) in found.items():
        count, on = group
        numbers.append((count, total // times, _count_claims_within(group, own)))
        allowed.append(on)
    cards, mean, within = np.array(numbers, dtype=np.int64).reshape(-1, 3).T.copy()
    return cards, mean, within, np.array(allowed, dtype=np.bool_).reshape(len(found), len(kinds))


def _count_claims_within(
    group: tuple[int, tuple[bool, ...]], own: Mapping[tuple[int, tuple[bool, ...]], int]
) -> int:
    """Return how often claims of the group's size arrive that must run on its hosts."""
    count, on = group
    return sum(often for (size, its), often in own.items() if size == count and _is_subset(its, on))


def _is_subset(inner: Sequence[bool], outer: Sequence[bool]) -> bool:
    return all(there or not here for here, there in zip(inner, outer, strict=True))
