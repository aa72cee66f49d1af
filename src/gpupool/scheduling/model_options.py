"""What a claim may take where quotas are of card models: one way for each kind of card that it may be placed on.

A claim that names no model takes no model's part for certain, so it cannot be judged by one amount. It is inside what
its tenant is guaranteed where one of its ways is; and what it may take back then is on cards of that way.
"""

from __future__ import annotations

from collections.abc import Iterable

from gpupool.model.claim import Shape
from gpupool.model.quota import Amount
from gpupool.scheduling.quota_node import Use
from gpupool.scheduling.quota_tree import Tree
from gpupool.scheduling.role_amounts import by_role


def ways(tree: Tree, shape: Shape, least: Amount) -> list[Use]:
    """What the claim would hold of every resource, by kind of card; of cards of no known kind, what it asks for.

    A gang whose roles may be placed on different kinds of cards has one way: what its roles take for certain.
    """
    certain = tree.ask(shape, least)
    if not tree.models:
        return [certain]
    allowed = {tree.size.matching(one.model, one.selector.vendor) for one, _ in by_role(shape, least)}
    if len(allowed) != 1:
        return [certain]
    found = dict.fromkeys(tuple(tree.of_kind(kind)) for kind in allowed.pop())
    return [{**certain, **dict.fromkeys(named, least.gpu_milli)} for named in found] or [certain]


def inside(tree: Tree, tenant: str, every: Iterable[Use]) -> list[Use]:
    """The ways that are inside what the tenant is guaranteed."""
    return [use for use in every if not tree.borrows(tenant, use)]


def helps(tree: Tree, way: Use, taken: Use) -> bool:
    """Whether what is given back is of the models that the claim would take that way."""
    named = [resource for resource in tree.models if way.get(resource)]
    return not named or any(taken.get(resource) for resource in named)
