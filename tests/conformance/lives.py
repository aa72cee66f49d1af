"""Random lives of small pools with guarantees: does every plan after an event come to rest, and
does each get its own?

Claims of any tenant, priority and kind come and jobs end. After each event plans are made until one
changes nothing. A life is broken when that does not happen, when a claim inside what its tenant is
guaranteed waits at rest, or when jobs were told to leave more than once for such a claim.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from random import Random

from gpupool.base.units import GIB, WHOLE
from gpupool.model.claim import Shape
from gpupool.model.gang import MEMBER, Gang, GangGroup, GangRole
from gpupool.model.quota import GPU, WEIGHT, Quota, QuotaBranch, QuotaLimit, ResourceAmount
from gpupool.scheduling.preemption.victims import PreemptionRules
from gpupool.scheduling.snapshot.claims import ClassKey, WaitingClass
from gpupool.scheduling.snapshot.snapshot import Snapshot, TenantView
from gpupool.simulation.replay.world import SimulatedJob, SimulatedPool, build_card_table
from gpupool.simulation.traces.trace import TraceNode
from tests.conformance.play import Player
from tests.conformance.pool import START_NS, Pool

EVENTS = 8
MOST_ROUNDS = 40
"""Plans after one event: each eviction is for one claim, and a life has fewer of those."""
CARD = Shape(WHOLE, 40 * GIB)
PRIORITIES = (-10, 0, 0, 0, 10, 100)


@dataclass(frozen=True)
class Broken:
    """What a life did that it must not; `seed` makes it again."""

    seed: int
    sentence: str


def lives(first: int, count: int) -> Iterator[Broken]:
    """What broke in so many lives."""
    return (broken for seed in range(first, first + count) if (broken := live(seed)) is not None)


def live(seed: int) -> Broken | None:
    """One life; None where nothing broke."""
    sentence = _Life(Random(seed)).live()
    return None if sentence is None else Broken(seed, sentence)


class _Life:
    def __init__(self, draw: Random) -> None:
        self._draw = draw
        self._number = 0
        nodes = [draw.randint(1, 4) for _ in range(draw.randint(1, 3))]
        self._cards = sum(nodes)
        cards = build_card_table(
            [TraceNode(f"n{n}", (("H100", 80 * GIB),) * count) for n, count in enumerate(nodes)]
        )
        tenants, cohorts = self._quotas()
        world = SimulatedPool(Snapshot(0, cards, tenants, (), cohorts=cohorts), now_ns=START_NS)
        self._claim_of = dict[str, str]()
        rules = PreemptionRules(protected_s=0, per_hour=None, grace_s=0, fair=draw.random() < 0.7)
        self._player = Player(Pool(world, self._claim_of, ()), rules)
        self._guaranteed: Counter[str] = Counter()
        """Claims that came inside a guarantee."""

    def live(self) -> str | None:
        for _ in range(EVENTS):
            self._happen()
            if (broken := self._settle()) is not None:
                return broken
        return None

    # --- what happens --------------------------------------------------------------------

    def _quotas(self) -> tuple[dict[str, TenantView], dict[str, QuotaBranch]]:
        """Parts that add up to at most the pool; some tenants have none, some share a cohort."""
        draw, left = self._draw, self._cards
        tenants = dict[str, TenantView]()
        for n in range(draw.randint(2, 4)):
            nominal = draw.randint(0, left)
            left -= nominal
            borrowing = draw.choice((None, None, 0, 1))
            quota = (
                Quota()
                if draw.random() < 0.15
                else Quota.from_limits({GPU: QuotaLimit(WHOLE * nominal, _milli(borrowing))})
            )
            tenants[f"t{n}"] = TenantView(
                quota, ResourceAmount(), None, WEIGHT * draw.randint(1, 3)
            )
        if draw.random() < 0.3:
            inside = [name for name in ("t0", "t1") if GPU in tenants[name].quota.limits]
            part = sum(tenants[name].quota.limits[GPU].nominal or 0 for name in inside)
            tenants |= {name: replace(tenants[name], cohort="lab") for name in inside}
            return tenants, {
                "lab": QuotaBranch(
                    None, Quota.from_limits({GPU: QuotaLimit(part, _milli(draw.choice((None, 1))))})
                )
            }
        return tenants, {}

    def _happen(self) -> None:
        world = self._player.pool.world
        if world.running and self._draw.random() < 0.25:
            name = self._draw.choice(sorted(world.running))
            job = world.running[name]
            world.release_job(name, self._player.now_ns)
            if job.gang is not None:  # a gang that lost a member ends with it
                for other in [one for one in world.running if world.running[one].gang is job.gang]:
                    world.release_job(other, self._player.now_ns)
                self._forget_waiting(job.gang.id)
            return
        for _ in range(self._draw.randint(1, 3)):
            world.enqueue_jobs(self._claim())

    def _forget_waiting(self, gang: str) -> None:
        world = self._player.pool.world
        for job in [
            job for job in world.list_waiting() if job.gang is not None and job.gang.id == gang
        ]:
            world._dequeue_job(job.id)

    def _claim(self) -> list[SimulatedJob]:
        """A card, or a gang of members with one each."""
        draw = self._draw
        self._number += 1
        name, tenant = f"c{self._number}", draw.choice(sorted(self._player.pool.world.tenants))
        members = draw.choice((1, 1, 2, 3))
        names = [name] if members == 1 else [f"{name}-{n}" for n in range(members)]
        gang = None
        if members > 1:
            role = GangRole(MEMBER, CARD, draw.randint(1, members), members)
            gang = Gang(name, GangGroup("all", (role,)), tuple(names))
        preemptible = draw.random() < 0.7
        key = ClassKey(
            tenant, draw.choice(PRIORITIES), CARD, None, name if gang else "", None, preemptible
        )
        self._claim_of |= dict.fromkeys(names, name)
        at_ns = self._player.now_ns + self._number
        return [SimulatedJob(one, key, CARD, at_ns, None, gang, preemptible) for one in names]

    # --- what must be so -----------------------------------------------------------------

    def _settle(self) -> str | None:
        self._player.told.clear()
        self._player.placed.clear()
        begun = self._player.snapshot()
        for _ in range(MOST_ROUNDS):
            if not self._player.round():
                waits = sorted(_inside(self._player.snapshot(), self._player))
                return (
                    f"inside a guarantee and waits: {waits}" if waits else self._told_twice(begun)
                )
        return f"still changes after {MOST_ROUNDS} plans"

    def _told_twice(self, begun: Snapshot) -> str | None:
        """Seats that were left for a claim may go to an owner of higher priority; the claim gets
        others then."""
        told, placed = self._player.told, self._player.placed
        if max(told.values(), default=0) <= 1:
            return None
        inside = _inside(begun, self._player)
        twice = sorted(
            claim
            for claim, priority in inside
            if told[claim] > 1 + sum(other > priority for other in placed.values())
        )
        return f"others left more than once for {twice}" if twice else None


def _inside(seen: Snapshot, player: Player) -> Iterator[tuple[str, int]]:
    """Claims, with their priority, whose next start would be inside what their tenant is
    guaranteed.

    Priority orders those whom one node guarantees the same: where one of them that borrows is not
    of lower priority, seats may be kept for it, and the others are left out.
    """
    if not seen.waiting:
        return
    quotas = player.quotas(seen)
    if not quotas.tree.resources:
        return
    inside = list[WaitingClass]()
    borrowers = defaultdict[Hashable, list[int]](list)
    for one in seen.waiting:
        least = ResourceAmount(WHOLE * _least(one, seen))
        if quotas.is_borrowing(one.tenant, one.shape, least):
            borrowers[quotas.tree.list_guarantors(one.tenant)].append(one.priority)
        elif least.gpu_milli:
            inside.append(one)
    for one in inside:
        if one.priority > max(
            borrowers[quotas.tree.list_guarantors(one.tenant)], default=one.priority - 1
        ):
            yield (one.gang.id if one.gang else one.job_ids[0]), one.priority


def _milli(cards: int | None) -> int | None:
    return None if cards is None else WHOLE * cards


def _least(waiting: WaitingClass, seen: Snapshot) -> int:
    """Members that start together at least; none is needed of a gang that runs."""
    if waiting.gang is None:
        return 1
    run = sum(job.gang == waiting.gang.id for job in seen.running)
    return max(0, waiting.gang.minimum - run)
