"""A change of a quota tree is undone alone, whatever came after it."""

from __future__ import annotations

import pytest

from gpupool.model.quota import GPU
from gpupool.scheduling.quota.tree_change import QuotaChange
from tests.support.quota_builders import gpus, member, tree


@pytest.mark.parametrize("sign", [1, -1])
def test_a_change_is_undone_after_later_ones_and_leaves_those(sign: int) -> None:
    found = tree("1x8xH200", nlp=member(gpu=(8, 0)), web=member())
    found.add_use("nlp", gpus(3))
    change = QuotaChange.apply_to(found, "nlp", gpus(2), sign, firm=False)
    assert found.get_room("nlp", GPU) == 5000 - sign * 2000
    found.add_use("nlp", gpus(1))
    change.undo(found)
    assert found.leaves["nlp"].held[GPU] == 4000


def test_a_firm_change_counts_among_what_may_not_be_preempted() -> None:
    found = tree("1x8xH200", nlp=member(gpu=8))
    assert found.firm is not None
    change = QuotaChange.apply_to(found, "nlp", gpus(2), 1, firm=True)
    assert found.firm.leaves["nlp"].held[GPU] == 2000
    change.undo(found)
    assert found.firm.leaves["nlp"].held[GPU] == 0
    QuotaChange.apply_to(found, "nlp", gpus(2), 1, firm=False)
    assert found.firm.leaves["nlp"].held[GPU] == 0
