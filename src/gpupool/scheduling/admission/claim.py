"""Admission of a claim: whether it can ever be placed, judged once when it is submitted.

Only what no waiting would change is rejected here; what is merely in use now waits, and `cycle`
explains why. Cards that are observed, draining or not healthy count, because an operator can open
them. Nothing here raises: the caller maps `dominant` to its error class (MODEL, LABELS,
CARD_TOO_SMALL, TOO_FEW_CARDS or QUOTA).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from gpupool.model.catalogue import CATALOGUE
from gpupool.model.claim import Rejection, Shape
from gpupool.model.quota import QuotaBranch, ResourceAmount
from gpupool.scheduling.admission.nearest_shape import find_nearest_shapes
from gpupool.scheduling.filtering.feasibility import ClaimFit
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.quota.pool_size import measure_pool
from gpupool.scheduling.quota.queue_order import compute_headroom
from gpupool.scheduling.quota.quota_rejections import (
    find_rejection_for_ever,
)
from gpupool.scheduling.quota.tree import QuotaTree
from gpupool.scheduling.reasons import locality
from gpupool.scheduling.reasons.rejection import explain_never
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.snapshot import TenantView


def judge_claim(
    shape: Shape,
    tenant: TenantView,
    cards: CardTable,
    known_models: Iterable[str] = tuple(CATALOGUE),
    *,
    tenant_name: str,
    cohorts: Mapping[str, QuotaBranch] | None = None,
    memory_typed: str | None = None,
) -> Rejection | None:
    """Return the rejection of a claim that can never be placed, or None.

    Args:
        shape: what the claim asks for.
        tenant: its tenant's quota.
        cards: the cards of the pool.
        known_models: model names beyond this pool, for a better hint.
        tenant_name: the tenant's name.
        cohorts: the inner nodes of the quota tree.
        memory_typed: the memory as the user wrote it, which a rejection repeats.

    Returns:
        The rejection, with the nearest shape that could be placed now.
    """
    free = FreeCapacity(cards)
    fit = ClaimFit(shape, free)
    # Only this tenant: what others hold or are guaranteed may change, so it refuses nothing for
    # ever.
    tree = QuotaTree({tenant_name: tenant}, cohorts or {}, measure_pool(cards))
    said = explain_never(fit, free, known_models, memory_typed) or locality.explain_never(fit, free)
    said = said or find_rejection_for_ever(
        tree, tenant_name, tree.compute_claim_use(shape, _compute_least(fit))
    )
    return said and replace(
        said,
        nearest=find_nearest_shapes(shape, free, compute_headroom(tree, tenant_name)).choose_best(
            shape
        ),
    )


def _compute_least(fit: ClaimFit) -> ResourceAmount:
    return ResourceAmount(fit.shape.held_milli * fit.shape.count, fit.least_bytes)
