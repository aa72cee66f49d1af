"""Which mechanism a claim would get on the cards of a snapshot, for explanations."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from gpupool.model.claim import RejectionReason, Shape
from gpupool.scheduling.filtering.feasibility import CODE, FITS, judge_kind
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.filtering.isolation import list_offered_cards
from gpupool.scheduling.mechanism_choice.pool_survey import CardGroup, survey_cards
from gpupool.scheduling.snapshot.snapshot import Snapshot


def survey_mechanisms(
    snapshot: Snapshot, shape: Shape, tenant: str, only: Collection[str] = ()
) -> tuple[CardGroup, ...]:
    """Return what a claim would get on each kind of card that it may use.

    Args:
        snapshot: The pool.
        shape: What the claim asks for.
        tenant: Its tenant.
        only: Uuids of the cards that count; empty for all of the model, vendor and labels asked.
    """
    cards = snapshot.cards
    if only:
        chosen = set(only)
        rows = [row for row, uuid in enumerate(cards.uuids) if uuid in chosen]
    else:
        why = judge_kind(shape, FreeCapacity(cards))
        counted = np.isin(why, [FITS, *(CODE[reason] for reason in _COUNTED)])
        rows = np.flatnonzero(counted).tolist()
    offered = list_offered_cards(cards, rows, _list_owners(snapshot))
    return survey_cards(shape, shape.needs, offered, tenant)


#: Reasons of cards that a switch of their mode or another size would change.
_COUNTED = (RejectionReason.ISOLATION, RejectionReason.PROFILE, RejectionReason.PARTITIONED)


def _list_owners(snapshot: Snapshot) -> dict[int, tuple[str, ...]]:
    """Return the tenants that have shares of each card, by row."""
    owners = dict[int, set[str]]()
    for job in snapshot.running:
        for row in job.rows:
            owners.setdefault(row, set()).add(job.tenant)
    return {row: tuple(sorted(tenants)) for row, tenants in owners.items()}
