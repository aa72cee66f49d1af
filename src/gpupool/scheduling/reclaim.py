"""Which running jobs may be taken back for a claim that is inside what its tenant is guaranteed.

Of those whom one node guarantees something together, the jobs that may not be preempted, then those of higher priority,
then those that started first, and fit in it are their own; the rest runs on borrowed quota. Only borrowed jobs that
said they may be preempted are given back, a gang as a whole, and only where every node between the borrower and the
branch that it shares with the claimant holds more than its nominal part: within its own cohort a tenant may use what
its siblings leave. Whether a victim's seats help at all is not judged here. Priority does not protect: who borrows
takes that on. What may not be preempted runs to its end: a command that was not meant to be run twice never is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpupool.model.quota import GPU, MEMORY, Resource
from gpupool.scheduling.fairness import Standing, standing
from gpupool.scheduling.feasible import kinds_of
from gpupool.scheduling.quota_node import Node, Use
from gpupool.scheduling.quota_tree import Tree
from gpupool.scheduling.snapshot import Cards, Running
from gpupool.scheduling.units import units

Parts = list[tuple[Node, Resource, int]]
"""What something takes of each resource, and who guarantees that."""


@dataclass(frozen=True)
class Lot:
    """What is taken back together: one job, a gang, or a member that its gang goes on without."""

    jobs: tuple[Running, ...]
    use: Use
    core: str = ""
    """Of such a member, the gang."""

    @property
    def tenant(self) -> str:
        return self.jobs[0].tenant

    @property
    def preemptible(self) -> bool:
        """Whether all of it may be interrupted and started again."""
        return all(job.preemptible for job in self.jobs)

    @property
    def priority(self) -> int:
        """The highest of its jobs."""
        return max(job.priority for job in self.jobs)

    @property
    def age(self) -> tuple[int, str]:
        """Oldest first."""
        return min((job.started_ns, job.job) for job in self.jobs)


def reclaimable(tree: Tree, tenant: str, use: Use, running: Iterable[Running], cards: Cards) -> tuple[Lot, ...]:
    """What may be given back to the tenant's claim, in the order to take it; empty when the claim itself borrows.

    The tenant that is most over its fair share comes first, of its lots the youngest of the lowest priority. Any
    subset may be taken; `tree` is as it was when this returns.
    """
    if tree.borrows(tenant, use):
        return ()
    mine = set(map(id, tree.leaves[tenant].path()))
    owing = (lot for name, found in borrowed(tree, running, cards).items() if name != tenant for lot in found)
    return in_turn(tree, [lot for lot in owing if lot.preemptible], lambda leaf: _over(leaf, mine))


def in_turn(tree: Tree, found: Iterable[Lot], over: Callable[[Node], bool]) -> tuple[Lot, ...]:
    """The lots in the order to take them, each as long as its tenant is `over`; the rest is left out."""
    left: dict[str, list[Lot]] = defaultdict(list)
    for lot in found:
        left[lot.tenant].append(lot)
    left = {name: _order(each) for name, each in left.items()}
    taken, before = list[Lot](), tree.mark()
    while name := _next(tree, left, over):
        lot = left[name].pop()
        tree.give(name, lot.use)
        taken.append(lot)
    tree.rollback(before)
    return tuple(taken)


def lots(running: Iterable[Running], tree: Tree, cards: Cards) -> list[Lot]:
    """Running jobs as they would be given back; jobs of tenants that the tree does not know are left out."""
    found = list[Lot]()
    spare = set[str]()
    for unit in units(job for job in running if job.tenant in tree.leaves):
        spare |= {job.job for job in unit.spare}
        core = unit.jobs[0].gang if unit.jobs[0].job in spare else ""
        found.append(Lot(unit.jobs, _sum(used(job, tree, cards) for job in unit.jobs), core))
    return found


def used(job: Running, tree: Tree, cards: Cards) -> dict[Resource, int]:
    """What a running job takes of every resource that is counted."""
    return used_by(zip(job.rows, job.milli, job.sizes, strict=True), tree, cards)


def used_by(seats: Iterable[tuple[int, int, int]], tree: Tree, cards: Cards) -> dict[Resource, int]:
    """The same of seats: the row of each one's card, its milli-devices and its bytes."""
    found: dict[Resource, int] = defaultdict(int)
    if not tree.models:  # then the card does not matter
        for _, milli, size in seats:
            found[GPU] += milli
            found[MEMORY] += size
        return found
    kinds = kinds_of(cards)
    for row, milli, size in seats:
        for resource, amount in tree.seats([kinds[cards.model[row]]], milli, size).items():
            found[resource] += amount
    return found


def _sum(uses: Iterable[Use]) -> Use:
    found: dict[Resource, int] = defaultdict(int)
    for use in uses:
        for resource, amount in use.items():
            found[resource] += amount
    return found


def borrowed(tree: Tree, running: Iterable[Running], cards: Cards) -> Mapping[str, list[Lot]]:
    """By tenant, the lots that are not inside what is guaranteed, each of which is inside if it still fits.

    Those that may not be preempted come first, then higher priorities, then what gangs need before what they go on
    without, of equals the oldest: a tenant gives back what it needs least. One that is partly inside a tenant's own
    nominal part uses that up: others give back before it.
    """
    return divided(tree, running, cards)[0]


def divided(tree: Tree, running: Iterable[Running], cards: Cards) -> tuple[Mapping[str, list[Lot]], list[Lot]]:
    """The same, and which of those lots hold the rest of a guarantee, of which nothing else is inside."""
    inside: dict[tuple[int, Resource], int] = defaultdict(int)
    used_up: dict[tuple[int, Resource], int] = defaultdict(int)
    beyond: dict[str, list[Lot]] = defaultdict(list)
    parts_of = list[tuple[Lot, Parts]]()
    gangs = set[str]()
    for lot in sorted(lots(running, tree, cards), key=_keeping):
        parts = [(tree.owed(lot.tenant, r), r, amount) for r, amount in lot.use.items() if r in tree.resources]
        fits = all(inside[(id(node), r)] + amount <= max(0, tree.cap(node, r)) for node, r, amount in parts if amount)
        kept = fits and lot.core not in gangs
        if not kept:
            beyond[lot.tenant].append(lot)
            parts_of.append((lot, parts))
            gangs |= {job.gang for job in lot.jobs if job.gang and not lot.core}
        for node, r, amount in parts:
            inside[(id(node), r)] += amount if kept or node.tenant else 0
            used_up[(id(node), r)] += amount if kept else 0
    return beyond, list(_partly(tree, parts_of, used_up))


def _partly(tree: Tree, beyond: Iterable[tuple[Lot, Parts]], used_up: dict[tuple[int, Resource], int]) -> Iterator[Lot]:
    for lot, parts in beyond:
        if all(used_up[(id(node), r)] < tree.cap(node, r) for node, r, amount in parts if amount):
            yield lot
            for node, r, amount in parts:
                used_up[(id(node), r)] += amount


def _keeping(lot: Lot) -> tuple[bool, int, bool, tuple[int, str]]:
    """The one to keep first comes first; a gang's members that it goes on without come after what it needs."""
    return lot.preemptible, -lot.priority, bool(lot.core), lot.age


def _order(found: list[Lot]) -> list[Lot]:
    """The one to take first comes last: lowest priority, then a member that its gang goes on without, then youngest."""
    return sorted(found, key=lambda lot: (-lot.priority, bool(lot.core), lot.age))


def _next(tree: Tree, left: Mapping[str, list[Lot]], over: Callable[[Node], bool]) -> str | None:
    """The borrower that is most over its fair share, of those that still have something to give back."""

    def key(name: str) -> tuple[Standing, tuple[int, str]]:
        return standing(tree, name), left[name][-1].age

    able = [name for name, rest in left.items() if rest and over(tree.leaves[name])]
    return max(able, key=key, default=None)


def _over(leaf: Node, mine: set[int]) -> bool:
    return all(node.over() for node in leaf.path() if id(node) not in mine and node.limits)
