"""Judged once, when a claim is submitted: can it be placed at all, ever?

Only what no waiting would change is refused here; what is merely in use now waits and is told
why by `cycle`. Cards that are observed, draining or not healthy count as cards: an operator
can open them. Nothing here raises: the caller turns `dominant` into its error class
(MODEL, LABELS, CARD_TOO_SMALL, TOO_FEW_CARDS or QUOTA).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpupool.model.catalogue import CATALOGUE
from gpupool.model.claim import Rejection, Shape
from gpupool.model.quota import Amount, Branch
from gpupool.scheduling import refusal_near
from gpupool.scheduling.fairness import room
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.nearest import near
from gpupool.scheduling.pool_size import pool_size
from gpupool.scheduling.quota_tree import Tree
from gpupool.scheduling.quotas import beyond
from gpupool.scheduling.refusal import never
from gpupool.scheduling.snapshot import Cards, TenantView


def judge(
    shape: Shape,
    tenant: TenantView,
    cards: Cards,
    known_models: Iterable[str] = tuple(CATALOGUE),
    *,
    tenant_name: str,
    cohorts: Mapping[str, Branch] | None = None,
    memory_typed: str | None = None,
) -> Rejection | None:
    """The refusal of a claim that can never be placed, or None.

    `known_models` are names beyond this pool, for a better hint; `memory_typed` is the memory as its
    asker wrote it, which a refusal repeats. `nearest` is what could be placed now instead.
    """
    free = Free(cards)
    fit = Fit(shape, free)
    tree = Tree({tenant_name: tenant}, cohorts or {}, pool_size(cards))
    said = never(fit, free, known_models, memory_typed) or refusal_near.never(fit, free)
    said = said or beyond(tree, tenant_name, tree.ask(shape, _least(fit)))
    return said and replace(said, nearest=near(shape, free, room(tree, tenant_name)).best(shape))


def _least(fit: Fit) -> Amount:
    return Amount(fit.shape.held_milli * fit.shape.count, fit.least_bytes)
