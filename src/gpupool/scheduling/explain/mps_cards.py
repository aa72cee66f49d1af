"""Names the cards that a claim cannot use because they serve MPS clients of one owner."""

from __future__ import annotations

import numpy as np

from gpupool.model.claim import RejectionReason, describe_owner
from gpupool.scheduling.engine.cycle_state import CycleState
from gpupool.scheduling.filtering.feasibility import CODE
from gpupool.scheduling.filtering.free_capacity import FreeCapacity
from gpupool.scheduling.reasons import help_messages
from gpupool.scheduling.snapshot.claims import WaitingClass

#: So many cards are named.
LISTED_CARDS = 3


def list_mps_cards(waiting: WaitingClass, after: CycleState) -> list[str]:
    """Return a sentence for each of the first cards; none for a gang, which has many shapes."""
    if waiting.gang is not None:
        return []
    free = after.transaction.free
    why = after.transaction.get_fit(waiting.shape).why
    rows = np.flatnonzero(why == CODE[RejectionReason.SERVES_MPS])[:LISTED_CARDS]
    sentences = list[str]()
    for row in rows.tolist():
        owner = describe_owner(free.owners.get_owner(row), waiting.tenant)
        sentences.append(help_messages.describe_mps_card(_name_card(free, row), owner))
    return sentences


def _name_card(free: FreeCapacity, row: int) -> str:
    node = int(free.cards.node[row])
    place = int(np.flatnonzero(free.get_node_rows(node) == row)[0])
    return f"{free.cards.nodes[node]}:{place}"
