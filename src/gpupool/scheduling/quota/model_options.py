"""What a claim may use where quotas limit single card models: one option per kind of card.

A claim that names no model uses no model's quota for certain, so one amount cannot judge it. It is
inside its tenant's guarantee where one of its options is. Reclaim then looks only at cards of that
option, and the claim is placed on them if possible: on another kind it would borrow and could lose
its seats again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpupool.model.claim import Shape
from gpupool.model.quota import ResourceAmount
from gpupool.scheduling.filtering.feasibility import CardKind
from gpupool.scheduling.quota.role_amounts import split_by_role
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.quota.tree_node import Use


def list_uses_by_model(tree: QuotaTree, shape: Shape, least: ResourceAmount) -> list[Use]:
    """Return what the claim would hold of every resource, by kind of card.

    Where no kind of card is known, the only option is what the claim asks for. A gang whose roles
    may use different kinds of cards also has one option: what its roles use for certain.
    """
    certain = tree.compute_claim_use(shape, least)
    if not tree.models:
        return [certain]
    allowed = set[tuple[CardKind, ...]]()
    for role, _ in split_by_role(shape, least):
        allowed.add(tree.size.list_matching_kinds(role.model, role.selector.vendor))
    # The product of options grows with each role; a gang of mixed kinds is judged by what is certain.
    if len(allowed) != 1:
        return [certain]
    found = dict.fromkeys(tuple(tree.list_resources_of_kind(kind)) for kind in allowed.pop())
    return [{**certain, **dict.fromkeys(named, least.gpu_milli)} for named in found] or [certain]


def select_guaranteed_uses(tree: QuotaTree, tenant: str, every: Iterable[Use]) -> list[Use]:
    """Return the options that are inside the tenant's guarantee."""
    return [use for use in every if not tree.is_borrowing(tenant, use)]


def narrow_to_guaranteed_models(
    tree: QuotaTree, tenant: str, shape: Shape, least: ResourceAmount
) -> Shape | None:
    """Narrow the shape to the models on which it borrows nothing; None where that is every model or
    none.
    """
    if not tree.models:
        return None
    kinds = tree.size.list_matching_kinds(shape.model, shape.selector.vendor)
    certain = tree.compute_claim_use(shape, least)
    own = list[str]()
    for kind in kinds:
        named = dict.fromkeys(tree.list_resources_of_kind(kind), least.gpu_milli)
        if not tree.is_borrowing(tenant, {**certain, **named}):
            own.append(kind.model)
    return replace(shape, model="|".join(dict.fromkeys(own))) if 0 < len(own) < len(kinds) else None


def frees_needed_models(tree: QuotaTree, way: Use, taken: Use) -> bool:
    """Whether what is given back is of a model that the claim would use that way."""
    named = [resource for resource in tree.models if way.get(resource)]
    return not named or any(taken.get(resource) for resource in named)
