"""Reclaim: which running jobs may be evicted for a claim that is inside its tenant's guarantee.

Each node guarantees an amount to the tenants below it. Jobs that fit in it run on guaranteed quota:
first jobs that may not be preempted, then higher priority, then the oldest. All other jobs run on
borrowed quota. Only borrowed, preemptible jobs are given back, a gang as a whole, and only where
every node between the borrower and the branch that it shares with the claimant holds more than its
nominal part: within its own cohort a tenant may use what its siblings leave. This module does not
judge whether a victim's seats help. Priority does not protect a borrower: a tenant that borrows
accepts that. A job that may not be preempted runs to its end, because its command may not be safe
to run twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpupool.model.quota import GPU, MEMORY, Resource
from gpupool.scheduling.filtering.feasibility import list_card_kinds
from gpupool.scheduling.quota.eviction_units import list_eviction_units
from gpupool.scheduling.quota.queue_order import Standing, compute_standing
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.quota.tree_node import QuotaNode, Use
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.claims import RunningJob

#: What a lot takes of each resource, and the node that guarantees it.
GuarantorAmounts = list[tuple[QuotaNode, Resource, int]]


@dataclass(frozen=True)
class ReclaimLot:
    """What is given back together: one job, a gang, or a member that its gang does not need."""

    jobs: tuple[RunningJob, ...]
    use: Use
    #: The gang of such a member.
    core: str = ""

    @property
    def tenant(self) -> str:
        """The tenant of all its jobs."""
        return self.jobs[0].tenant

    @property
    def preemptible(self) -> bool:
        """Whether all of its jobs may be interrupted and started again."""
        return all(job.preemptible for job in self.jobs)

    @property
    def priority(self) -> int:
        """The highest priority of its jobs."""
        return max(job.priority for job in self.jobs)

    @property
    def age(self) -> tuple[int, str]:
        """A key that sorts the oldest lot first."""
        return min((job.started_ns, job.job) for job in self.jobs)


def list_reclaimable_lots(
    tree: QuotaTree, tenant: str, use: Use, running: Iterable[RunningJob], cards: CardTable
) -> tuple[ReclaimLot, ...]:
    """Return what may be given back to the tenant's claim, in the order to take it.

    Empty when the claim itself borrows. The tenant that is most over its fair share comes first; of
    its lots the youngest of the lowest priority. The caller may take any subset. `tree` is
    unchanged on return.
    """
    if tree.is_borrowing(tenant, use):
        return ()
    mine = set(map(id, tree.leaves[tenant].list_ancestors()))
    owing = list[ReclaimLot]()
    for name, found in list_borrowed_lots(tree, running, cards).items():
        if name != tenant:
            owing += [lot for lot in found if lot.preemptible]
    return order_by_turn(tree, owing, lambda leaf: _is_over_nominal(leaf, mine))


def order_by_turn(
    tree: QuotaTree, found: Iterable[ReclaimLot], over: Callable[[QuotaNode], bool]
) -> tuple[ReclaimLot, ...]:
    """Return the lots in the order to take them.

    Args:
        tree: unchanged on return.
        found: the candidates.
        over: whether a tenant still holds too much; without that its remaining lots are left out.
    """
    left: dict[str, list[ReclaimLot]] = defaultdict(list)
    for lot in found:
        left[lot.tenant].append(lot)
    left = {name: _order_for_taking(each) for name, each in left.items()}
    taken = list[ReclaimLot]()
    before = tree.mark()
    while name := _find_next_borrower(tree, left, over):
        lot = left[name].pop()
        tree.remove_use(name, lot.use)
        # Standings are compared again after each lot: the next one may be of another tenant.
        taken.append(lot)
    tree.rollback(before)
    return tuple(taken)


def list_lots(running: Iterable[RunningJob], tree: QuotaTree, cards: CardTable) -> list[ReclaimLot]:
    """Group running jobs into lots; jobs of tenants that the tree does not know are left out."""
    found = list[ReclaimLot]()
    spare = set[str]()
    for unit in list_eviction_units(job for job in running if job.tenant in tree.leaves):
        spare |= {job.job for job in unit.spare}
        core = unit.jobs[0].gang if unit.jobs[0].job in spare else ""
        found.append(
            ReclaimLot(
                unit.jobs,
                _add_up_uses(compute_job_use(job, tree, cards) for job in unit.jobs),
                core,
            )
        )
    return found


def compute_job_use(job: RunningJob, tree: QuotaTree, cards: CardTable) -> dict[Resource, int]:
    """Compute what a running job takes of every counted resource."""
    return compute_seats_use(zip(job.rows, job.milli, job.sizes, strict=True), tree, cards)


def compute_seats_use(
    seats: Iterable[tuple[int, int, int]], tree: QuotaTree, cards: CardTable
) -> dict[Resource, int]:
    """Compute what seats take of every counted resource.

    Args:
        seats: the row of each seat's card, its milli-devices and its bytes.
        tree: says which models are counted.
        cards: the cards of the pool.
    """
    found: dict[Resource, int] = defaultdict(int)
    # The usual case, and the inner loop of every trial: no look at the card.
    if not tree.models:
        for _, milli, size in seats:
            found[GPU] += milli
            found[MEMORY] += size
        return found
    kinds = list_card_kinds(cards)
    for row, milli, size in seats:
        for resource, amount in tree.compute_seats_use(
            [kinds[cards.model[row]]], milli, size
        ).items():
            found[resource] += amount
    return found


def _add_up_uses(uses: Iterable[Use]) -> Use:
    found: dict[Resource, int] = defaultdict(int)
    for use in uses:
        for resource, amount in use.items():
            found[resource] += amount
    return found


def list_borrowed_lots(
    tree: QuotaTree, running: Iterable[RunningJob], cards: CardTable
) -> Mapping[str, list[ReclaimLot]]:
    """Return by tenant the lots beyond its guarantee; each is inside if it still fits.

    Jobs that may not be preempted count first, then higher priorities, then what gangs need before
    their spare members, then the oldest: a tenant gives back what it needs least. A lot that is
    partly inside a tenant's own nominal part uses that part up: others give back before it.
    """
    return divide_by_guarantee(tree, running, cards)[0]


def divide_by_guarantee(
    tree: QuotaTree, running: Iterable[RunningJob], cards: CardTable
) -> tuple[Mapping[str, list[ReclaimLot]], list[ReclaimLot]]:
    """Return the lots beyond a guarantee by tenant, and those of them that are partly inside.

    A lot is partly inside where it holds the rest of a guarantee of which nothing else is inside.
    """
    inside: dict[tuple[int, Resource], int] = defaultdict(int)
    used_up: dict[tuple[int, Resource], int] = defaultdict(int)
    beyond: dict[str, list[ReclaimLot]] = defaultdict(list)
    parts_of = list[tuple[ReclaimLot, GuarantorAmounts]]()
    gangs = set[str]()
    for lot in sorted(list_lots(running, tree, cards), key=_order_for_keeping):
        parts: GuarantorAmounts = []
        fits = True
        for r, amount in lot.use.items():
            if r in tree.resources:
                node = tree.find_guarantor(lot.tenant, r)
                parts.append((node, r, amount))
                if amount and inside[(id(node), r)] + amount > max(0, tree.get_guarantee(node, r)):
                    fits = False
        # A spare member runs on borrowed quota if its gang does: it cannot outlive the gang.
        kept = fits and lot.core not in gangs
        if not kept:
            beyond[lot.tenant].append(lot)
            parts_of.append((lot, parts))
            gangs |= {job.gang for job in lot.jobs if job.gang and not lot.core}
        for node, r, amount in parts:
            # A lot that straddles its tenant's own part uses it up: younger lots of that tenant are
            # borrowed as a whole. A cohort's part is not used up, because a sibling's smaller lot
            # may still fit.
            inside[(id(node), r)] += amount if kept or node.tenant else 0
            used_up[(id(node), r)] += amount if kept else 0
    return beyond, list(_select_partly_guaranteed(tree, parts_of, used_up))


def _select_partly_guaranteed(
    tree: QuotaTree,
    beyond: Iterable[tuple[ReclaimLot, GuarantorAmounts]],
    used_up: dict[tuple[int, Resource], int],
) -> Iterator[ReclaimLot]:
    for lot, parts in beyond:
        if not _is_used_up(tree, parts, used_up):
            yield lot
            for node, r, amount in parts:
                used_up[(id(node), r)] += amount


def _is_used_up(
    tree: QuotaTree, parts: GuarantorAmounts, used_up: Mapping[tuple[int, Resource], int]
) -> bool:
    """Whether of any guarantee that the lot takes from nothing is left."""
    for node, r, amount in parts:
        left = tree.get_guarantee(node, r) - used_up[(id(node), r)]
        if amount and left <= 0:
            return True
    return False


def _order_for_keeping(lot: ReclaimLot) -> tuple[bool, int, bool, tuple[int, str]]:
    """The lot to keep first comes first; a gang's spare members come after what the gang needs."""
    return lot.preemptible, -lot.priority, bool(lot.core), lot.age


def _order_for_taking(found: list[ReclaimLot]) -> list[ReclaimLot]:
    """The lot to take first comes last: lowest priority, then a spare member, then the youngest."""
    return sorted(found, key=lambda lot: (-lot.priority, bool(lot.core), lot.age))


def _find_next_borrower(
    tree: QuotaTree, left: Mapping[str, list[ReclaimLot]], over: Callable[[QuotaNode], bool]
) -> str | None:
    """The borrower that is most over its fair share, among those that still have lots to give back."""

    def key(name: str) -> tuple[Standing, tuple[int, str]]:
        return compute_standing(tree, name), left[name][-1].age

    able = [name for name, rest in left.items() if rest and over(tree.leaves[name])]
    return max(able, key=key, default=None)


def _is_over_nominal(leaf: QuotaNode, mine: set[int]) -> bool:
    # Nodes above the branch that is shared with the claimant are left out: there both count.
    for node in leaf.list_ancestors():
        if id(node) not in mine and node.limits and not node.is_over_nominal():
            return False
    return True
