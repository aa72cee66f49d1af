"""Which cards isolate a claim as it demands, by the offers in the snapshot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from gpupool.model.claim import Shape
from gpupool.model.isolation.mechanism_offer import NO_OFFERS
from gpupool.scheduling.mechanism_choice.choice import OfferedCard, can_serve
from gpupool.scheduling.snapshot.cards import CardTable
from gpupool.scheduling.snapshot.columns import Bools


def find_serving_cards(shape: Shape, cards: CardTable) -> Bools:
    """Return a mask of the cards that serve the claim without a switch of their mode."""
    served = np.zeros(len(cards), dtype=np.bool_)
    # Cards that are alike share one object, so a pool of ten thousand has a few answers.
    answers = dict[tuple[int, int], bool]()
    for row, offers in cards.offers.items():
        size = int(cards.memory_bytes[row])
        key = (id(offers), size)
        if key not in answers:
            answers[key] = can_serve(shape, shape.needs, size, offers)
        served[row] = answers[key]
    return served


def list_offered_cards(
    cards: CardTable, rows: Sequence[int], owners: Mapping[int, tuple[str, ...]]
) -> list[OfferedCard]:
    """List cards with their offers, by uuid.

    Args:
        cards: The cards of the pool.
        rows: The rows of the cards to list.
        owners: By row, the tenants that have shares of the card.
    """
    listed = []
    for row in rows:
        card = OfferedCard(
            cards.uuids[row],
            cards.models[cards.model[row]],
            int(cards.memory_bytes[row]),
            cards.offers.get(row, NO_OFFERS),
            owners.get(row, ()),
        )
        listed.append(card)
    return listed
