"""Which gang is offered in place of more cards than a node has."""

import numpy as np
import pytest

from gpupool.model.claim import EvenGang
from gpupool.scheduling.reasons.even_gang import find_even_gang


@pytest.mark.parametrize(
    ("count", "nodes", "gang"),
    [
        (16, [8, 8], EvenGang(2, 8)),
        (12, [8, 8], EvenGang(2, 6)),
        (20, [8, 8, 8, 8], EvenGang(4, 5)),
        (3, [1, 1, 1, 1], EvenGang(3, 1)),
        # The large node decides how large a member is, and a small one holds none of that size.
        (16, [8, 7], None),
        (14, [8, 7], EvenGang(2, 7)),
        (22, [8, 8, 8], None),
        (17, [8, 8, 8], None),
        (32, [8, 8], None),
        (4, [0, 0], None),
        (4, [], None),
    ],
)
def test_a_gang_has_one_member_on_a_node(
    count: int, nodes: list[int], gang: EvenGang | None
) -> None:
    assert find_even_gang(count, np.array(nodes, dtype=np.int64)) == gang
