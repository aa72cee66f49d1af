"""The gang of equal members that has as many cards as a claim that no node can hold."""

from __future__ import annotations

import numpy as np

from gpupool.model.claim import EvenGang
from gpupool.scheduling.snapshot.columns import Ints


def find_even_gang(count: int, cards_by_node: Ints) -> EvenGang | None:
    """Find the gang that has `count` cards on as few nodes as possible, one member on a node.

    A member has more than half of what the largest node has: of smaller members a node would have
    several, and the command would run more often than on the nodes that the cards need.

    Args:
        count: How many cards in all.
        cards_by_node: How many cards that can be used each node has.

    Returns:
        The gang; None where the cards do not divide evenly, or where too few nodes hold a member.
    """
    most = int(cards_by_node.max(initial=0))
    for each in range(most, most // 2, -1):
        if count % each == 0 and int(np.count_nonzero(cards_by_node >= each)) >= count // each:
            return EvenGang(count // each, each)
    return None
