"""Which seats would be taken back at once: whose job must not be evicted, and for which claim nobody is.

An eviction is worth its loss only if the claim that it is for keeps the seats. Two jobs that evict each other in turns
have an eviction among them of which this is not so.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpupool.model.claim import Shape
from gpupool.model.quota import Amount
from gpupool.scheduling.model_options import inside, ways
from gpupool.scheduling.quota_node import Use
from gpupool.scheduling.quota_tree import Tree
from gpupool.scheduling.quotas import Quotas
from gpupool.scheduling.reclaim import Lot, divided
from gpupool.scheduling.snapshot import Running

Ask = tuple[str, Shape, Amount]
"""Of a claim that waits: its tenant, its shape, and the least that it will hold."""


def kept_inside(quotas: Quotas, running: Iterable[Running], waiting: Iterable[Ask]) -> frozenset[str]:
    """The jobs in whose place a claim that waits would be inside what its tenant is guaranteed.

    Where a tenant that is guaranteed nothing there evicted one of them, that claim would take the seats back.
    """
    lots = divided(quotas.tree, running, quotas.cards)[1]
    if not lots:
        return frozenset()
    asks = [(tenant, ways(quotas.tree, shape, least)) for tenant, shape, least in waiting]
    return frozenset(job.job for lot in lots if _makes_room_inside(quotas.tree, lot, asks) for job in lot.jobs)


def _makes_room_inside(tree: Tree, lot: Lot, asks: Iterable[tuple[str, list[Use]]]) -> bool:
    alike = [(name, uses) for name, uses in asks if tree.guaranteed_alike(name, lot.tenant)]
    before = tree.mark()
    tree.give(lot.tenant, lot.use)
    found = any(inside(tree, name, uses) for name, uses in alike)
    tree.rollback(before)
    return found


def has_quota_beside_collected(
    quotas: Quotas, tenant: str, shape: Shape, least: Amount, gone: Iterable[Running]
) -> bool:
    """Whether the claim would have quota once these have left, even if all that collect quota started first.

    A claim that collects may find an earlier start once these have left. Cards are not looked at.
    """
    collected = [one for one in quotas.later if one.collects]
    if not collected:
        return True
    mark = quotas.mark()
    for job in gone:
        quotas.release(job)
    for one in collected:
        quotas.tree.take(one.tenant, one.use, firm=one.firm)
    short = [side.exhausted(tenant, side.ask(shape, least)) for side in quotas.sides(quotas.tree)]
    quotas.rollback(mark)
    total = short[0]
    return (total is None or total.node.parent is None) and not any(short[1:])
