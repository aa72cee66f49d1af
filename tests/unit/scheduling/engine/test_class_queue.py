"""Turns of many classes: the order is that of the ranks, and a turn looks at what changed."""

from __future__ import annotations

from random import Random

import pytest

from gpupool.scheduling.engine.class_queue import ClassQueue
from gpupool.scheduling.quota.queue_order import NO_TURN, Rank, rank
from gpupool.scheduling.snapshot.claims import WaitingClass
from tests.support.scheduling_builders import waiting

TENANTS = ("a", "b", "c")


class Pool:
    """What classes are asked for, by chance; what a tenant holds only grows while turns are
    taken."""

    def __init__(self, seed: int, classes: int = 40) -> None:
        chance = Random(seed)
        self.held = dict.fromkeys(TENANTS, 0)
        self.waiting = [self._class(n, chance) for n in range(classes)]
        self.guaranteed = {name: chance.randint(0, 30) for name in TENANTS}
        named = [one.job_ids[0] for one in self.waiting if one.job_ids]
        self.owed = {head: chance.randint(0, 3) for head in named if chance.random() < 0.1}
        self.looks = 0

    @staticmethod
    def _class(n: int, chance: Random) -> WaitingClass:
        heads = tuple(f"j{chance.randint(10, 99)}.{n}.{k}" for k in range(chance.randint(0, 3)))
        ages = tuple(chance.randint(0, 5) for _ in heads)
        return waiting(
            *heads, tenant=chance.choice(TENANTS), priority=chance.randint(0, 2), ages=ages
        )

    def stands(self, i: int) -> tuple[int, ...]:
        self.looks += 1
        return (self.held[self.waiting[i].tenant],)

    def borrows(self, i: int) -> bool:
        return self.held[self.waiting[i].tenant] >= self.guaranteed[self.waiting[i].tenant]

    def place(self, i: int, head: int) -> int:
        return self.owed.get(self.waiting[i].job_ids[head], NO_TURN)

    def queue(self) -> ClassQueue:
        return ClassQueue(self.waiting, self.borrows, self.stands, self.place)

    def rank(self, i: int, head: int) -> Rank:
        return rank(self.waiting[i], head, self.borrows(i), self.stands(i), self.place(i, head))


@pytest.mark.parametrize("seed", range(20))
def test_turns_go_by_rank_whatever_is_taken_in_between(seed: int) -> None:
    pool, chance = Pool(seed), Random(seed)
    queue, left = pool.queue(), {i: 0 for i, one in enumerate(pool.waiting) if one.job_ids}
    while left:
        first = min(left, key=lambda i: pool.rank(i, left[i]))
        assert queue.take_next() == (first, left[first])
        head = left.pop(first)
        if chance.random() < 0.7:
            pool.held[pool.waiting[first].tenant] += chance.randint(0, 4)
            queue.put_back(first, head + 1)
            if head + 1 < len(pool.waiting[first].job_ids):
                left[first] = head + 1
    assert queue.take_next() is None


def test_a_turn_of_one_of_a_thousand_classes_looks_at_a_few() -> None:
    pool = Pool(1)
    pool.waiting = [waiting(f"a-{n:04}", f"b-{n:04}", tenant="a", at=n) for n in range(1000)]
    pool.guaranteed["a"] = 1000
    queue = pool.queue()
    pool.looks = 0
    for _ in range(100):
        turn = queue.take_next()
        assert turn is not None
        pool.held["a"] += 1
        queue.put_back(turn[0], turn[1] + 1)
    assert pool.looks <= 2 * 100 + 1
