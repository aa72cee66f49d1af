"""What a claim may take where quotas are of card models: one way for each kind of card that it may be placed on.

A claim that names no model takes no model's part for certain, so it cannot be judged by one amount. It is inside what
its tenant is guaranteed where one of its ways is; what it may take back then is on cards of that way, and that is where
it is placed if it can be: on another it would borrow what it need not, and be taken back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

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


def own_models(tree: Tree, tenant: str, shape: Shape, least: Amount) -> Shape | None:
    """The shape kept to the models on which it is inside; None where that is every model, or none."""
    if not tree.models:
        return None
    kinds = tree.size.matching(shape.model, shape.selector.vendor)
    certain = tree.ask(shape, least)
    own = [
        kind.model
        for kind in kinds
        if not tree.borrows(tenant, {**certain, **dict.fromkeys(tree.of_kind(kind), least.gpu_milli)})
    ]
    return replace(shape, model="|".join(dict.fromkeys(own))) if 0 < len(own) < len(kinds) else None


def helps(tree: Tree, way: Use, taken: Use) -> bool:
    """Whether what is given back is of the models that the claim would take that way."""
    named = [resource for resource in tree.models if way.get(resource)]
    return not named or any(taken.get(resource) for resource in named)
