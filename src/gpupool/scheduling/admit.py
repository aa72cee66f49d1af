"""Judged once, when a claim is submitted: can it be placed at all, ever?

Only what no waiting would change is refused here; what is merely in use now waits and is told
why by `cycle`. Cards that are observed, draining or not healthy count as cards: an operator
can open them. Nothing here raises: the caller turns `dominant` into its error class
(MODEL, LABELS, CARD_TOO_SMALL, TOO_FEW_CARDS or QUOTA).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpupool.model.catalogue import CATALOGUE
from gpupool.model.claim import Rejection, Shape
from gpupool.model.quota import Amount
from gpupool.scheduling.fairness import budget
from gpupool.scheduling.feasible import Fit
from gpupool.scheduling.free import Free
from gpupool.scheduling.nearest import near
from gpupool.scheduling.refusal import beyond_quota, never
from gpupool.scheduling.snapshot import Cards, TenantView


def judge(
    shape: Shape,
    tenant: TenantView,
    cards: Cards,
    known_models: Iterable[str] = tuple(CATALOGUE),
    *,
    tenant_name: str,
    memory_typed: str | None = None,
) -> Rejection | None:
    """The refusal of a claim that can never be placed, or None.

    `known_models` are names beyond this pool, for a better hint; `memory_typed` is the memory as its
    asker wrote it, which a refusal repeats. `nearest` is what could be placed now instead.
    """
    free = Free(cards)
    fit = Fit(shape, free)
    said = never(fit, free, known_models, memory_typed) or beyond_quota(_least(fit), tenant_name, tenant)
    return said and replace(said, nearest=near(shape, free, budget(tenant)).best(shape))


def _least(fit: Fit) -> Amount:
    return Amount(fit.shape.held_milli * fit.shape.count, fit.least_bytes)
